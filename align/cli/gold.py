"""Files of links on the command line: their options, their checks, and what they are taken for."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from align.formats import number, renumber
from align.link_files import GOLD_FORMATS, LinkFile, find_base, read_links, renumber_file
from align.metrics import Counts, aer, count_all
from align.stream import open_lines, read_lines, read_parallel
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
        help="at a link to a word that its sentence does not have: stop, or leave the link out",
    )


def read_pairs(source: str, target: str) -> list[Pair]:
    """All pairs of two files.

    Raises:
        ValueError: not as many lines in both, or bytes that are no text.
    """
    with open_lines(source) as a, open_lines(target) as b:
        return list(read_parallel(read_lines(a, source), read_lines(b, target), (source, target)))


@dataclass(frozen=True)
class NumberedFile:
    """A file's links, source first and from 0, with what they were taken for."""

    file: LinkFile
    base: int
    swapped: bool
    pairs: list[Gold]

    @property
    def kind(self) -> str:
        """Format, base and order, for the signature: `naacl-1`, `pharaoh-0-swapped`."""
        return f"{self.file.format}-{self.base}" + ("-swapped" if self.swapped else "")

    def padded_to(self, number: int, longest: str) -> list[Gold]:
        """As many pairs as there are, where the format leaves out those without links.

        Args:
            number: of sentence pairs.
            longest: name of the file that has so many.

        Raises:
            ValueError: this file has another number; says both.
        """
        missing = number - len(self.pairs)
        if missing and not (self.file.open_ended and missing > 0):
            raise ValueError(
                f"{self.file.name} has {len(self.pairs):,} sentence pairs, {longest} has {number:,}: "
                "a line is missing, or one too many (a blank one at the end?)"
            )
        if missing:
            warnings.warn(
                f"{self.file.name} names sentences up to {len(self.pairs):,}, {longest} has {number:,}: "
                "the rest is taken to have no links there",
                TextWarning,
                stacklevel=2,
            )
        return [*self.pairs, *[Gold(frozenset(), frozenset())] * missing]


def read_numbered(name: str, args: argparse.Namespace, kind: str, text: Sequence[Pair] | None) -> NumberedFile:
    """Read a file of links, find out where it starts to count, and check it against the text.

    Args:
        name: the file; `-` is stdin.
        args: with the options of `add_link_options` and `add_length_options`.
        kind: "gold" or "hyp".
        text: the sentence pairs, where they are known.

    Raises:
        ValueError: what it says is not beyond doubt, or not possible.
    """
    swapped = getattr(args, f"{kind}_swapped")
    shown = "stdin" if name == "-" else name
    with open_lines(name) as stream:
        file = read_links(read_lines(stream, shown), shown, getattr(args, f"{kind}_format"))
    lengths = None if text is None else [(len(pair.source), len(pair.target)) for pair in text]
    base = getattr(args, f"{kind}_base")
    if base is None:
        base = find_base(file, lengths, swapped, f"--{kind}-base")
    pairs = renumber_file(file, base, swapped)
    if lengths is not None:
        pairs = list(_in_range(file, pairs, lengths, args.out_of_range == "ignore", (base, swapped, kind)))
    return NumberedFile(file, base, swapped, pairs)


def _in_range(
    file: LinkFile, pairs: list[Gold], lengths: list[tuple[int, int]], ignore: bool, how: tuple[int, bool, str]
) -> Iterator[Gold]:
    """The links that their sentences have words for; others stop it, or are left out with a warning."""
    base, swapped, kind = how
    dropped = 0
    for n, (pair, (source, target)) in enumerate(zip(pairs, lengths, strict=False)):
        outside = {(i, j) for i, j in pair.possible if i >= source or j >= target}
        if outside and not ignore:
            (first, second), *_ = sorted(number(outside, base, swapped))
            fits = all(
                i < b and j < a for other, (a, b) in zip(pairs, lengths, strict=False) for i, j in other.possible
            )
            advice = "is it of this text, and the base right? --out-of-range ignore leaves such links out"
            if fits:
                advice = f"with{'out' if swapped else ''} --{kind}-swapped all links would be in range"
            raise ValueError(
                f"{file.name}, line {file.lines[n]}: link {first}-{second} (counted from {base}), where the sentences "
                f"have {source} and {target} words: {advice}"
            )
        dropped += len(outside)
        yield Gold(pair.sure - outside, pair.possible - outside)
    yield from pairs[len(lengths) :]  # too many: whoever counts the pairs will say so
    if dropped:
        warnings.warn(
            f"{file.name}: {dropped:,} links to words that their sentences do not have are left out",
            TextWarning,
            stacklevel=3,
        )


def warn_of_better_readings(name: str, links: Sequence[Links], gold: Sequence[Gold], counts: Counts) -> None:
    """Say so where the error rate would be clearly lower with sides swapped, or counting from one less or more."""
    given = float(aer(counts.sum(0)))
    readings: list[tuple[str, str, Callable[[Links], Links]]] = [
        ("with its sides swapped", "--hyp-swapped or --gold-swapped", lambda found: renumber(found, swapped=True)),
        ("with all its indices one higher", "--hyp-base or --gold-base", lambda found: number(found, 1)),
        (
            "with all its indices one lower",
            "--hyp-base or --gold-base",
            lambda found: renumber((link for link in found if min(link)), 1),
        ),
    ]
    for reading, flags, convert in readings:
        rate = float(aer(count_all([convert(found) for found in links], gold).sum(0)))
        if rate < given - CLEARLY:
            warnings.warn(
                f"{name}: AER {100 * given:.1f}, but {reading} it would be {100 * rate:.1f}: is {flags} right?",
                TextWarning,
                stacklevel=2,
            )
