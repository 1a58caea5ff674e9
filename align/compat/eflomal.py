"""A drop-in for eflomal's Python interface.

from align.compat import eflomal

aligner = eflomal.Aligner(forward="de-en", reverse="en-de")
aligner.align(source_lines, target_lines, links_filename_fwd="text.fwd", links_filename_rev="text.rev")
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from math import log
from tempfile import TemporaryFile
from typing import IO, Any

from align.compat.models import load_both, report_unused
from align.core.errors import plural
from align.core.formats import format_pharaoh
from align.core.scores import MIN_AGREEMENT
from align.core.text import make_pair
from align.core.types import Pair
from align.io.output import packed
from align.io.session import Session
from align.models.defaults import DEFAULT_MODEL

UNUSED = (
    *("model", "score_model", "n_iterations", "n_samplers", "rel_iterations", "null_prior"),
    *("source_prefix_len", "source_suffix_len", "target_prefix_len", "target_suffix_len"),
)
"""Options of eflomal that have no effect here."""


class Aligner:
    """Aligns a text with two translation models, called as `eflomal.Aligner` is.

    Args:
        unused: positional options of eflomal; reported once.
        forward: model that translates source to target, as for `align.load`. Scores of distilled models are lower.
        reverse: model that translates target to source; None for one direction.
        options: options of eflomal, which are reported once, and other arguments of `align.load`, for both models.

    Raises:
        ModelError: a model cannot be read.
    """

    def __init__(
        self, *unused: Any, forward: str = DEFAULT_MODEL, reverse: str | None = "en-de", **options: Any
    ) -> None:
        report_unused("eflomal", [*UNUSED[: len(unused)], *(name for name in UNUSED if name in options)])
        options = {name: value for name, value in options.items() if name not in UNUSED}
        self._aligner = load_both(forward, reverse, **options)

    def align(
        self,
        src_input: Iterable[str],
        trg_input: Iterable[str],
        links_filename_fwd: str | None = None,
        links_filename_rev: str | None = None,
        scores_filename_fwd: str | None = None,
        scores_filename_rev: str | None = None,
        priors_input: Iterable[str] | None = None,
        quiet: bool = True,
        use_gdb: bool = False,
    ) -> None:
        """Align lines, and write a line for each to the files that are named, once all are aligned.

        Both files of links hold the soft links of both models, source first, which `atools` and other programs leave as
        they are, with any heuristic. Scores are -log of the agreement (`extract-align score`) on the target's words,
        and on the source's: the lower, the better. Names that end in .gz, .xz or .zst are compressed. Models that store
        no layer and head choose them by the text of the first call, and keep them.

        Args:
            src_input: lines, such as an open file; words are those of `str.split`, as for eflomal.
            trg_input: as many lines.
            priors_input: lines of priors, such as an open file. Any that it has have no effect, which is reported once.
            quiet: has no effect, as `use_gdb` has none.

        Raises:
            ValueError: one side has more lines.
            OSError: a file cannot be written.
        """
        if next(iter(priors_input or ()), None) is not None:
            report_unused("eflomal", ["priors_input"])
        names = [(links_filename_fwd, links_filename_rev), (scores_filename_fwd,), (scores_filename_rev,)]
        least = MIN_AGREEMENT, MIN_AGREEMENT
        session = Session(self._aligner)
        with TemporaryFile() as links, TemporaryFile() as forward, TemporaryFile() as reverse:
            for _, (alignment,) in session.results(_pairs(src_input, trg_input), lambda pair: [pair]):
                links.write(format_pharaoh(alignment).encode() + b"\n")
                for out, value in zip((forward, reverse), alignment.agreement or least, strict=True):
                    out.write(f"{-log(value):.4f}\n".encode())
            for out, of_content in zip((links, forward, reverse), names, strict=True):
                for name in filter(None, of_content):
                    out.seek(0)
                    with open(name, "wb") as raw, packed(name, raw) as copy:
                        shutil.copyfileobj(out, copy)
        if session.choices:
            self._aligner = self._aligner.reading_at(session.choices)


def calculate_priors(
    src_sentences: Iterable[str],
    trg_sentences: Iterable[str],
    fwd_alignments: Iterable[str],
    rev_alignments: Iterable[str],
) -> tuple[Counter[Any], ...]:
    """Return priors of eflomal's five kinds, all empty: a translation model needs none. Lines are counted only.

    Raises:
        ValueError: an argument has fewer lines than another.
    """
    for number, lines in enumerate(zip_longest(src_sentences, trg_sentences, fwd_alignments, rev_alignments)):
        if None in lines:
            name = ("src_sentences", "trg_sentences", "fwd_alignments", "rev_alignments")[lines.index(None)]
            raise ValueError(f"{name} has {plural(number, 'line')}, another argument has more")
    return tuple(Counter() for _ in range(5))


def write_priors(
    priorsf: IO[str],
    priors_list: Mapping[tuple[str, str], float],
    hmmf_priors: Mapping[int, float],
    hmmr_priors: Mapping[int, float],
    ferf_priors: Mapping[tuple[str, int], float],
    ferr_priors: Mapping[tuple[str, int], float],
) -> None:
    """Write what `calculate_priors` returns: nothing, which leaves a file empty.

    `Aligner.align` and eflomal itself accept an empty file as `priors_input`.

    Raises:
        ValueError: there are priors, which another program must have calculated.
    """
    if count := sum(len(kind) for kind in (priors_list, hmmf_priors, hmmr_priors, ferf_priors, ferr_priors)):
        raise ValueError(f"expected the empty priors of calculate_priors; got {count:,}")


def _pairs(source: Iterable[str], target: Iterable[str]) -> Iterator[Pair]:
    for number, lines in enumerate(zip_longest(source, target), 1):
        if None in lines:
            side = "source" if lines[0] is None else "target"
            raise ValueError(f"the {side} has {number - 1} lines, the other side has more")
        yield make_pair(*lines, number, "unicode")
