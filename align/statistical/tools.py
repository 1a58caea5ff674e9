"""Statistical word aligners behind one function: fast_align, eflomal, and GIZA++ or MGIZA.

The tools are given numbers for words. So no word can be taken for a separator, be cut or be too long, and shift the
indices behind it. All that they look at is which words are the same: numbers change what they learn by no more than
the rounding of sums in another order.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from align.children import python
from align.errors import PairError
from align.links.formats import parse_pharaoh
from align.statistical.giza import find_giza
from align.statistical.process import Files, Job, run
from align.types import Links, Pair, TextWarning


class Tool(NamedTuple):
    """A tool, and the pairs that it cannot take: with more words in a side, or one side so much longer."""

    find: Callable[[], Callable[[Job], Files]]
    words: int
    ratio: float = math.inf
    lower: bool = False
    apart: bool = True


class _Numbers(dict[str, int]):
    """A number for every word, in the order of appearance; from 2, since GIZA++ has a use for 0 and 1."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self) + 2
        return number


def align_with(
    tool: str, pairs: Iterable[Pair], *, train: Iterable[Pair] | None = None, append: bool = False, threads: int = 1
) -> Iterator[tuple[Links, Links]]:
    """Align pairs with a statistical tool, in both directions.

    Pairs that a tool cannot take get no links: blank ones, and with a warning those that are too long for it. These
    are sides of more than 1,023 words for eflomal, of more than 100 words or nine times the other side for GIZA++,
    and of more than 32,766 words for fast_align.

    fast_align gives the same links again with one thread, and is hardly faster with more. eflomal samples, from the
    system's random numbers: its links differ a little each time, and nothing can be set against it.

    Args:
        tool: a key of TOOLS.
        pairs: what to align; read once, and kept in temporary files.
        train: what to train on; without it, the pairs themselves.
        append: train on both, as published results on small test sets do; else on `train` alone.
        threads: how many the tool may use.

    Returns:
        For each pair, in order, forward links, where each target word has at most one source word, and backward links,
        where each source word has at most one target word; all as (source, target). The tool runs when the first is
        asked for.

    Raises:
        ModuleNotFoundError: the tool is not installed.
        ValueError: an unknown tool or use of it, nothing to train on, a tool that fails, or gives out nonsense.
    """
    if tool not in TOOLS:
        raise ValueError(f"the tool is one of {', '.join(TOOLS)}; not {tool!r}")
    if append and train is None:
        raise ValueError("there is no training text to append the pairs to")
    if train is not None and not append and not TOOLS[tool].apart:
        raise ValueError("GIZA++ aligns only what it trains on: append the pairs to the training text (--append-test)")
    return _align(tool, TOOLS[tool].find(), pairs, train, append, threads)


def lower_case(pair: Pair) -> Pair:
    """The same pair in lower case: counts of words are all that these tools have, and capitals split them."""
    return Pair(tuple(map(str.lower, pair.source)), tuple(map(str.lower, pair.target)), pair.id)


