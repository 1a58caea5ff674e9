"""A drop-in for eflomal's Python interface.

from align.compat import eflomal

aligner = eflomal.Aligner(forward="de-en", reverse="en-de")
aligner.align(source_lines, target_lines, links_filename_fwd="text.fwd", links_filename_rev="text.rev")
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import zip_longest
from math import log
from typing import Any

from align.compat.models import REVERSE_MODEL, load_both, report_unused
from align.core.formats import format_pharaoh
from align.core.scores import LEAST_AGREEMENT
from align.core.text import make_pair
from align.core.types import Pair
from align.io.output import open_output
from align.models.folder import DEFAULT_MODEL

UNUSED = (
    *("model", "score_model", "n_iterations", "n_samplers", "rel_iterations", "null_prior"),
    *("source_prefix_len", "source_suffix_len", "target_prefix_len", "target_suffix_len"),
)
"""Options of eflomal that have no effect here."""


class Aligner:
    """Aligns a text with two translation models, called as `eflomal.Aligner` is.

    Args:
        unused: positional options of eflomal; reported once.
        forward: model that translates source to target, as for `align.load`.
        reverse: model that translates target to source; None for one direction.
        options: options of eflomal, which are reported once, and other arguments of `align.load`, for both models.
    """

    def __init__(
        self, *unused: Any, forward: str = DEFAULT_MODEL, reverse: str | None = REVERSE_MODEL, **options: Any
    ) -> None:
        report_unused("eflomal", [*UNUSED[: len(unused)], *(name for name in UNUSED if name in options)])
        self._models = forward, reverse
        self._options = {name: value for name, value in options.items() if name not in UNUSED}

    def align(
        self,
        src_input: Iterable[str],
        trg_input: Iterable[str],
        links_filename_fwd: str | None = None,
        links_filename_rev: str | None = None,
        scores_filename_fwd: str | None = None,
        scores_filename_rev: str | None = None,
        priors_input: Any = None,
        quiet: bool = True,
        use_gdb: bool = False,
    ) -> None:
        """Align lines, and write a line for each to the files that are named.

        Both files of links hold the soft links of both models, source first, which `atools` and other programs leave as
        they are whatever the heuristic. Scores are -log of the agreement (`extract-align score`) on the target's words,
        and on the source's: the lower, the better. Names that end in .gz, .xz or .zst are compressed.

        Args:
            src_input: lines, such as an open file; words are between spaces.
            trg_input: as many lines.
            priors_input: has no effect, as `quiet` and `use_gdb` have none; reported once.

        Raises:
            ValueError: one side has more lines.
            ModelError: a model cannot be read.
            OSError: a file cannot be written.
        """
        if priors_input is not None:
            report_unused("eflomal", ["priors_input"])
        aligner = load_both(*self._models, **self._options)
        with ExitStack() as stack:
            links = [
                stack.enter_context(open_output(name)) for name in (links_filename_fwd, links_filename_rev) if name
            ]
            scores = [
                (stack.enter_context(open_output(name)), side)
                for side, name in enumerate((scores_filename_fwd, scores_filename_rev))
                if name
            ]
            for alignment in aligner(_pairs(src_input, trg_input)):
                for out in links:
                    out.write(format_pharaoh(alignment).encode() + b"\n")
                for out, side in scores:
                    agreement = (alignment.agreement or (LEAST_AGREEMENT, LEAST_AGREEMENT))[side]
                    out.write(f"{-log(agreement):.4f}\n".encode())


def _pairs(source: Iterable[str], target: Iterable[str]) -> Iterator[Pair]:
    for number, lines in enumerate(zip_longest(source, target), 1):
        if None in lines:
            side = "source" if lines[0] is None else "target"
            raise ValueError(f"the {side} has {number - 1} lines, the other side has more")
        yield make_pair(lines[0].rstrip("\r\n"), lines[1].rstrip("\r\n"), number)
