"""Put the tags of a source sentence into its translation along word links.

The content of an element goes into one window of target words, as `align.transfer.windows` finds it; tags without
content go where the fewest links are crossed, and punctuation counts, as in SIL's machine.py. Elements stay nested
as they were, and none overlaps another.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from heapq import nsmallest
from html import unescape
from html.entities import codepoint2name, html5
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from align.models.punctuation import (
    closes,
    combines,
    ends_sentence,
    is_letter_or_mark,
    is_punctuation,
    kind_of,
    leading,
    leading_beyond,
    mark_kind,
    opens,
    trailing,
    trailing_beyond,
    visible_edges,
)
from align.transfer.tags import (
    ICU,
    INSIDE,
    LETTER,
    NEAR,
    PLACEHOLDER,
    Element,
    Markup,
    Syntax,
    has_letters,
    show,
)
from align.transfer.windows import FREE, Scores, Window, divide, place_apart, place_split


class _Item(NamedTuple):
    """An element to write in a window, or at a place, which begins where it ends."""

    window: Window
    element: Element


class Insertion(NamedTuple):
    """A tag to write at an offset of a text: the number of its token, and its text with the spaces next to it."""

    at: int
    number: int
    text: str


class _Writer:
    """Lists the tags of a line in the order in which they come in another text."""

    def __init__(self, placing: _Placing) -> None:
        self._placing = placing
        self._markup, self._target, self._words = placing.markup, placing.target, placing.spans
        self._windows, self._places, self._characters = placing.windows, placing.places, placing.characters
        self._unbroken = placing.unbroken
        self._insertions: list[Insertion] = []
        self._at = 0  # offset of the text
        self._items: dict[int, list[_Item]] = {}

    def write(self) -> list[Insertion]:
        """Return all tags."""
        waiting: list[tuple[_Item | int, int]] = []
        self._enter(_Item((0, len(self._words)), self._markup.root), len(self._target), waiting)
        while waiting:
            entry, limit = waiting.pop()
            if isinstance(entry, int):  # a closing tag
                self._move(limit)
                self._insert(entry)
            elif entry.element.tokens[0] in self._windows:
                first, last = entry.element.tokens
                start, end = self._edges(entry)
                self._move(min(around(self._unbroken, start)[0], limit))
                self._insert(first)
                end = max(self._at, min(around(self._unbroken, end)[1], limit))
                waiting.append((last, end))
                self._enter(entry, end, waiting)
            else:
                self._write_whole(entry, limit)
        return self._insertions

    def _insert(self, number: int, before: str = "", after: str = "") -> None:
        """Write a tag between spaces."""
        self._insertions.append(Insertion(self._at, number, before + self._markup.tokens[number].text + after))

    def _move(self, end: int) -> None:
        """Go to this offset of the text, unless beyond it."""
        self._at = max(self._at, end)

    def _enter(self, item: _Item, limit: int, waiting: list[tuple[_Item | int, int]]) -> None:
        """Push the content of an element, to be written next, none of it beyond a limit."""
        element, (low, high) = item.element, item.window
        key = element.tokens[0]
        if key not in self._items:
            children = []
            for child in element.children:
                first = child.tokens[0]
                place = self._places.get(first, 0)
                children += [_Item(window, child) for window in self._windows.get(first, [(place, place)])]
            self._items[key] = sorted(children, key=self._order)
        items = self._items[key]
        begin = bisect_left(items, low, key=lambda child: child.window[0])
        end = bisect_right(items, high, lo=begin, key=lambda child: child.window[0])
        for part in reversed(items[begin:end]):
            waiting.append((part, limit))
            at, _ = self._characters.get(part.element.tokens[0], (0, 0))
            if part.element.tokens[0] in self._windows and at > self._words[part.window[0]][0]:  # within a word
                limit = min(limit, at)

    def _order(self, item: _Item) -> tuple[int, int, int, tuple[int, int]]:
        low, high = item.window
        start = self._words[low][0] - (low == high) if low < len(self._words) else 0
        start = self._characters.get(item.element.tokens[0], (start, 0))[0]
        return low, start, high, item.element.tokens

    def _edges(self, item: _Item) -> tuple[int, int]:
        """Return the characters that an element encloses: punctuation only if it does so in the line."""
        (low, high), element = item.window, item.element
        if element.tokens[0] in self._characters:
            return self._characters[element.tokens[0]]
        (start, _), (_, end) = self._words[low], self._words[high - 1]
        first, last = visible_edges(self._markup.shown[element.start : element.end])
        whole = element.block or element.words == self._markup.root.words
        if element.before or not whole:
            start += leading_beyond(self._word(low), first)
        if element.behind or not whole:
            end -= trailing_beyond(self._word(high - 1), self._is_full_stop(high - 1, element), last)
        borders = zip(self._placing.borders(element, item.window), (start, end), strict=True)
        start, end = (edge if border is None else border for border, edge in borders)
        return start, end

    def _is_full_stop(self, k: int, element: Element) -> bool:
        """Tell whether a point after a word ends a sentence, as far as the next word and the element show."""
        words = [self._word(n) for n in range(k, min(k + 2, len(self._words)))]
        return "." in element.behind or ends_sentence(words, 0)

    def _word(self, k: int) -> str:
        return self._placing.shown[slice(*self._words[k])]

    def _write_whole(self, item: _Item, limit: int) -> None:
        """Write tags without words in one piece: next to the word they touch, or between spaces."""
        element, k = item.element, item.window[0]
        spaces = ["", ""]
        if element.tokens[0] in self._characters:
            offset = self._characters[element.tokens[0]][0]
            self._move(min(around(self._unbroken, offset)[0], limit))
            spaces = [*self._placing.spaces.get(element.tokens[0], spaces)]
            if self._insertions and self._insertions[-1].at == self._at and self._insertions[-1].text[-1:] != " ":
                token = self._markup.tokens[max(0, element.tokens[0] - 1)]
                spaces[0] = " " * (token.kind == "text" and token.text[-1:].isspace())
        else:
            wordless = element.words[0] == element.words[1]
            free = not element.before and not element.behind
            left_alone = not element.before or (is_punctuation(element.before) and has_letters(element.behind))
            on_left = bool(k) and ((wordless and not free and not left_alone) or k == len(self._words))
            if not self._words:
                offset = 0
            elif on_left:  # after the word on the left
                touches = element.behind and not element.block
                cut = trailing(self._word(k - 1), self._is_full_stop(k - 1, element)) if touches else 0
                offset = self._words[k - 1][1] - cut
            else:  # before the one on the right
                offset = self._words[k][0] + (leading(self._word(k)) if element.before and not element.block else 0)
            self._move(min(around(self._unbroken, offset)[on_left], limit))
            before, after = self._target[max(0, self._at - 1) : self._at], self._target[self._at : self._at + 1]
            left, right = (part in ("", " ", "\t") for part in (before, after))
            if wordless and free and left != right:  # at the edge of a word, not in one
                if after and self._at < limit and not self._target[self._at :].strip(" \t"):
                    self._move(self._at + 1)
                else:
                    spaces[left] = " "
            elif wordless and not free and (left or right or has_token(self._markup, element, PLACEHOLDERS)):
                # the punctuation that it touched may be missing; only placeholders become text, and may split a word
                spaces[0] = " " * (before.isalnum() and not element.before[-1:].isalnum())
                spaces[1] = " " * (after.isalnum() and not element.behind[:1].isalnum())
        tags = self._markup.tags(element)
        for n, (number, space) in enumerate(tags):
            before = spaces[0] if n == 0 else ""
            self._insert(number, before + space, spaces[1] if n == len(tags) - 1 else "")


_QUOTES = "»« «» „“ „” “” ”” ‚‘ ‘’ `' `` '' \"\" () [] <> {} 「」 『』 《》"
_PAIRS = frozenset(_QUOTES.split(" "))
_MARKS = {
    mark: rf"(?:{re.escape(mark)}|&(?:{codepoint2name.get(ord(mark), 'apos')}|#{ord(mark)}|#(?i:x{ord(mark):x}));)"
    for mark in _QUOTES
}
_SPACED = re.compile("(?:[ \xa0]|&nbsp;|&#160;)$")
_EMPTY = re.compile(
    "|".join(
        rf"(?<!{LETTER}){_MARKS[first]}(?:{_SPACED.pattern[:-1]})?(){_MARKS[last]}(?!{LETTER})"
        for first, last in map(tuple, sorted(_PAIRS))
    )
)
"""Two marks with nothing or a space between them, and a group where a placeholder may have been; not those of `f()`."""


def _find_empty(text: str) -> list[tuple[int, int, str]]:
    """Return empty pairs of a text: where each begins, where a placeholder may have been, and what is before it."""
    spans = ((match.start(), match.end(match.lastindex or 0)) for match in _EMPTY.finditer(text))
    return [(start, at, text[start:at]) for start, at in spans]


OTHER_PAIR = 1.0  # cost of quotes for what was in brackets and the like

LONGEST_CONTENT = 1000
"""Characters of content that is looked for in the target as it is: occurrences may overlap."""

CONTRARY = 0.5  # scores from which links speak against content that stands in the target as it is
NEIGHBOUR = 8.0  # weight of the score between the words on the left of a placeholder and of its place
PUNCTUATION = 1.0  # bonus of a place between two words for a point if similar punctuation ends on both sides
MAX_QUOTED = 250_000  # quoted placeholders times empty quotes of a sentence up to which the latter are filled
LONG = 5  # length from which a word next to an element may be a part of a compound
COMPOUND = 0.25  # score from which a word next to an element is a part of the compound that the element is in

_XML_PARTS = re.compile(r"<!\[CDATA\[.*?\]\]>|&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[^\W\d][\w.:-]*);", re.DOTALL)
_HTML_PARTS = re.compile(
    r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\W\d][\w.:-]*;|(?:"
    + "|".join(sorted((name for name in html5 if not name.endswith(";")), key=len, reverse=True))
    + ");?)"
)
"""Entities, some of which HTML reads without a semicolon, and what else no tag breaks."""

_HYPHEN = re.compile(r"[-\u2010\u2011\u2013](?=\w)")  # before a further part of a compound

PART = 0.6
"""Factor of the confidence of a tag that covers part of a word, unless that part stands in the target."""

DOUBTFUL = 0.9  # confidence of the least sure tag of a line below which the line is doubtful

UNLINKED, NO_ROOM = "no link", "no room"
MALFORMED, CROSSING = "in a target that is not well-formed", "in a target whose own tags are crossed"
MOVED = "moved around the target's own tags"
REPEATED = "one of several equal ones, of which the target has some"
ORDER = "in another order than the arguments"
OTHERS = "in a target with placeholders that the source does not have"
MIXED = "placeholders with and without numbers"
ANOTHER = "in a target with another element of this name"
"""Remarks on a tag that is placed."""


def review_line(
    number: int, rows: Sequence[Mapping[str, Any]], sides: tuple[str, str], failed: str | None = None
) -> str:
    """Return the line of a list of doubtful lines; an empty one if no tag's place is doubtful.

    Args:
        failed: why it could not be done, if so.
    """
    confidence = 0.0 if failed is not None else min((row["confidence"] for row in rows), default=1.0)
    if confidence >= DOUBTFUL:
        return ""
    remarks = ", ".join(dict.fromkeys([*([failed] if failed else []), *(r for row in rows for r in row["remarks"])]))
    return "\t".join(" ".join(cell.split()) for cell in (str(number), f"{confidence:.2f}", remarks, *sides)) + "\n"


class Placement(NamedTuple):
    """The position of a tag in the target.

    Attributes:
        tag: an opening tag, or a tag or placeholder without content, or several adjacent ones.
        source: its words, twice the same number for a place between two.
        target: the windows of target words that it encloses, one unless it was split; places as for the source.
        confidence: from 0 to 1. For content or words that stand in the target as they are 1; for other windows see
            `Scores.confidence`; for places the share of scores whose links do not cross it, and at most the difference
            to the next best place.
        remarks: "no link", "no room" next to other elements, "inside a word", "without its other half", "in a target
            that is not well-formed", such as XML with a lone `&`, which stays as it is, "moved around the target's own
            tags", with other letters than the links say, "in a target whose own tags are crossed", "one of several
            equal ones, of which the target has some", "in another order than the arguments" of a placeholder without
            number, "in a target with placeholders that the source does not have", "placeholders with and without
            numbers", or "in a target with another element of this name".
    """

    tag: str
    source: Window
    target: tuple[Window, ...]
    confidence: float
    remarks: tuple[str, ...] = ()

    def doubt(self, remark: str, most: float = 1.0) -> Placement:
        """Return the same position with another remark, and at most a confidence."""
        return self._replace(confidence=min(self.confidence, most), remarks=(*self.remarks, remark))

    def to_dict(self) -> dict[str, Any]:
        """Return strings, numbers and lists of them for `json.dumps`, with the confidence rounded to four digits."""
        windows = [[*window] for window in self.target]
        values = {"source": [*self.source], "target": windows, "confidence": round(self.confidence, 4)}
        return {"tag": self.tag, **values, "remarks": [*self.remarks]}


class Transferred(NamedTuple):
    """A target sentence with tags, and the position of each, in the source's order."""

    text: str
    report: tuple[Placement, ...]

    @property
    def confidence(self) -> float:
        """Return the confidence of the least sure tag; 1 without tags."""
        return min((placement.confidence for placement in self.report), default=1.0)


