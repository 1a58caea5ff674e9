"""Text without spaces: words that are characters, a model's pieces or ICU's, and what of them a piece holds together.

A model reads such text in pieces that may be longer than a word here, or begin and end within one. The least parts of a
line that neither a word nor a piece crosses are its units: pieces are aligned by units, and all words of a unit share
its links.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, pairwise

from align.core.text import normalize
from align.core.types import Span
from align.models.ids import BEGINNINGS, CONTINUED, ENDING

CUTS = ("spaces", "characters", "pieces", "icu")
"""What may be a word: what stands between spaces, a character, a piece of the model, or what ICU takes for one."""


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
    from wcwidth import iter_graphemes  # options know this module's names where nothing is installed

    return _visible(list(iter_graphemes(text)))


def split_by_icu(text: str) -> list[Span]:
    """Where words stand in a text, by ICU's dictionaries for scripts without spaces; punctuation is a word.

    Raises:
        ModuleNotFoundError: icu4py is not installed.
    """
    try:
        from icu4py.breakers import WordBreaker
    except ModuleNotFoundError:
        raise ModuleNotFoundError("words by ICU need icu4py, for Python 3.11 or newer: pip install '.[icu]'") from None
    return _visible(list(WordBreaker(text, "en")))  # its own offsets count UTF-16 units


def _visible(segments: Sequence[str]) -> list[Span]:
    """Where those parts of a text stand that are more than space."""
    ends = accumulate(map(len, segments))
    return [(end - len(segment), end) for segment, end in zip(segments, ends, strict=True) if not segment.isspace()]


def divide(parts: Sequence[str], pieces: Sequence[Sequence[str]], cut: str) -> Division:
    """Cut one side into words, and its pieces into units.

    Args:
        parts: what stands between the line's spaces.
        pieces: of each part, as the model writes them.
        cut: one of CUTS, but not "spaces".

    Raises:
        ModuleNotFoundError: what "icu" needs is not installed.
    """
    words: list[str] = []
    units: list[Span] = []
    of_pieces: list[int] = []
    for part, spelt in zip(parts, pieces, strict=True):
        characters = split_characters(part)
        if not characters:  # of a space that is not ASCII's
            of_pieces += [max(0, len(units) - 1)] * len(spelt)
            continue
        spans = split_by_icu(part) if cut == "icu" else characters
        begins = {begin for begin, _ in spans}
        starts = {n for n, (begin, _) in enumerate(characters) if begin in begins}
        runs, numbers = _runs([part[begin:end] for begin, end in characters], spelt, starts)
        of_pieces += [len(units) + number for number in numbers]
        if cut == "pieces":
            spans = [(characters[first][0], characters[last - 1][1]) for first, last in runs]
        ends = [bisect_left(spans, (characters[last - 1][1], 0)) for _, last in runs]
        for first, last in pairwise((0, *ends)):
            units.append((len(words) + first, len(words) + last))
        words += [part[begin:end] for begin, end in spans]
    return Division(tuple(words), units, of_pieces)


def _runs(characters: Sequence[str], pieces: Sequence[str], starts: Set[int]) -> tuple[list[Span], list[int]]:
    """Runs of characters that begin at one of `starts` and where a piece does, and the run of each piece.

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
        if place and place in ends and last < ends[place] < len(characters) and ends[place] in starts:
            borders[at] = last = ends[place]
    places = list(borders)
    begins = accumulate(map(len, read[:-1]), initial=0)
    runs = list(zip(borders.values(), [*list(borders.values())[1:], len(characters)], strict=True))
    return runs, [bisect_right(places, begin) - 1 for begin, _ in zip(begins, read, strict=False)]


def _common(a: str, b: str) -> int:
    """How many characters two texts have in common at their beginning."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _plain(text: str) -> str:
    return "".join(unicodedata.normalize("NFKD", normalize(text)).casefold().split())


def _unmarked(piece: str) -> str:
    """A piece without what tells whether a word begins or ends with it."""
    for mark in BEGINNINGS:
        piece = piece.removeprefix(mark)
    return piece.removesuffix(ENDING).removesuffix(CONTINUED)
