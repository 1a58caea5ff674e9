"""Text without spaces: words that are characters, or a model's pieces, and what of them a piece holds together.

A model reads such text in pieces that may be longer than a word here, or begin and end within one. The least parts of a
line that neither a word nor a piece crosses are its units: pieces are aligned by units, and all words of a unit share
its links.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from wcwidth import iter_graphemes

from align.text.ids import BEGINNINGS, CONTINUED, ENDING
from align.types import Span

CUTS = ("spaces", "characters", "pieces")
"""What may be a word: what stands between spaces, a character, or a piece of the model."""


@dataclass(frozen=True, slots=True)
class Division:
    """One side of a pair, its words and the pieces of a model.

    Attributes:
        words: of the line, in order.
        units: the first word of each unit, and the one behind its last.
        pieces: the unit of each piece, in order; of no use where there are no units.
    """

    words: tuple[str, ...]
    units: list[Span]
    pieces: list[int]


def split_characters(text: str) -> list[Span]:
    """Where the characters of a text stand that are no spaces: grapheme clusters (UAX 29), as people count them."""
    clusters = list(iter_graphemes(text))
    ends = accumulate(map(len, clusters))
    return [(end - len(cluster), end) for cluster, end in zip(clusters, ends, strict=True) if not cluster.isspace()]


def divide(parts: Sequence[str], pieces: Sequence[Sequence[str]], cut: str) -> Division:
    """Cut one side into words, and its pieces into units.

    Args:
        parts: what stands between the line's spaces.
        pieces: of each part, as the model writes them.
        cut: "characters" or "pieces".
    """
    words: list[str] = []
    units: list[Span] = []
    of_pieces: list[int] = []
    for part, spelt in zip(parts, pieces, strict=True):
        characters = split_characters(part)
        if not characters:  # of a space that is not ASCII's
            of_pieces += [max(0, len(units) - 1)] * len(spelt)
            continue
        runs, numbers = _runs([part[begin:end] for begin, end in characters], spelt)
        of_pieces += [len(units) + number for number in numbers]
        for first, last in runs:
            before = len(words)
            spans = characters[first:last]
            if cut == "pieces":
                spans = [(spans[0][0], spans[-1][1])]
            words += [part[begin:end] for begin, end in spans]
            units.append((before, len(words)))
    return Division(tuple(words), units, of_pieces)


def _runs(characters: Sequence[str], pieces: Sequence[str]) -> tuple[list[Span], list[int]]:
    """Runs of characters whose ends are ends of pieces too, and the run of each piece.

    A model's text may differ from the user's: characters and pieces are compared decomposed and in folded case. Between
    the first and the last place where they still differ, nothing is known, and all is one run.
    """
    own, read = list(map(_plain, characters)), [_plain(_unmarked(piece)) for piece in pieces]
    given, seen = "".join(own), "".join(read)
    same = _common(given, seen)
    behind = min(_common(given[::-1], seen[::-1]), len(given) - same, len(seen) - same)
    ends = {end: n for n, end in enumerate(accumulate(map(len, own)), 1)}
    borders, last = {0: 0}, 0  # place in the pieces: the character that begins there
    for at in accumulate(map(len, read)):
        place = at if at <= same else len(given) - (len(seen) - at) if len(seen) - at <= behind else None
        if place in ends and last < ends[place] < len(characters):
            borders[at] = last = ends[place]
    starts = list(borders)
    begins = accumulate(map(len, read[:-1]), initial=0)
    runs = list(zip(borders.values(), [*list(borders.values())[1:], len(characters)], strict=True))
    return runs, [bisect_right(starts, begin) - 1 for begin, _ in zip(begins, read, strict=False)]


def _common(a: str, b: str) -> int:
    """How many characters two texts have in common at their beginning."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _plain(text: str) -> str:
    return "".join(unicodedata.normalize("NFKD", text).casefold().split())


def _unmarked(piece: str) -> str:
    """A piece without what tells whether a word begins or ends with it."""
    for mark in BEGINNINGS:
        piece = piece.removeprefix(mark)
    return piece.removesuffix(ENDING).removesuffix(CONTINUED)