def place_markup(
    markup: Markup,
    target: str,
    words: Sequence[Window],
    scores: Scores,
    *,
    split: bool = False,
    own: Collection[int] = (),
) -> tuple[list[Insertion], list[tuple[set[int], Placement]]]:
    """Return where the tags of a line come in a text without tags, and their positions with the numbers of tokens.

    Args:
        words: start and end of the text's words.
        split: whether a tag may come more than once.
        own: offsets of other tags in the text.
    """
    placing = _Placing(markup, target, words, scores, split, own)
    placing.place()
    return _Writer(placing).write(), sorted(placing.report, key=lambda row: min(row[0]))


def has_token(markup: Markup, element: Element, names: Collection[str]) -> bool:
    """Tell whether an element has no text, but tokens of these names, such as placeholders, alone or in tags."""
    tokens = markup.tokens[element.tokens[0] : element.tokens[1] + 1] if element.start == element.end else ()
    return any(token.kind == "point" and token.name in names for token in tokens)


def unbroken_parts(text: str, syntax: Syntax) -> list[Window]:
    """Return the characters of the entities and CDATA sections of a text."""
    if not syntax.escaped or ("&" not in text and "<![" not in text):
        return []
    return [match.span() for match in (_HTML_PARTS if syntax.tags == "html" else _XML_PARTS).finditer(text)]


