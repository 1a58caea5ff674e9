"""Write tags into a text, at the characters that belong to their windows of words."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from align.models.punctuation import closes, is_punctuation, leading, opens, trailing, visible_edges
from align.transfer.tree import Element, Markup, has_letters, words_in
from align.transfer.windows import Window


class _Item(NamedTuple):
    """An element to write in a window, or at a place, which begins where it ends."""

    window: Window
    element: Element


def write_tags(markup: Markup, target: str, windows: Mapping[int, Sequence[Window]], places: Mapping[int, int]) -> str:
    """Write the tags of a line into another text.

    Args:
        target: the text, which stays unchanged, except for a space next to tags that stand between spaces in the line.
        windows: windows of target words for the elements that enclose words, by the number of their first token.
        places: target word after each element that is written in one piece, by the number of its first token.
    """
    return _Writer(markup, target, windows, places).write()


class _Writer:
    def __init__(
        self, markup: Markup, target: str, windows: Mapping[int, Sequence[Window]], places: Mapping[int, int]
    ) -> None:
        self._markup, self._target, self._windows, self._places = markup, target, windows, places
        self._words = words_in(target)
        self._done: list[str] = []
        self._at = 0
        self._items: dict[int, list[_Item]] = {}

    def write(self) -> str:
        tokens = self._markup.tokens
        waiting: list[tuple[_Item, int] | tuple[str, int]] = []
        self._enter(_Item((0, len(self._words)), self._markup.root), len(self._target), waiting)
        while waiting:
            entry, limit = waiting.pop()
            if isinstance(entry, str):
                self._copy(limit)
                self._done.append(entry)
            elif entry.element.tokens[0] in self._windows:
                start, end = self._edges(entry)
                self._copy(min(start, limit))
                self._done.append(tokens[entry.element.tokens[0]].text)
                end = max(self._at, min(end, limit))
                waiting.append((tokens[entry.element.tokens[1]].text, end))
                self._enter(entry, end, waiting)
            else:
                self._write_whole(entry, limit)
        self._copy(len(self._target))
        return "".join(self._done)

    def _copy(self, end: int) -> None:
        if end > self._at:
            self._done.append(self._target[self._at : end])
            self._at = end

    def _enter(self, item: _Item, limit: int, waiting: list[tuple[_Item, int] | tuple[str, int]]) -> None:
        """Push the content of an element, to be written next, none of it beyond a limit."""
        element, (low, high) = item.element, item.window
        key = element.tokens[0]
        if key not in self._items:
            self._items[key] = sorted(self._inside(element), key=lambda child: (child.window, child.element.tokens))
        items = self._items[key]
        first = bisect_left(items, (low, low), key=lambda child: child.window)
        here = []
        for child in items[first:]:
            if child.window[0] > high:
                break
            here.append((child, limit))
        waiting.extend(reversed(here))

    def _inside(self, element: Element) -> list[_Item]:
        items = []
        for child in element.children:
            first = child.tokens[0]
            if first in self._windows:
                items += [_Item(window, child) for window in self._windows[first]]
            else:
                items.append(_Item((self._places[first], self._places[first]), child))
        return items

    def _edges(self, item: _Item) -> tuple[int, int]:
        """Return the characters that an element encloses: punctuation only if it does so in the line."""
        (low, high), element = item.window, item.element
        (start, _), (_, end) = self._words[low], self._words[high - 1]
        first, last = visible_edges(self._markup.plain[element.start : element.end])
        whole = element.words == self._markup.root.words
        if not opens(first) and (element.before or not whole):
            start += leading(self._word(low))
        if not closes(last) and (element.behind or not whole):
            end -= trailing(self._word(high - 1), high == len(self._words) or "." in element.behind)
        return start, end

    def _word(self, k: int) -> str:
        return self._target[slice(*self._words[k])]

    def _write_whole(self, item: _Item, limit: int) -> None:
        """Write tags without words in one piece: next to the word they touch, or between spaces."""
        element, k = item.element, item.window[0]
        wordless = element.words[0] == element.words[1]
        free = not element.before and not element.behind
        left_alone = not element.before or (is_punctuation(element.before) and has_letters(element.behind))
        on_left = wordless and not free and not left_alone
        at = self._next_to_word(k, element, on_left=bool(k) and (on_left or k == len(self._words)))
        self._copy(min(at, limit))
        tags = self._markup.tags(element)
        around = self._target[max(0, self._at - 1) : self._at], self._target[self._at : self._at + 1]
        left, right = (part in ("", " ", "\t") for part in around)
        if free and wordless and left != right:  # at the edge of a word, not in one
            tags = tags + " " if left else " " + tags
        elif wordless and not free and (left or right or not self._markup.escaped):
            # the punctuation that it touched may be missing; only tags that become text may split a word
            tags = " " * (around[0].isalnum() and not element.before[-1:].isalnum()) + tags
            tags += " " * (around[1].isalnum() and not element.behind[:1].isalnum())
        self._done.append(tags)

    def _next_to_word(self, k: int, element: Element, on_left: bool) -> int:
        """Return the offset of a tag next to a word: after the one on the left, or before the one on the right."""
        if not self._words:
            return 0
        if on_left:
            cut = trailing(self._word(k - 1), k == len(self._words) or "." in element.behind) if element.behind else 0
            return self._words[k - 1][1] - cut
        return self._words[k][0] + (leading(self._word(k)) if element.before else 0)
