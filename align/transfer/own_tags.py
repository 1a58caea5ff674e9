"""The target's tags, which no tag of the source breaks, and whose elements none crosses."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from html.entities import html5
from itertools import accumulate
from typing import NamedTuple

from align.transfer.tags import CDATA, Syntax, Token, halves
from align.transfer.windows import Window

_ENTITY = re.compile(r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[^\W\d][\w.:-]*);")
_BARE_ENTITY = re.compile(
    r"&(?:#[0-9]+|#[xX][0-9a-fA-F]+|"
    + "|".join(sorted((name for name in html5 if not name.endswith(";")), key=len, reverse=True))
    + ")"
)
"""Entities that HTML reads without a semicolon, too."""

DEEPEST = 50
"""Elements around an offset up to which tags are moved out of their way."""


class Pair(NamedTuple):
    """Offsets of the opening and the closing tag of an element, and the number of the element around it, or -1."""

    open: Window
    close: Window
    around: int


class OwnTags:
    """The tags, placeholders and entities of a target.

    Attributes:
        tokens: those of the target; None if it is not well-formed, and so has no tags.
        spans: characters of each, in order.
        pairs: the elements with an end.
    """

    def __init__(self, target: str, syntax: Syntax) -> None:
        self._target, self._syntax = target, syntax
        self.tokens: list[Token] | None = None
        try:
            self.tokens = syntax.parse(target)
        except ValueError:
            self.spans = self._entities(target, 0) if syntax.escaped else []
            self.pairs: list[Pair] = []
            return
        ends = [*accumulate(len(token.text) for token in self.tokens)]
        offsets = [(end - len(token.text), end) for token, end in zip(self.tokens, ends, strict=True)]
        self.spans = []
        for token, offset in zip(self.tokens, offsets, strict=True):
            if token.kind != "text" or token.name == CDATA:
                self.spans.append(offset)
            elif syntax.escaped:
                self.spans += self._entities(token.text, offset[0])
        # the elements, and the innermost one after each of their tags
        partners = halves(self.tokens)
        self.pairs = []
        number = {n: k for k, n in enumerate(sorted(partners))}
        opened = {end: start for start, end in partners.items()}
        self._borders: list[int] = []
        self._innermost: list[int] = []
        inside = -1
        for n in sorted((*partners, *opened)):
            if n in partners:
                self.pairs.append(Pair(offsets[n], offsets[partners[n]], inside))
                inside = number[n]
            else:
                inside = self.pairs[number[opened[n]]].around
            # inside an element from the end of its opening tag, outside from the start of its closing one
            self._borders.append(offsets[n][1] if n in partners else offsets[n][0] + 1)
            self._innermost.append(inside)
        letters = [character.isalnum() for character in self._target] if self.pairs else []
        for low, high in self.spans if self.pairs else ():
            letters[low:high] = [False] * (high - low)
        self._letters = [0, *accumulate(letters)]

    def _entities(self, text: str, start: int) -> list[Window]:
        """Return the characters of the entities of a text that begins at an offset."""
        pattern = _BARE_ENTITY if self._syntax.tags == "html" else _ENTITY
        spans = [match.span() for match in pattern.finditer(text)] if "&" in text else []
        closed = [(low, high + (text[high : high + 1] == ";")) for low, high in spans]
        if pattern is _BARE_ENTITY:  # longer names, which need the semicolon
            closed = sorted({*closed, *(match.span() for match in _ENTITY.finditer(text))})
            closed = [span for n, span in enumerate(closed) if n + 1 == len(closed) or closed[n + 1][0] > span[0]]
        return [(start + low, start + high) for low, high in closed]

    def breaks(self, offset: int) -> bool:
        """Tell whether an offset is within a tag, a placeholder or an entity."""
        return self.around(offset) != (offset, offset)

    def around(self, offset: int) -> Window:
        """Return both ends of the tag, placeholder or entity that an offset is within; without one, it twice."""
        n = bisect_right(self.spans, offset, key=lambda span: span[1])
        inside = n < len(self.spans) and self.spans[n][0] < offset
        return self.spans[n] if inside else (offset, offset)

    def neighbours(self, offset: int) -> tuple[str, str]:
        """Return the characters before and after an offset, beyond tags; "" at the ends."""
        low = high = offset
        while (n := bisect_right(self.spans, low, key=lambda span: span[1]) - 1) >= 0 and self._is_tag(n, low, 1):
            low = self.spans[n][0]
        while (n := bisect_left(self.spans, high, key=lambda span: span[0])) < len(self.spans) and self._is_tag(
            n, high, 0
        ):
            high = self.spans[n][1]
        return self._target[max(0, low - 1) : low], self._target[high : high + 1]

    def _is_tag(self, n: int, offset: int, end: int) -> bool:
        return self.spans[n][end] == offset and self._target[self.spans[n][0]] == "<"

    def _elements_around(self, offset: int) -> Iterator[Pair]:
        """Yield the elements that contain an offset, from the innermost."""
        n = bisect_right(self._borders, offset) - 1
        k = self._innermost[n] if n >= 0 else -1
        while k >= 0:
            yield self.pairs[k]
            k = self.pairs[k].around

    def fit(self, start: int, end: int, first: int, last: int) -> tuple[int, int, bool]:
        """Return the nearest characters that cross no element, and whether other letters are among them."""
        if not self.pairs or start >= end:
            return start, end, False
        before = start, end
        for _ in range(DEEPEST):
            ways = self._ways(start, end)
            if not ways:
                break
            possible = [
                (self._difference(before, way), n, way)
                for n, way in enumerate(ways)
                if first <= way[0] < way[1] <= last
            ]
            if not possible:
                return *before, False  # which the check of the result reports
            start, end = min(possible)[-1]
        if (start, end) != before:
            inside = self._target[start:end]
            start, end = start + len(inside) - len(inside.lstrip(" \t")), end - len(inside) + len(inside.rstrip(" \t"))
        return start, end, self._difference(before, (start, end)) > 0

    def _ways(self, start: int, end: int) -> list[Window]:
        """Return ways of crossing fewer elements; none if none is crossed."""
        at_start, at_end = (
            [pair for n, pair in enumerate(self._elements_around(offset)) if n < DEEPEST] for offset in (start, end)
        )
        left = [pair for pair in at_start if pair not in at_end]
        right = [pair for pair in at_end if pair not in at_start]
        ways = []
        if left:
            ways += [(left[-1].open[0], end), (left[-1].close[1], end), (start, left[0].close[0])]
        if right:
            ways += [(start, right[-1].close[1]), (start, right[-1].open[0]), (right[0].open[1], end)]
        return ways

    def _difference(self, window: Window, new: Window) -> int:
        """Return the number of letters that are in one of two windows."""
        return sum(abs(self._letters[a] - self._letters[b]) for a, b in zip(window, new, strict=True))

    def stay(self, text: str, inserted: Sequence[Window], elements: Sequence[tuple[int, int]]) -> bool:
        """Tell whether elements end where they did, in a text with tags that were inserted.

        Args:
            inserted: characters of the text that are inserted, in order.
            elements: numbers of the insertions that are both tags of an element.
        """
        if self.tokens is None or all(token.kind not in ("open", "close") for token in self.tokens):
            return True
        try:
            tokens = self._syntax.parse(text)
        except ValueError:
            return False
        own, starts, at = [], dict[int, int](), 0
        for n, token in enumerate(tokens):
            k = bisect_right(inserted, at, key=lambda span: span[1])
            if k < len(inserted) and inserted[k][0] <= at:
                starts.setdefault(k, n)
            elif token.kind != "text":
                own.append(n)
            at += len(token.text)
        tags = [n for n, token in enumerate(self.tokens) if token.kind != "text"]
        if len(own) != len(tags):
            return False
        now = halves(tokens)
        if any(now.get(starts.get(first, -1), -2) != starts.get(last, -1) for first, last in elements):
            return False
        return _partners(now, own) == _partners(halves(self.tokens), tags)


def _partners(pairs: Mapping[int, int], tags: Sequence[int]) -> list[int | None]:
    """Return the number of each tag's partner among some tags: -1 if it is another, None if it has none."""
    numbers = {n: k for k, n in enumerate(tags)}
    both = {**pairs, **{close: opening for opening, close in pairs.items()}}
    return [numbers.get(both[n], -1) if n in both else None for n in tags]