def describe_tool(tool: str) -> str:
    """The tool with where it comes from and its version, for signatures: `fast_align:systran-align-3.5.0`.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    found = TOOLS[tool].find()
    path = str(found.args[0]) if isinstance(found, partial) else ""
    package = {"fast_align": "systran-align"}.get(tool, tool)
    seeded = "" if tool != "eflomal" else "-unseeded"
    return f"{tool}:{Path(path).name}" if path else f"{tool}:{package}-{version(package)}{seeded}"


def _align(
    tool: str,
    run: Callable[[Job], Files],
    pairs: Iterable[Pair],
    train: Iterable[Pair] | None,
    append: bool,
    threads: int,
) -> Iterator[tuple[Links, Links]]:
    with tempfile.TemporaryDirectory(prefix="align-") as name:
        folder = Path(name)
        numbers = (_Numbers(), _Numbers())
        text = (folder / "text.source", folder / "text.target")
        test, skip = None, 0
        if train is not None:
            learned = sum(1 for words in _write(tool, train, text, numbers)[1::3] if words)
            if not learned:
                raise ValueError(f"{tool} has no pair to train on")
            test, skip = (None, learned) if append else ((folder / "test.source", folder / "test.target"), 0)
        shapes = _write(tool, pairs, test or text, numbers)
        if any(shapes[1::3]):
            yield from _read(tool, run(Job(folder, text, test, skip, threads)), skip, shapes)
        else:
            yield from ((frozenset(), frozenset()) for _ in shapes[::3])


def _write(tool: str, pairs: Iterable[Pair], files: Files, numbers: tuple[_Numbers, _Numbers]) -> array[int]:
    """Add the pairs that a tool can take to its files, in numbers.

    Returns:
        Line number, source words and target words of each pair, one after the other; no words where it was left out.
    """
    limits = TOOLS[tool]
    shapes = array("q")
    left_out = []
    with open(files[0], "a") as source, open(files[1], "a") as target:
        for pair in pairs:
            short, long = sorted((len(pair.source), len(pair.target)))
            if not pair.blank and (long > limits.words or long > limits.ratio * short):
                left_out.append(pair.id)
            elif not pair.blank:
                shapes.extend((pair.id, len(pair.source), len(pair.target)))
                for words, table, stream in zip((pair.source, pair.target), numbers, (source, target), strict=True):
                    line = [str(table[word.lower() if limits.lower else word]) for word in words]
                    stream.write(" ".join(line) + "\n")
                continue
            shapes.extend((pair.id, 0, 0))
    if left_out:
        warnings.warn(
            f"{tool} cannot take line {left_out[0]:,}"
            + (f" and {len(left_out) - 1:,} more" if len(left_out) > 1 else "")
            + f" (more than {limits.words:,} words"
            + (f", or a side {limits.ratio:.0f} times as long as the other)" if limits.ratio < math.inf else ")"),
            TextWarning,
            stacklevel=2,
        )
    return shapes


def _read(tool: str, files: Files, skip: int, shapes: array[int]) -> Iterator[tuple[Links, Links]]:
    """The links of both directions, checked; `skip` leaves out those of the text that was trained on before."""
    expected = skip + sum(1 for words in shapes[1::3] if words)
    for path in files:
        with open(path) as stream:
            lines = sum(1 for _ in stream)
        if lines != expected:
            raise ValueError(f"{tool} gave {lines:,} lines of links for {expected:,} pairs")
    with open(files[0]) as forward, open(files[1]) as backward:
        streams = (islice(forward, skip, None), islice(backward, skip, None))
        for line, *shape in zip(shapes[::3], shapes[1::3], shapes[2::3], strict=True):
            if not shape[0]:
                yield frozenset(), frozenset()
                continue
            try:
                links = [parse_pharaoh(next(stream).rstrip("\n")) for stream in streams]
                for found, side in zip(links, (1, 0), strict=True):
                    if any(i >= shape[0] or j >= shape[1] for i, j in found):
                        raise ValueError(f"a link beyond the last word ({shape[0]} and {shape[1]} words)")
                    if len({link[side] for link in found}) < len(found):
                        raise ValueError(f"a {('source', 'target')[side]} word has two links")
            except ValueError as error:
                raise PairError(f"{tool} gave links that cannot be: {error}", line=line) from None
            yield links[0], links[1]


_EFLOMAL = """
import sys, eflomal
source, target, forward, backward, *priors = sys.argv[1:]
with open(source) as s, open(target) as t:
    eflomal.Aligner().align(s, t, forward, backward, priors_input=open(priors[0]) if priors else None)
"""

_PRIORS = """
import sys, eflomal
with open(sys.argv[5], "w") as priors:
    eflomal.write_priors(priors, *eflomal.calculate_priors(*map(open, sys.argv[1:5])))
"""


def find_fast_align() -> Callable[[Job], Files]:
    """The program or the library, whose reader needs numpy: not before it is wanted."""
    from align.statistical.fast_align import find

    return find()


def find_eflomal() -> Callable[[Job], Files]:
    """The package."""
    if not find_spec("eflomal"):
        raise ModuleNotFoundError("eflomal is not there: pip install eflomal (it is built with gcc and make)")
    return _eflomal


def _eflomal(job: Job) -> Files:
    """The package's aligner as it comes; where the test is apart, with counts of the training text as priors."""
    output = job.folder / "forward", job.folder / "backward"
    run("eflomal", python(_EFLOMAL, *job.text, *output), job)
    if job.test:
        priors = job.folder / "priors"
        run("eflomal", python(_PRIORS, *job.text, *output, priors), job)
        run("eflomal", python(_EFLOMAL, *job.test, *output, priors), job)
    return output


TOOLS: dict[str, Tool] = {
    # fast_align counts lengths in 16 bits
    "fast_align": Tool(find_fast_align, words=32_766),
    "eflomal": Tool(find_eflomal, words=1_023, lower=True),
    # both are where GIZA++ cuts sentences off
    "giza": Tool(find_giza, words=100, ratio=9, apart=False),
}
