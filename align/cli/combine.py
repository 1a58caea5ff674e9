"""`extract-align` without a model: two files of links made one, or a statistical aligner's two directions."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest

import align
from align.cli.common import Progress, open_output, write_links
from align.cli.inputs import name_shown
from align.links.files import at_line
from align.links.formats import OTHER_READINGS, parse_jsonl, parse_marked, renumber
from align.links.symmetrize import DEFAULT_METHOD, METHODS, symmetrize
from align.signature import signature
from align.statistical.tools import TOOLS, align_with, describe_tool, lower_case
from align.text.lines import open_lines, read_lines, read_parallel
from align.types import Alignment, Gold, Links, Pair, TextWarning

CHECKED = 1000
"""Lines of two files that are looked at for sides or a base that do not go together."""


def write(program: str, alignments: Iterable[Alignment], args: argparse.Namespace, signs: dict[str, str]) -> None:
    """Write a line for each alignment, and say on stderr how many there were and what was run."""
    with open_output(args.output) as out:
        if args.signature:
            out.write(signature({**signs, "version": align.__version__}).encode() + b"\n")
            return
        progress = Progress(program, args.quiet)
        blank = 0
        try:
            for alignment in alignments:
                write_links(out, alignment, args.format)
                blank += not alignment.scores
                progress.add()
        finally:
            progress.close()
    progress.write(f"{program}: {progress.lines:,} lines, {blank:,} without links, {progress.rate:,.0f} lines/s")
    progress.write(signature({**signs, "version": align.__version__}))  # now with how much it was trained on


def read_two(args: argparse.Namespace) -> Iterator[Alignment]:
    """Links of two files, combined line by line.

    Raises:
        ValueError: files of different length, or a line that is not one of links; names file and line.
    """
    shown = [name_shown(name) for name in args.combine]
    method = args.symmetrize or DEFAULT_METHOD
    first: list[tuple[Links, Links]] = []
    with open_lines(args.combine[0]) as a, open_lines(args.combine[1]) as b:
        forward, reverse = read_lines(a, shown[0]), read_lines(b, shown[1])
        for line, (one, other) in enumerate(zip_longest(forward, reverse), 1):
            if one is None or other is None:
                rest = line + sum(1 for _ in forward) + sum(1 for _ in reverse)
                counts = (line - 1, rest) if one is None else (rest, line - 1)
                raise ValueError(f"{shown[0]} has {counts[0]:,} lines, {shown[1]} has {counts[1]:,}")
            links = at_line(shown[0], line, _parse, one).possible
            back = renumber(at_line(shown[1], line, _parse, other).possible, swapped=args.reverse_swapped)
            if line <= CHECKED:
                first.append((links, back))
            yield Alignment(Pair((), (), line), dict.fromkeys(symmetrize(links, back, method), 1.0))
    _warn_of_better_readings(first, shown)


def _warn_of_better_readings(pairs: list[tuple[Links, Links]], names: list[str]) -> None:
    """Say so where the two directions would agree on clearly more links if one of them were read otherwise."""
    given = sum(len(links & back) for links, back in pairs)
    for reading, convert in OTHER_READINGS.items():
        words = f"its indices {reading}: do both count from 0"
        if reading == "swapped":
            words = "the sides of the second swapped: is --reverse-swapped right"
        other = sum(len(links & convert(back)) for links, back in pairs)
        if other > 1.5 * given + 10:
            message = f"{names[0]} and {names[1]} have {given:,} links in common, and {other:,} with {words}?"
            warnings.warn(message, TextWarning, stacklevel=2)


def _parse(line: str) -> Gold:
    return parse_jsonl(line) if line.startswith("{") else parse_marked(line)


def combine(program: str, args: argparse.Namespace) -> None:
    """`--combine FWD REV`."""
    write(program, read_two(args), args, {"method": "combine", "symmetrize": args.symmetrize or DEFAULT_METHOD})


@contextmanager
def open_train(args: argparse.Namespace) -> Iterator[Iterator[Pair] | None]:
    """The text to train on, where it is not the input."""
    if args.train_source is None:
        yield None
        return
    names = args.train_source, args.train_target
    with open_lines(names[0]) as a, open_lines(names[1]) as b:
        yield read_parallel(read_lines(a, names[0]), read_lines(b, names[1]), names)


class _Counted:
    """Passes pairs on, in lower case if asked for, and counts them; keeps their words only where they are wanted."""

    def __init__(self, pairs: Iterable[Pair], lower: bool, keep: bool = False) -> None:
        self._pairs = pairs
        self._lower = lower
        self._keep = keep
        self.number = 0
        self.kept: list[Pair] = []

    def __iter__(self) -> Iterator[Pair]:
        for pair in self._pairs:
            self.number += 1
            if self._keep:
                self.kept.append(pair)
            yield lower_case(pair) if self._lower else pair


def align_statistically(program: str, pairs: Iterable[Pair], args: argparse.Namespace) -> None:
    """`-m fast_align` and its like: train, align in both directions, symmetrise."""
    method = args.symmetrize or DEFAULT_METHOD
    lower = args.case == "lower" or TOOLS[args.model].lower  # which eflomal does anyway
    tool = describe_tool(args.model)
    signs = {"tool": tool, "case": "lower" if lower else "keep", "trained": "train" if args.train_source else "test"}
    signs["symmetrize"] = method

    def pick(forward: Links, backward: Links) -> Links:
        if method in METHODS:
            return symmetrize(forward, backward, method)
        return forward if method == "forward" else backward

    def alignments() -> Iterator[Alignment]:
        with open_train(args) as train:
            test = _Counted(pairs, lower, keep=args.format in ("jsonl", "giza"))
            learned = None if train is None else _Counted(train, lower)
            threads = args.threads or os.cpu_count() or 1
            found = align_with(args.model, test, train=learned, append=args.append_test, threads=threads)
            for number, links in enumerate(found, 1):
                if number == 1:
                    counts = [learned.number if learned else 0, test.number if args.append_test or not learned else 0]
                    signs["trained"] += f"-{sum(counts)}"
                pair = test.kept[number - 1] if test.kept else Pair((), (), number)
                yield Alignment(pair, dict.fromkeys(pick(*links), 1.0))

    write(program, alignments(), args, signs)
