"""Run statistical word aligners through one function: fast_align, eflomal, and GIZA++ or MGIZA.

The tools get numbers instead of words, so that no word can be mistaken for a separator, be cut or be too long, and
shift the indices after it. They only compare words for equality: numbers change what they learn by no more than the
rounding of sums in another order.
"""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import NamedTuple

from align.baselines.fast_align import find_fast_align
from align.baselines.giza import find_giza
from align.baselines.process import Files, Job, open_text, run_program
from align.core.errors import DataError, PairError
from align.core.symmetrize import DEFAULT_METHOD, METHODS
from align.core.types import Gold, Links, Pair, Pieces, TextWarning
from align.evaluation.link_formats import parse_pharaoh
from align.io.process import python

_ALIGN = """
import sys, eflomal
source, target, forward, reverse, *priors = sys.argv[1:]
with open(source) as s, open(target) as t:
    eflomal.Aligner().align(s, t, forward, reverse, priors_input=open(priors[0]) if priors else None)
"""

_PRIORS = """
import sys, eflomal
with open(sys.argv[5], "w") as priors:
    eflomal.write_priors(priors, *eflomal.calculate_priors(*map(open, sys.argv[1:5])))
"""


def find_eflomal() -> Callable[[Job], Files]:
    """Return the function that aligns with the package."""
    if not find_spec("eflomal"):
        raise ModuleNotFoundError("eflomal is not installed: pip install eflomal (it is built with gcc and make)")
    return _eflomal


def _eflomal(job: Job) -> Files:
    """Align with the package's defaults; if the test text is separate, with the training text's counts as priors."""
    output = job.folder / "forward", job.folder / "reverse"
    run_program("eflomal", python(_ALIGN, *job.text, *output), job)
    if job.test:
        priors = job.folder / "priors"
        run_program("eflomal", python(_PRIORS, *job.text, *output, priors), job)
        run_program("eflomal", python(_ALIGN, *job.test, *output, priors), job)
    return output


Cut = Callable[[Pair], Pieces]  # function that splits a pair into pieces, e.g. `Recorder.encode`


def cut_pairs(pairs: Iterable[Pair], cut: Cut, path: Path | None = None) -> Iterator[Pair]:
    """Yield pairs whose words are the pieces of the original pairs; write the words of each piece for `join_links`."""
    with open_text(path or os.devnull, "w") as stream:
        for pair in pairs:
            encoded = cut(pair)
            sides, owners = [], []
            for ids, words in ((encoded.source, encoded.source_words), (encoded.target, encoded.target_words)):
                # `</s>`, languages and a prefix are part of no word, which is a number below 0
                pieces = [(str(piece), str(word)) for piece, word in zip(ids, words, strict=True) if word >= 0]
                sides.append(tuple(piece for piece, _ in pieces))
                owners.append(" ".join(word for _, word in pieces))
            stream.write("\t".join(owners) + "\n")
            yield Pair(sides[0], sides[1], pair.id)


def join_links(links: Iterable[tuple[Links, Links]], path: Path) -> Iterator[tuple[Links, Links]]:
    """Convert links of pieces, by the file that `cut_pairs` wrote, to links of words that have linked pieces."""
    with open_text(path) as stream:
        for (forward, reverse), line in zip(links, stream, strict=True):
            source, target = (list(map(int, side.split())) for side in line.split("\t"))
            words = [frozenset((source[i], target[j]) for i, j in direction) for direction in (forward, reverse)]
            yield words[0], words[1]


class Tool(NamedTuple):
    """A statistical aligner; pairs with more words on a side, or another ratio of lengths, are skipped."""

    find: Callable[[], Callable[[Job], Files]]  # looks for it on this computer, and returns what runs a job
    max_words: int
    max_ratio: float = math.inf
    lower: bool = False  # whether it lower-cases words
    separate: bool = True  # whether it can align a text that it was not trained on


def align_with(
    tool: str,
    pairs: Iterable[Pair],
    *,
    train: Iterable[Pair] | None = None,
    threads: int = 1,
    cut: Cut | None = None,
) -> Iterator[tuple[Links, Links]]:
    """Align pairs with a statistical tool, in both directions; see `open_run`."""
    with open_run(tool, pairs, train=train, threads=threads, cut=cut) as (_, links):
        yield from links


@contextmanager
def open_run(
    tool: str,
    pairs: Iterable[Pair],
    *,
    train: Iterable[Pair] | None = None,
    threads: int = 1,
    cut: Cut | None = None,
) -> Iterator[tuple[int, Iterator[tuple[Links, Links]]]]:
    """Run a statistical tool on pairs, in both directions, and read its links.

    Yields the number of pairs that the tool was trained on, including skipped ones, and the links of each
    pair. They can be read once, and only in this context: the tool's files are temporary. Forward links have
    at most one source word for each target word, reverse links at most one target word for each source word,
    all as (source, target); if pieces were aligned, this holds for pieces.

    Pairs that a tool cannot take get no links: blank pairs, and, with a warning, those that are too long for it. The
    limits are 1,023 words a side for eflomal, 100 words and nine times the other side for GIZA++, and 32,766 words for
    fast_align; if pairs are split, these are pieces.

    With one thread fast_align's links are the same every time; it is hardly faster with more. eflomal takes no seed:
    its links differ a little from run to run.

    Args:
        tool: a key of TOOLS.
        pairs: pairs to align; read once, and stored in temporary files.
        train: text to train on; None to train on the pairs themselves.
        threads: maximum number of threads.
        cut: splits each pair, also those to train on, into the pieces that the tool gets instead of words, e.g.
            `Recorder.encode`. Each direction's links are then converted to words.
    """
    if tool not in TOOLS:
        raise ValueError(f"the tool must be one of {', '.join(TOOLS)}; got {tool!r}")
    if train is not None and not TOOLS[tool].separate:
        hint = "append the text to the training text, and take the last lines of the links"
        raise DataError("GIZA++ aligns only what it trains on", hint=hint)
    do_job = TOOLS[tool].find()
    with tempfile.TemporaryDirectory(prefix="align-") as name:
        folder = Path(name)
        # words are numbered in order of appearance, from 2, since GIZA++ reserves 0 and 1
        numbers = defaultdict[str, int](count(2).__next__), defaultdict[str, int](count(2).__next__)
        text = (folder / "text.source", folder / "text.target")
        test, trained = None, 0
        unit, words = "pieces" if cut else "words", folder / "words"
        if train is not None:
            train_shapes = _write(tool, cut_pairs(train, cut) if cut else train, text, numbers, unit)
            trained, test = len(train_shapes) // 3, (folder / "test.source", folder / "test.target")
            if not any(train_shapes[1::3]):
                raise DataError(f"{tool} has no pair to train on")
        shapes = _write(tool, cut_pairs(pairs, cut, words) if cut else pairs, test or text, numbers, unit)
        trained += 0 if test else len(shapes) // 3
        if any(shapes[1::3]):
            links = _read(tool, do_job(Job(folder, text, test, threads)), shapes)
            yield trained, join_links(links, words) if cut else links
        else:
            yield trained, ((frozenset(), frozenset()) for _ in shapes[::3])


