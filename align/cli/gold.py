"""Files of links on the command line: their options, their checks, and what they are taken for."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from align.cli.inputs import name_shown
from align.links.files import GOLD_FORMATS, LinkFile, find_base, read_links, renumber_file
from align.links.formats import OTHER_READINGS, number
from align.links.metrics import Counts, aer, count_all
from align.text.lines import open_lines, read_lines, read_parallel
from align.types import Gold, Links, Pair, TextWarning

CLEARLY = 0.05
"""A share of AER: by how much another reading of a file must be better for a warning."""


def add_link_options(group: Any, kind: str, required: bool = False) -> None:
    """How to read gold (`kind` "gold") or hypotheses ("hyp")."""
    if kind == "gold":
        group.add_argument(
            "-g", "--gold", required=required, metavar="FILE", help="gold links; .gz and .xz are unpacked"
        )
    group.add_argument(
        f"--{kind}-format",
        choices=GOLD_FORMATS,
        help="pharaoh: 0-1; talp: 0-1 and possible 0p1; question: possible 0?1; naacl: `sentence source target S|P`; "
        "giza: A3.final; jsonl (default: by the looks of it)",
    )
    group.add_argument(
        f"--{kind}-base",
        type=int,
        choices=(0, 1),
        help="where it starts to count (default: what its indices or its format prove)",
    )
    group.add_argument(f"--{kind}-swapped", action="store_true", help="it has the target side first")


def add_length_options(group: Any) -> None:
    """The text that the links are of."""
    group.add_argument("-s", "--source", metavar="FILE", help="source sentences; goes with -t")
    group.add_argument("-t", "--target", metavar="FILE", help="target sentences; goes with -s")
    add_range_option(group)


def add_range_option(group: Any) -> None:
    """What to do with links that cannot be."""
    group.add_argument(
        "--out-of-range",
        choices=("stop", "ignore"),
        default="stop",
        help="at a link to a word that its sentence does not have: stop, or go on (in gold it is left out, in a "
        "hypothesis it is wrong)",
    )


def read_pairs(source: str, target: str) -> list[Pair]:
    """All pairs of two files.

    Raises:
        ValueError: not as many lines in both, or bytes that are no text.
    """
    shown = name_shown(source), name_shown(target)
    with open_lines(source) as a, open_lines(target) as b:
        return list(read_parallel(read_lines(a, shown[0]), read_lines(b, shown[1]), shown))


@dataclass(frozen=True)
class NumberedFile:
    """A file's links, source first and from 0, with what they were taken for and how many were left out."""

    file: LinkFile
    base: int
    swapped: bool
    pairs: list[Gold]
    dropped: int = 0

    @property
    def kind(self) -> str:
        """Format, base, order, and links left out, for the signature: `naacl-1`, `pharaoh-0-swapped`."""
        swapped = "-swapped" if self.swapped else ""
        return f"{self.file.format}-{self.base}{swapped}" + (f"-without-{self.dropped}" if self.dropped else "")

    def padded_to(self, number: int, longest: str, text: bool = True) -> list[Gold]:
        """As many pairs as there are, where the format leaves out those without links.

        Args:
            number: of sentence pairs.
            longest: what has so many.
            text: whether that is the text itself.

        Raises:
            ValueError: this file has another number; says both.
        """
        check_number(self.file, number, longest, text)
        silent = number - sum(1 for line in self.file.lines if line)
        if silent and self.file.open_ended:
            warnings.warn(
                f"{self.file.name} names no link in {silent:,} of {number:,} sentences: they are taken to have none",
                TextWarning,
                stacklevel=2,
            )
        return [*self.pairs, *[Gold(frozenset(), frozenset())] * (number - len(self.pairs))]