SHORT = 3  # length from which letters that two words begin with tell where another part of a word begins
GAP = 20  # limit of characters without letters on each side of a placeholder that are compared
PLACEHOLDERS = PLACEHOLDER, ICU
TEXTS = *PLACEHOLDERS, "ph", "x"  # tokens that stand for texts, also in XLIFF and TMX


def _gap(text: str, at: int) -> Window:
    """Return the range of characters around an offset up to the next letters."""
    sides = text[max(0, at - GAP) : at][::-1], text[at : at + GAP]
    before, behind = (next((n for n, c in enumerate(side) if is_letter_or_mark(c)), len(side)) for side in sides)
    return at - before, at + behind


def border(word: str, at: int, other: str) -> int | None:
    """Return where another word has the border that a word has at an offset, after the same kinds of characters."""
    if not 0 < at < len(word) or combines(other[at - 1 : at], other[at : at + 1]):
        return None
    kinds, others = ([(kind, len([*run])) for kind, run in groupby(side, kind_of)] for side in (word[:at], other))
    n, end = len(kinds), sum(length for _, length in others[: len(kinds)])
    is_cut = kind_of(word[at]) == kinds[-1][0]
    if other.startswith(word[:at]) and at < len(other) and (at >= SHORT or (at == end and not is_cut)):
        return at
    is_like = [kind for kind, _ in kinds] + [kind_of(word[at])] == [kind for kind, _ in others[: n + 1]]
    return end if is_like and not is_cut else None