def lower_case(pair: Pair) -> Pair:
    """Return a pair in lower case: these tools rely on counts of words, which capitals would split."""
    return Pair(tuple(map(str.lower, pair.source)), tuple(map(str.lower, pair.target)), pair.id)


REFERENCE = "fast_align"
"""The tool whose links stand in for gold: it needs no compiler, and gives the same links every time."""


def reference_links(pairs: Iterable[Pair]) -> list[Gold]:
    """Return a statistical tool's links of a text, trained on it, in place of gold.

    Links of both directions are sure; those that grow-diag-final-and adds are possible.
    """
    return [
        Gold(forward & reverse, METHODS[DEFAULT_METHOD](forward, reverse))
        for forward, reverse in align_with(REFERENCE, map(lower_case, pairs))
    ]


def describe_tool(tool: str) -> str:
    """Return the tool, its package and its version, for signatures: `fast_align:systran-align-3.5.0`."""
    do_job = TOOLS[tool].find()
    if isinstance(do_job, partial):  # of a program
        return f"{tool}:{Path(str(do_job.args[0])).name}"
    package = {"fast_align": "systran-align"}.get(tool, tool)
    return f"{tool}:{package}-{version(package)}{'-unseeded' if tool == 'eflomal' else ''}"


def _write(
    tool: str,
    pairs: Iterable[Pair],
    files: Files,
    numbers: tuple[defaultdict[str, int], defaultdict[str, int]],
    unit: str,
) -> array[int]:
    """Append the pairs that a tool can take to its files, as numbers."""
    limits = TOOLS[tool]
    shapes = array("q")
    left_out = []
    with open_text(files[0], "a") as source, open_text(files[1], "a") as target:
        for pair in pairs:
            short, long = sorted((len(pair.source), len(pair.target)))
            if not pair.blank and (long > limits.max_words or long > limits.max_ratio * short):
                left_out.append(pair.id)
            elif not pair.blank:
                shapes.extend((pair.id, len(pair.source), len(pair.target)))
                for words, table, stream in zip((pair.source, pair.target), numbers, (source, target), strict=True):
                    line = [str(table[word.lower() if limits.lower else word]) for word in words]
                    stream.write(" ".join(line) + "\n")
                continue
            shapes.extend((pair.id, 0, 0))
    if left_out:
        lines = f"{left_out[0]:,}" + (f" and {len(left_out) - 1:,} more" if len(left_out) > 1 else "")
        why = f"more than {limits.max_words:,} {unit}"
        if limits.max_ratio < math.inf:
            why += f", or a side {limits.max_ratio:.0f} times as long as the other"
        warnings.warn(f"{tool} cannot take line {lines} ({why})", TextWarning, stacklevel=2)
    return shapes


def _read(tool: str, files: Files, shapes: array[int]) -> Iterator[tuple[Links, Links]]:
    """Read and check the links of both directions."""
    expected = sum(1 for words in shapes[1::3] if words)
    for path in files:
        with open_text(path) as stream:
            lines = sum(1 for _ in stream)
        if lines != expected:
            raise ValueError(f"{tool} gave {lines:,} lines of links for {expected:,} pairs")
    with open_text(files[0]) as forward, open_text(files[1]) as reverse:
        for line, *shape in zip(shapes[::3], shapes[1::3], shapes[2::3], strict=True):
            if not shape[0]:
                yield frozenset(), frozenset()
                continue
            try:
                links = [parse_pharaoh(next(stream).rstrip("\n")) for stream in (forward, reverse)]
                for direction, side in zip(links, (1, 0), strict=True):
                    if any(i >= shape[0] or j >= shape[1] for i, j in direction):
                        raise ValueError(f"a link beyond the last word ({shape[0]} and {shape[1]} words)")
                    if len({link[side] for link in direction}) < len(direction):
                        raise ValueError(f"a {('source', 'target')[side]} word has two links")
            except ValueError as error:
                raise PairError(f"{tool} gave impossible links: {error}", line=line) from None
            yield links[0], links[1]


TOOLS: dict[str, Tool] = {
    "fast_align": Tool(find_fast_align, max_words=32_766),  # it counts lengths in 16 bits
    "eflomal": Tool(find_eflomal, max_words=1_023, lower=True),
    "giza": Tool(find_giza, max_words=100, max_ratio=9, separate=False),  # it truncates sentences beyond either limit
}