def check_number(file: LinkFile, number: int, longest: str, text: bool) -> None:
    """Refuse another number of sentence pairs than the text or the longest file has, with both numbers.

    A format that leaves out sentences without links may end early, but only the text itself proves that it does.

    Raises:
        ValueError: it is another one.
    """
    missing = number - len(file.pairs)
    if missing and not (file.open_ended and missing > 0 and text):
        advice = "a line is missing, or one too many (a blank one at the end?)"
        if file.open_ended and missing > 0:
            advice += f"; if the last sentences have no links in {file.name}, give the text with -s and -t"
        raise ValueError(f"{file.name} has {len(file.pairs):,} sentence pairs, {longest} {number:,}: {advice}")


def read_numbered(name: str, args: argparse.Namespace, kind: str, text: Sequence[Pair] | None) -> NumberedFile:
    """Read a file of links, find out where it starts to count, and check it against the text.

    Args:
        name: the file; `-` is stdin.
        args: with the options of `add_link_options` and `add_range_option`.
        kind: "gold" or "hyp".
        text: the sentence pairs, where they are known.

    Raises:
        ValueError: what it says is not beyond doubt, or not possible.
    """
    swapped = getattr(args, f"{kind}_swapped")
    shown = name_shown(name)
    with open_lines(name) as stream:
        file = read_links(read_lines(stream, shown), shown, getattr(args, f"{kind}_format"))
    lengths = None
    if text is not None:
        check_number(file, len(text), "the text", True)
        lengths = [(len(pair.source), len(pair.target)) for pair in text]
    base = getattr(args, f"{kind}_base")
    if base is None:
        base = find_base(file, lengths, swapped, f"--{kind}-base")
    found = NumberedFile(file, base, swapped, renumber_file(file, base, swapped))
    return found if lengths is None else _check_range(found, lengths, kind, args.out_of_range == "ignore")


def _check_range(found: NumberedFile, lengths: list[tuple[int, int]], kind: str, ignore: bool) -> NumberedFile:
    """Stop at a link to a word that is not there; or leave it out of gold, and let it be wrong in a hypothesis."""
    file, kept, outside_all = found.file, [], 0
    for n, (pair, (source, target)) in enumerate(zip(found.pairs, lengths, strict=False)):
        outside = {(i, j) for i, j in pair.possible if i >= source or j >= target}
        if outside and not ignore:
            (first, second), *_ = sorted(number(outside, found.base, found.swapped))
            both = zip(found.pairs, lengths, strict=False)
            fits = all(i < b and j < a for other, (a, b) in both for i, j in other.possible)
            advice = "is it of this text, and the base right? --out-of-range ignore passes over such links"
            if fits:
                turn = f"with{'out' if found.swapped else ''} --{kind}-swapped"
                advice = f"{turn}, or with -s and -t exchanged, all links would be in range"
            raise ValueError(
                f"{file.name}, line {file.lines[n]}: link {first}-{second} (counted from {found.base}), where the "
                f"sentences have {source} and {target} words: {advice}"
            )
        outside_all += len(outside)
        kept.append(Gold(pair.sure - outside, pair.possible - outside))
    if not outside_all:
        return found
    fate = "left out" if kind == "gold" else "counted as wrong"
    warnings.warn(
        f"{file.name}: links to words that their sentences do not have: {outside_all:,}; they are {fate}",
        TextWarning,
        stacklevel=3,
    )
    return replace(found, pairs=kept, dropped=outside_all) if kind == "gold" else found


def warn_of_better_readings(name: str, links: Sequence[Links], gold: Sequence[Gold], counts: Counts) -> None:
    """Say so where the error rate would be clearly lower with sides swapped, or counting from one less or more."""
    given = float(aer(counts.sum(0)))
    for reading, convert in OTHER_READINGS.items():
        words = "its sides swapped" if reading == "swapped" else f"all its indices {reading}"
        flag = "swapped" if reading == "swapped" else "base"
        rate = float(aer(count_all(map(convert, links), gold).sum(0)))
        if rate < given - CLEARLY:
            warnings.warn(
                f"{name}: AER {100 * given:.1f}, but with {words} it would be {100 * rate:.1f}: "
                f"is --hyp-{flag} or --gold-{flag} right?",
                TextWarning,
                stacklevel=2,
            )