def around(parts: Sequence[Window], offset: int) -> Window:
    """Return both ends of the part that an offset is within; without one, it twice."""
    n = bisect_right(parts, offset, key=lambda span: span[1])
    return parts[n] if n < len(parts) and parts[n][0] < offset else (offset, offset)


class _Placing:
    """Finds the windows and places of one sentence's tags, by the numbers of elements' first tokens."""

    def __init__(
        self, markup: Markup, target: str, spans: Sequence[Window], scores: Scores, split: bool, own: Collection[int]
    ) -> None:
        self.markup, self.target, self.spans = markup, target, spans
        self.unbroken = unbroken_parts(target, markup.syntax)
        self._scores, self._split = scores, split
        self.shown = show(target, markup.syntax.escaped)
        self._words = [target[start:end] for start, end in spans]
        self._positions: defaultdict[str, list[int]] = defaultdict(list)
        for k, word in enumerate(self._words):
            self._positions[word].append(k)
        self._source = [markup.shown[start:end].lower() for start, end in markup.words]
        self._is_mark = [is_punctuation(word) for word in self._source]
        self._borders = {offset for span in spans for offset in span}
        self._marks: defaultdict[str, set[int]] = defaultdict(set)  # words that end in each kind of mark
        for k, (start, end) in enumerate(spans):
            self._marks[mark_kind(self.shown[start:end])].add(k)
        self._marks[""].clear()
        self._places_of: dict[tuple[str, bool], tuple[list[Window], list[Window]]] = {}
        empty = _find_empty(target)  # but for those of the source: without a placeholder, or with the space of two
        texts = [token.text for token in markup.tokens if token.kind == "text"] if empty else []
        own_marks = {mark for text in texts for *_, mark in _find_empty(text)}
        own_marks |= {mark for *_, mark in _find_empty(markup.plain if empty else "") if _SPACED.search(mark)}
        self._empty = [
            (at, bisect_right(spans, start, key=lambda span: span[0]) - 1, mark)
            for start, at, mark in empty
            if at not in own and mark not in own_marks
        ]
        self.windows: dict[int, list[Window]] = {}
        self.places: dict[int, int] = {}
        self.characters: dict[int, Window] = {}
        self.spaces: dict[int, tuple[str, str]] = {}
        self._enclosed, self._edges = bytearray(len(target)), bytearray(len(target) + 1)
        self._ends, self._starts = dict[int, int](), dict[int, int]()  # of characters, by the offsets in the source
        self._parts: set[int] = set()  # elements whose characters are a part of a word, by what is around it
        self.report: list[tuple[set[int], Placement]] = []

    def place(self) -> None:
        """Find windows and places, from the outermost elements to the innermost."""
        root = self.markup.root
        self.windows[root.tokens[0]] = [(0, len(self._words))]
        waiting = [root]
        while waiting:
            parent = waiting.pop()
            regions = self.windows[parent.tokens[0]]
            if any(child.block for child in parent.children):
                waiting += self._divide(parent, *regions)
                continue
            spans = [child for child in parent.children if child.words[0] < child.words[1]]
            own = self.characters.get(parent.tokens[0], (0, 0))
            self._enclosed[slice(*own)] = bytes(own[1] - own[0])
            windows, taken = self._find(parent, spans, regions)
            self._enclosed[slice(*own)] = b"\1" * (own[1] - own[0])
            for child, child_windows in zip(spans, windows, strict=True):
                if child_windows:
                    self.windows[child.tokens[0]] = child_windows
                    is_part = child.tokens[0] in self._parts
                    is_equal = child.tokens[0] in self.characters and not is_part  # stands in the target as it is
                    factor = PART if INSIDE in child.remarks or is_part else 1.0
                    confidence = 1.0 if is_equal else factor * self._scores.confidence(child.words, child_windows)
                    self._note(child, child_windows, confidence)
                    waiting.append(child)
            self._fill_empty_pairs(parent, regions)
            places = [
                k
                for a, b in regions
                for k in range(a, b + 1)
                if k in (a, b) or taken[k] == FREE or taken[k - 1] != taken[k]  # not within a window
            ]
            for child in parent.children:
                if child.tokens[0] not in self.windows and child.tokens[0] not in self.characters:
                    self._place_whole(child, parent, regions, places)

    def _divide(self, parent: Element, region: Window) -> list[Element]:
        """Divide the words of an element among its blocks and, as elements without tags, what is between them."""
        parts, inline, start, at = list[Element](), list[Element](), parent.start, parent.words[0]
        last = Element((parent.tokens[1], 0), parent.end, parent.end, True, True, [], (parent.words[1], 0))
        for child in (*parent.children, last):
            if child.block:
                run = Element((-2 - child.tokens[0], 0), start, child.start, False, True, inline, (at, child.words[0]))
                parts += run, child
                inline, start, at = [], child.end, child.words[1]
            else:
                inline.append(child)
        spans = [part.words for part in parts[:-1] if part.words[0] < part.words[1]]
        windows, high = iter(divide(self._scores, spans, region, (self._source, self._words))), region[0]
        for part in parts[:-1]:
            number, text = part.tokens[0], self._source[slice(*part.words)]
            low, high = next(windows) if text else (high, high)
            if low == high:
                for element in [part] if number >= 0 else part.children:
                    self._place_whole(element, parent, [(low, low)], [low])
                continue
            self.windows[number], part.before, part.behind = [(low, high)], "", ""
            if number >= 0:
                is_equal = text == [word.lower() for word in self._words[low:high]]
                confidence = 1.0 if is_equal else self._scores.confidence(part.words, [(low, high)])
                self._note(part, [(low, high)], confidence, *[UNLINKED] * (not confidence))
        return [part for part in parts if part.tokens[0] in self.windows]

    def _note(self, element: Element, windows: Sequence[Window], confidence: float, *remarks: str) -> None:
        """Add the position of an element to the report."""
        first = element.tokens[0]
        tags = [(first, "")] if first in self.windows else self.markup.tags(element)
        tag = "".join(space + self.markup.tokens[n].text for n, space in tags)
        placement = Placement(tag, element.words, tuple(windows), confidence, (*element.remarks, *remarks))
        self.report.append(({n for n, _ in tags}, placement))

    def _find(
        self, parent: Element, spans: Sequence[Element], regions: Sequence[Window]
    ) -> tuple[list[list[Window]], list[int]]:
        """Return the windows of the elements with words in another one, and the element of each target word."""
        if len(spans) == 1 and spans[0].words == parent.words and self._words and INSIDE not in spans[0].remarks:
            place = None if self._split else self._find_verbatim(spans[0], parent, *regions)
            return [[place] if place else [*regions]], [0] * len(self._words)
        known = [None if self._split else self._find_verbatim(child, parent, regions[0]) for child in spans]
        # a part of a word, such as its comma, leaves the word to the elements next to it
        words, apart = [child.words for child in spans], [*known]
        starts, ends = {child.start for child in spans}, {child.end for child in spans}
        for n, (child, place) in enumerate(zip(spans, known, strict=True)):
            text = self.markup.shown[child.start : child.end].strip(" \t")
            whole = place and (self.spans[place[0]][0], self.spans[place[1] - 1][1])
            is_part = self.characters[child.tokens[0]] != whole if whole else is_punctuation(text)
            if is_part and INSIDE in child.remarks and (child.start in ends or child.end in starts):
                words[n], apart[n] = (0, 0), None
        if self._split:
            windows, owners = place_split(self._scores, words, regions)
            for n, child in enumerate(spans):
                for region in regions if INSIDE in child.remarks else ():
                    if not windows[n] and (place := self._find_verbatim(child, parent, region)):
                        windows[n] = [place]
            return windows, owners
        placed, taken = place_apart(self._scores, words, regions[0], apart)
        placed = [window or place for window, place in zip(placed, known, strict=True)]
        for n, (child, window) in enumerate(zip(spans, placed, strict=True)):
            if window and child.tokens[0] not in self.characters and INSIDE not in child.remarks:
                self._find_in_compound(child, window)
            elif window and window[1] - window[0] > 1 and self.borders(child, window) == (None, None):
                (start, first), (end, last) = self.markup.edges(child)  # of a compound that is several words here
                low = min(window[0] + first[:start].count("-"), window[1] - 1)
                placed[n] = low, max(low + 1, window[1] - last[end:].count("-"))
        return [[window] if window else [] for window in placed], taken

    def _find_in_compound(self, element: Element, window: Window) -> None:
        """Note the characters of a part of a compound, as in `<b>Hilfe</b>-Ansicht` for `<b>help</b> screen`."""
        low, high = window
        word, at = self._words[low], self.spans[low][0]
        hyphens = [match.start() for match in _HYPHEN.finditer(word)]
        is_part = []  # whether the source word on each side is the other part
        for i in (element.words[0] - 1, element.words[1]):
            # articles and prepositions are linked with nouns next to them; a part is longer, and has no better word
            row = self._scores.row(i) if 0 <= i < len(self._source) and len(self._source[i]) >= LONG else {}
            is_part.append(row.get(low, 0.0) >= COMPOUND and row[low] == max(row.values()))
        if high - low > 1 or not hyphens or is_part[0] == is_part[1]:
            return
        start = at + (hyphens[0] + 1 if is_part[0] else leading(word))
        end = at + (hyphens[-1] if is_part[1] else len(word) - trailing(word, full_stop=True))
        if start < end and not self._is_enclosed(start, end):
            self._note_characters(element, (start, end))
            self._parts.add(element.tokens[0])

    def borders(self, element: Element, window: Window) -> tuple[int | None, int | None]:
        """Return the characters where an element starts and ends in glued words, if both sides have the same border.

        If not, an element that it touches is a border.
        """
        (offset, first), (end_offset, last) = self.markup.edges(element)
        plain, words, (begin, after) = self.markup.plain, self.markup.words, element.words
        found: list[int | None] = []
        # an element that starts with the comma of a word, or ends with a bracket before one, has that word outside
        for k, at, word, side in (
            (window[0] - bool(plain[element.start : words[begin][0]].strip()), offset, first, 1),
            (window[1] - 1 + bool(plain[words[after - 1][1] : element.end].strip()), len(last) - end_offset, last, -1),
        ):
            other = self.shown[slice(*self.spans[k])] if 0 <= k < len(self.spans) else ""
            both = word[::side][:NEAR], other[::side][:NEAR]
            outer = [len(text) - len(text.lstrip(".,;:!?")) for text in both]  # other marks may follow
            outer = outer if at > outer[0] else [0, 0]
            place = border(both[0][outer[0] :], at - outer[0], both[1][outer[1] :])
            place = at - outer[1] if other == word else place
            edge = None if place is None else self.spans[k][side < 0] + side * (place + outer[1])
            near = self._ends.get(element.start, -1) if side > 0 else self._starts.get(element.end, -1)
            found.append(near if edge is None and other and self.spans[k][0] < near < self.spans[k][1] else edge)
        start, end = found
        return (start, end) if start is None or end is None or start < end else (None, None)

    def _find_verbatim(self, element: Element, parent: Element, region: Window) -> Window | None:
        """Return the window of an element whose content stands in the target as it is; note its characters."""
        content = self.markup.plain[element.start : element.end].strip(" \t")
        low, high = region
        if not content or low >= high:
            return None
        edges = self.characters.get(parent.tokens[0], (self.spans[low][0], self.spans[high - 1][1]))
        found, is_part = self._occurrences(content, edges, False), False
        if not found and INSIDE in element.remarks:
            if place := self._find_in_similar_word(element, content, region):
                return place
            found, is_part = self._occurrences(content, edges, True), True
        if len(found) > 1 or is_part:  # has to be linked
            gains = self._scores.inside(element.words)
            sums = {place: sum(gains[slice(*self._words_at(place))]) for place in found}
            found = [max(found, key=sums.__getitem__)] if any(sums.values()) else []
        elif found and " " not in content:  # may be a false friend: both words are linked to others
            first, end = self._words_at(found[0])
            gains, inside = self._scores.gains(element.words), self._scores.inside(element.words)
            if max(gains[first:end], default=0) < -CONTRARY and max(inside) > CONTRARY:
                found = []
        return self._words_at(self._note_characters(element, found[0])) if found else None

    def _occurrences(self, content: str, edges: Window, in_parts: bool) -> list[Window]:
        """Return the free characters of a content wherever it stands between two offsets, else so in small letters."""
        found: Sequence[Window] = []
        for lower in (False, True):
            if (content, lower) not in self._places_of:
                text, sought = self.target.replace("\t", " "), content.replace("\t", " ")
                text, sought = (text.lower(), sought.lower()) if lower else (text, sought)
                same = (len(text), len(sought)) == (len(self.target), len(content))
                self._places_of[content, lower] = occurrences(text if same else "", sought, self._borders)
            places = self._places_of[content, lower][in_parts]  # all of the same length
            first = bisect_left(places, edges[0], key=lambda place: place[0])
            found = found or places[first : bisect_right(places, edges[1], lo=first, key=lambda place: place[1])]
        return [place for place in found if not self._is_enclosed(*place)]

    def _find_in_equal_word(self, point: Element, regions: Sequence[Window]) -> Window | None:
        """Note and return where a point is that touches a word, or is inside one, which the target has too."""
        if not (point.before or point.behind):
            return None
        words = self.markup.words
        n = bisect_right(words, point.start, key=lambda span: span[1])
        n -= bool(n and words[n - 1][1] == point.start and not point.behind)
        row, text = self._scores.row(n), self.markup.plain[slice(*words[n])]
        equal = [k for k in self._positions[text] if any(low <= k < high for low, high in regions)]
        if self._is_mark[n]:  # in their order: links of several commas say little
            equal = equal[self._source[:n].count(text) :][:1]
        linked = [k for k in equal if row.get(k)]
        if not linked and (len(equal) != 1 or (len(text) < 2 and not self._is_mark[n])):
            return None
        starts = (self.spans[k][0] for k in sorted(linked or equal, key=lambda k: -row.get(k, 0.0)))
        places = (start + point.start - words[n][0] for start in starts)
        free = next((at for at in places if not self._is_enclosed(at, at)), None)
        return None if free is None else self._note_characters(point, (free, free))

    def _find_in_similar_word(self, element: Element, content: str, region: Window) -> Window | None:
        """Return the linked word that has the borders of an element inside a word; note the characters between them."""
        gains = self._scores.inside(element.words)
        is_part = INSIDE in element.remarks and element.words[1] - element.words[0] == 1
        for k in sorted((k for k in range(*region) if is_part and gains[k]), key=lambda k: -gains[k]):
            word, (low, high) = self.shown[slice(*self.spans[k])], self.spans[k]
            start, end = self.borders(element, (k, k + 1))
            start = low + leading(word) if start is None and not has_letters(element.before) else start
            end = high - trailing(word, True) if end is None and not has_letters(element.behind) else end
            if start is not None and end is not None and start < end and not self._is_enclosed(start, end):
                if self.target[start:end] != content:
                    self._parts.add(element.tokens[0])
                return self._words_at(self._note_characters(element, (start, end)))
        return None

    def _note_characters(self, element: Element, place: Window) -> Window:
        """Keep and return the characters that an element encloses."""
        start, end = self.characters[element.tokens[0]] = place
        self._starts[element.start], self._ends[element.end] = place
        self._enclosed[start:end] = b"\1" * (end - start)
        self._edges[start] = 1
        return place

    def _is_enclosed(self, start: int, end: int) -> bool:
        """Check whether some of these characters are those of an element, where they are known, or break an entity."""
        if any(around(self.unbroken, offset) != (offset, offset) for offset in (start, end)):
            return True
        return self._enclosed.find(1, start, end) >= 0 or self._edges.find(1, start + 1, end) >= 0

    def _words_at(self, place: Window) -> Window:
        """Return the words that characters of the target belong to."""
        first = bisect_right(self.spans, place[0], key=lambda span: span[1])
        return first, bisect_left(self.spans, place[1], key=lambda span: span[0])

    def _fill_empty_pairs(self, parent: Element, regions: Sequence[Window]) -> None:
        """Place placeholders, and points that stood within quotes or brackets, into empty ones, across few links."""
        from scipy.optimize import linear_sum_assignment

        holes = [hole for hole in self._empty if any(low <= hole[1] < high for low, high in regions)]
        points: list[tuple[Element, str]] = []
        for child in parent.children:
            pair = child.before[-1:] + child.behind[:1]
            kinds = {*map(kind_of, pair)}
            is_free = has_token(self.markup, child, PLACEHOLDERS) and kinds.isdisjoint(("quote", "open", "close"))
            if child.tokens[0] not in self.windows and child.start == child.end and (pair in _PAIRS or is_free):
                points.append((child, pair if pair in _PAIRS else ""))
        if not holes or not points or len(points) * len(holes) > MAX_QUOTED:
            return
        costs: list[list[float]] = []
        for n, (point, pair) in enumerate(points):
            crossed = self._scores.crossings(point.words[0])
            costs.append([-min(crossed) * (len(points) > len(holes))] * len(holes))
            for m, (_, k, text) in enumerate(holes):
                is_other = kind_of(unescape(text)[0]) != (kind_of(pair[0]) if pair else "quote")
                costs[n][m] += OTHER_PAIR * is_other + OTHER_PAIR / 4 * (not pair)
                costs[n][m] += min(crossed[k : k + 2])
        for n, m in zip(*linear_sum_assignment(costs), strict=True):
            (point, _), (offset, k, text) = points[n], holes[m]
            self.places[point.tokens[0]] = k
            self._insert_at(point, offset)
            self.spaces[point.tokens[0]] = "", "".join(_SPACED.findall(text))
            self._note(point, [(k, k)], 1.0)
            self._empty.remove(holes[m])

    def _place_whole(self, element: Element, parent: Element, regions: Sequence[Window], places: Sequence[int]) -> None:
        """Place an element without words, or without a link, in one piece where the fewest links are crossed."""
        at = element.words[0]
        costs = self._scores.crossings(at)
        found = element.start == element.end and self._find_in_equal_word(element, regions)
        place, margin = self._cheapest(element, parent, regions, places, costs)
        if found:
            place = self._words_at(found)[0]
        self.places[element.tokens[0]] = place
        touches = is_letter_or_mark(element.before[-1:]) or is_letter_or_mark(element.behind[:1])
        if not found and self._words and not touches and has_token(self.markup, element, TEXTS):
            self._place_in_gap(element, place)
        all_scores = costs[0] + costs[-1]
        confidence = 1.0 if found else min(margin, 1 - costs[place] / all_scores) if all_scores else 0.0
        if element.words[0] < element.words[1]:  # which it does not enclose
            confidence = 0.0
            remark = NO_ROOM if self._scores.linked(element.words) else UNLINKED
        else:
            remark = "" if at in parent.words or self._scores.linked((max(0, at - 1), at + 1)) else UNLINKED
            confidence = confidence if found or INSIDE not in element.remarks else min(confidence, PART)
        self._note(element, [(place, place)], confidence, *filter(None, [remark]))

    def _place_in_gap(self, element: Element, place: int) -> None:
        """Note where between two words a placeholder is, and spaces next to it, by what both texts have around it."""
        texts = self.markup.shown, self.shown
        at = element.start, self.spans[place][0] if place < len(self.spans) else self.spans[-1][1]
        (low, high), (left, right) = (_gap(text, offset) for text, offset in zip(texts, at, strict=True))
        before, behind, gap = texts[0][low : at[0]], texts[0][at[0] : high], texts[1][left:right]
        is_end = (high, right) == (len(texts[0]), len(texts[1])) and mark_kind(gap) != "stop"

        def fit(k: int) -> tuple[int, bool, int, int]:
            same = 0
            for side in ((before[::-1], gap[:k][::-1]), (behind, gap[k:])):
                pairs = zip(*(text.lstrip(" ") for text in side), strict=False)
                same += sum(1 for _ in takewhile(lambda pair: kind_of(pair[0]) == kind_of(pair[1]), pairs))
            there, last = self.shown[max(0, left + k - 1) : left + k], before[-1:]
            is_like = gap[k : k + 1] == " " if behind[:1] == " " != behind else there in (last, last or " ")
            spaces = [len(text) - len(text.rstrip(" ")) for text in (before, gap[:k])]
            return same, is_like, -abs(spaces[0] - spaces[1]), k * is_end

        self._insert_at(element, left + max(range(len(gap) + 1), key=fit))

    def _insert_at(self, element: Element, at: int) -> None:
        """Note the offset of a placeholder, and spaces next to it: those that the source has, or that part words."""
        source, start = self.markup.shown, element.start
        before, behind = source[max(0, start - 1) : start].strip(), source[start : start + 1].strip()
        left, right = self.shown[max(0, at - 1) : at].strip(), self.shown[at : at + 1].strip()
        ends = mark_kind(left) != "" and kind_of(left) != kind_of(before or " ")
        is_parted = left and not opens(left) and (not before or is_letter_or_mark(left) or ends)
        is_glued = right == "-" != source[start : start + 2].strip() and is_letter_or_mark(self.shown[at + 1 : at + 2])
        is_apart = right and not is_glued and (opens(right) or not closes(right))  # not in `%s-Modus` for `%s mode`
        is_apart = is_apart and (not behind or is_letter_or_mark(right))
        self.spaces[element.tokens[0]] = " " * bool(is_parted), " " * bool(is_apart)
        self.characters[element.tokens[0]] = at, at

    def _cheapest(
        self, element: Element, parent: Element, regions: Sequence[Window], places: Sequence[int], costs: list[float]
    ) -> tuple[int, float]:
        """Return the place that the fewest links cross, and by how much the next best is worse, at most 1."""
        at = element.words[0]
        words = self._source
        is_placeholder = has_token(self.markup, element, PLACEHOLDERS)
        if not is_placeholder and at <= parent.words[0]:  # stays at the edge of its parent
            return regions[0][0], 1.0
        if not is_placeholder and at >= parent.words[1]:
            return regions[-1][1], 1.0
        share = len(self._words) / max(1, len(words))
        mark = mark_kind(words[at - 1] if at else "")
        left = self._scores.row(at - 1) if at and is_placeholder else {}
        if (mark and self._marks[mark]) or (at and self._is_mark[at - 1]):
            left = {}
        marks = self._marks[mark or mark_kind(element.behind[:1])]
        reach = {j + 1: score for j, score in left.items()}
        gains = self._scores.gains((at - 1, at)) if left and at == len(words) else []
        for k in (k for k, gain in enumerate(gains) if gain > 0 and k in reach):  # a preposition of the target's own
            reach[k + 1] = max(reach[k], reach.get(k + 1, 0.0))

        def cost(k: int) -> tuple[float, float]:
            bonus = PUNCTUATION if k - 1 in marks else 0.0
            return round(costs[k] - bonus - NEIGHBOUR * reach.get(k, 0.0), 9), abs(k - at * share)

        limit = nsmallest(2, [costs[k] for k in places])[-1] + 1e-9  # no bonus is negative
        candidates = [k for k in places if costs[k] <= limit or k - 1 in marks or k in reach]
        best, *others = nsmallest(2, ((*cost(k), n, k) for n, k in enumerate(candidates)))
        return best[-1], min(1.0, others[0][0] - best[0]) if others else 1.0


def occurrences(text: str, content: str, borders: Collection[int]) -> tuple[list[Window], list[Window]]:
    """Return the characters of a content wherever it stands in a text: as whole words, and in parts of words.

    In a part of a word, a letter or digit is next to it.
    """
    places: tuple[list[Window], list[Window]] = [], []
    at = text.find(content) if len(content) <= LONGEST_CONTENT else -1
    while at >= 0:
        end = at + len(content)
        before, after = text[max(0, at - 1) : at], text[end : end + 1]
        if not combines(before, content[0]) and not combines(content[-1], after):
            is_joined = before and is_letter_or_mark(before + content[0]) and at not in borders
            is_joined = is_joined or (after and is_letter_or_mark(content[-1] + after) and end not in borders)
            places[bool(is_joined)].append((at, end))
        at = text.find(content, at + 1)
    return places
