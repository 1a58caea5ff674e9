"""Put the tags of a source sentence into its translation along word links.

The content of an element goes into one window of target words, as `align.transfer.windows` finds it; tags without
content go where the fewest links are crossed, and punctuation counts, as in SIL's machine.py. Elements stay nested
as they were, and none overlaps another.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from heapq import nsmallest
from itertools import accumulate
from typing import Any, NamedTuple

from align.models.punctuation import (
    closes,
    combines,
    ends_sentence,
    is_letter_or_mark,
    is_punctuation,
    leading,
    leading_beyond,
    mark_kind,
    partners,
    sentence_ends,
    trailing,
    trailing_beyond,
    visible_edges,
)
from align.transfer.own_tags import OwnTags
from align.transfer.tags import (
    ICU,
    INSIDE,
    PLACEHOLDER,
    Element,
    Markup,
    Syntax,
    Token,
    has_letters,
    has_positional,
    mixes_arguments,
    parse_target,
    positional_of,
    read_markup,
    words_in,
)
from align.transfer.windows import FREE, OUTSIDE, Scores, Window, place_apart, place_split


class _Item(NamedTuple):
    """An element to write in a window, or at a place, which begins where it ends."""

    window: Window
    element: Element


class _Writer:
    """Writes the tags of a line into another text.

    The text stays unchanged, except for a space next to tags that stand between spaces in the line.

    Args:
        windows: windows of target words for the elements that enclose words, by the number of their first token.
        places: target word after each element that is written in one piece, by the number of its first token.
        characters: characters of the target that an element encloses, where these are known.
        apart: whether placeholders have spaces around them.

    Attributes:
        inserted: characters of the result that are not of the text.
        elements: numbers of the insertions that are both tags of an element.
        moved: numbers of the elements that enclose other letters, so as not to cross the text's own.
    """

    def __init__(
        self,
        markup: Markup,
        target: str,
        words: Sequence[Window],
        windows: Mapping[int, Sequence[Window]],
        places: Mapping[int, int],
        characters: Mapping[int, Window],
        own: OwnTags,
        apart: bool = False,
    ) -> None:
        self._markup, self._target, self._windows, self._places = markup, target, windows, places
        self._characters, self._apart = characters, apart
        self._words = words
        self._own = own
        self.inserted: list[Window] = []
        self.elements: list[tuple[int, int]] = []
        self.moved: set[int] = set()
        self._done: list[str] = []
        self._at = self._length = 0
        self._items: dict[int, list[_Item]] = {}

    def write(self) -> str:
        """Return the text with all tags."""
        tokens = self._markup.tokens
        waiting: list[tuple[_Item, int] | tuple[str, int]] = []
        opened: list[int] = []
        self._enter(_Item((0, len(self._words)), self._markup.root), len(self._target), waiting)
        while waiting:
            entry, limit = waiting.pop()
            if isinstance(entry, str):
                self._copy(limit)
                self.elements.append((opened.pop(), len(self.inserted)))
                self._insert(entry)
            elif entry.element.tokens[0] in self._windows:
                start, end = self._edges(entry)
                start, end = self._own.around(start)[0], self._own.around(end)[1]
                last = min(limit, self._start_of(waiting[-1]) if waiting else limit)
                start, end, moved = self._own.fit(start, end, self._at, last)
                if moved:
                    self.moved.add(entry.element.tokens[0])
                self._copy(min(start, limit))
                opened.append(len(self.inserted))
                self._insert(tokens[entry.element.tokens[0]].text)
                end = max(self._at, min(end, limit))
                waiting.append((tokens[entry.element.tokens[1]].text, end))
                self._enter(entry, end, waiting)
            else:
                self._write_whole(entry, limit)
        self._copy(len(self._target))
        return "".join(self._done)

    def _start_of(self, following: tuple[_Item, int] | tuple[str, int]) -> int:
        """Return the first character of what is written next."""
        entry, limit = following
        if isinstance(entry, str):
            return limit
        if entry.element.tokens[0] in self._characters:
            return self._characters[entry.element.tokens[0]][0]
        k = entry.window[0]
        return self._words[k][0] if k < len(self._words) else limit

    def _insert(self, tags: str) -> None:
        """Write what is not of the text."""
        self.inserted.append((self._length, self._length + len(tags)))
        self._length += len(tags)
        self._done.append(tags)

    def _copy(self, end: int) -> None:
        """Write the text up to this offset, if it is not yet written."""
        if end > self._at:
            self._done.append(self._target[self._at : end])
            self._length += end - self._at
            self._at = end

    def _enter(self, item: _Item, limit: int, waiting: list[tuple[_Item, int] | tuple[str, int]]) -> None:
        """Push the content of an element, to be written next, none of it beyond a limit."""
        element, (low, high) = item.element, item.window
        key = element.tokens[0]
        if key not in self._items:
            self._items[key] = sorted(self._inside(element), key=self._order)
        items = self._items[key]
        first = bisect_left(items, low, key=lambda child: child.window[0])
        here = []
        for child in items[first:]:
            if child.window[0] > high:
                break
            here.append((child, limit))
        waiting.extend(reversed(here))

    def _order(self, item: _Item) -> tuple[int, int, int, tuple[int, int]]:
        low, high = item.window
        start = self._words[low][0] - (low == high) if low < len(self._words) else 0
        start = self._characters.get(item.element.tokens[0], (start, 0))[0]
        return low, start, high, item.element.tokens

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
        if element.tokens[0] in self._characters:
            return self._characters[element.tokens[0]]
        (start, _), (_, end) = self._words[low], self._words[high - 1]
        first, last = visible_edges(self._markup.plain[element.start : element.end])
        whole = element.words == self._markup.root.words
        (offset, word), (end_offset, end_word) = self._markup.edges(element)
        if word == self._word(low):
            start += offset
        elif element.before or not whole:
            start += leading_beyond(self._word(low), first)
        if end_word == self._word(high - 1):
            end = self._words[high - 1][0] + end_offset
        elif element.behind or not whole:
            end -= trailing_beyond(self._word(high - 1), self._is_full_stop(high - 1, element), last)
        return start, end

    def _is_full_stop(self, k: int, element: Element) -> bool:
        """Tell whether a point after a word ends a sentence, as far as the next word and the element show."""
        words = [self._word(n) for n in range(k, min(k + 2, len(self._words)))]
        return "." in element.behind or ends_sentence(words, 0)

    def _word(self, k: int) -> str:
        return self._target[slice(*self._words[k])]

    def _write_whole(self, item: _Item, limit: int) -> None:
        """Write tags without words in one piece: next to the word they touch, or between spaces."""
        element, k = item.element, item.window[0]
        if element.tokens[0] in self._characters:
            self._copy(min(self._own.around(self._characters[element.tokens[0]][0])[0], limit))
            self._insert(self._with_spaces(self._markup.tags(element), element))
            return
        wordless = element.words[0] == element.words[1]
        free = not element.before and not element.behind
        left_alone = not element.before or (is_punctuation(element.before) and has_letters(element.behind))
        on_left = wordless and not free and not left_alone
        on_left = bool(k) and (on_left or k == len(self._words))
        at = self._own.around(self._next_to_word(k, element, on_left=on_left))[on_left]
        self._copy(min(at, limit))
        tags = self._markup.tags(element)
        around = self._target[max(0, self._at - 1) : self._at], self._target[self._at : self._at + 1]
        left, right = (part in ("", " ", "\t") for part in around)
        words, (first, last) = self._markup.words, element.tokens
        has_placeholder = any(token.name in (PLACEHOLDER, ICU) for token in self._markup.tokens[first : last + 1])
        following = self._markup.plain[slice(*words[element.words[1]])] if element.words[1] < len(words) else ""
        if free and wordless and left and around[1] and closes(around[1]) and not closes(following[:1] or "x"):
            pass  # at a mark whose word is missing
        elif free and wordless and left != right:  # at the edge of a word, not in one
            tags = tags + " " if left else " " + tags
        elif wordless and not free and (left or right or has_placeholder):
            # the punctuation that it touched may be missing; only placeholders become text, and may split a word
            before, after = self._own.neighbours(self._at)
            tags = " " * (before.isalnum() and not element.before[-1:].isalnum()) + tags
            tags += " " * (after.isalnum() and not element.behind[:1].isalnum())
        if free and left and self._done and not self._done[-1].endswith(" ") and is_placeholder(self._markup, element):
            tags = " " + tags
        self._insert(self._with_spaces(tags, element))

    def _with_spaces(self, tags: str, element: Element) -> str:
        """Return a placeholder with the spaces that it must have around it, if it must."""
        if not self._apart or not is_placeholder(self._markup, element):
            return tags
        done, rest = "".join(self._done[-2:]), self._target[self._at :]
        left, right = done and not done.endswith((" ", "\t")), rest and not rest.startswith((" ", "\t"))
        return f"{' ' * bool(left)}{tags.strip(' ')}{' ' * bool(right)}"

    def _next_to_word(self, k: int, element: Element, on_left: bool) -> int:
        """Return the offset of a tag next to a word: after the one on the left, or before the one on the right."""
        if not self._words:
            return 0
        if on_left:
            cut = trailing(self._word(k - 1), self._is_full_stop(k - 1, element)) if element.behind else 0
            return self._words[k - 1][1] - cut
        return self._words[k][0] + (leading(self._word(k)) if element.before else 0)


_PAIRS = (
    "»«",
    "«»",
    "„“",
    "„”",
    "“”",
    "””",
    "‚‘",
    "‘’",
    "`'",
    "``",
    "''",
    '""',
    "()",
    "[]",
    "<>",
    "{}",
    "「」",
    "『』",
    "《》",
)
_BRACKETS = frozenset("([{\uff08\uff3b\uff5b")
_EMPTY = re.compile("|".join(f"{re.escape(pair[0])}(?={re.escape(pair[1])})" for pair in sorted(_PAIRS)))
"""The first of two marks with nothing between them, where a placeholder may have been."""

LONGEST_CONTENT = 1000
"""Characters of content that is looked for in the target as it is: occurrences may overlap."""

_JOINTS = frozenset("-./_:@=+~")
"""Marks that join names, as in `Makefile.in`."""

SHORT = 3
"""Length from which content that stands in the target as it is needs no link."""

_BRIDGES = """about after against at before between by for from in into of off on onto over to under with without
an am auf aus bei beim bis durch für gegen im in ins mit nach ohne seit um unter über vom von vor zu zum zur zwischen
à au aux avec dans de des du en entre par pour sans sous sur a al con da de del di do em en entre na no para per por su
aan bij door met naar onder op over te tot uit van voor"""
BRIDGES = frozenset(_BRIDGES.split())
"""Prepositions, which a placeholder follows in both languages."""

BRIDGED = 0.2
"""Score from which two prepositions are translations of each other."""

NEIGHBOUR = 2.0
"""Weight of the score between the words on the left of a placeholder and of its place."""

PUNCTUATION = 1.0
"""Bonus of a place between two words for a point if similar punctuation ends on both sides."""

MOST_QUOTED = 250_000
"""Quoted placeholders times empty quotes of a sentence up to which the latter are filled."""

LONG = 5
"""Length from which a word next to an element may be a part of a compound."""

MOST_QUOTED_WORDS = 100
"""Words of an element up to which quotes and brackets in it keep their partners."""

MOST_MISSING = 10
"""Words by which a window may grow up to the partner of a quote or bracket."""

COMPOUND = 0.25
"""Score from which a word next to an element is a part of the compound that the element is in."""

_UNIDENTIFIED = re.compile(r"""<([A-Za-z][\w:.-]*)(?![^<>]*\s(?:id|mid|i|x|rid|startRef)\s*=)""")
_PART = re.compile(r"[-\u2010\u2011\u2013]\w+")
"""A further part of a compound; backwards, an earlier one."""

PART = 0.6
"""Factor of the confidence of a tag that covers part of a word, unless that part stands in the target."""

DOUBTFUL = 0.9
"""Confidence of the least sure tag of a line below which the line is doubtful."""

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
        """The confidence of the least sure tag; 1 without tags."""
        return min((placement.confidence for placement in self.report), default=1.0)


def transfer_markup(
    source: str,
    target: str,
    scores: Mapping[tuple[int, int], float] | Collection[tuple[int, int]],
    *,
    tags: str = "xml",
    split: bool = False,
) -> Transferred:
    """Put the tags of a source sentence into its translation.

        transfer_markup("Das <b>Haus</b> ist alt.", "The house is old.", parse_pharaoh("0-0 1-1 2-2 3-3"))

    Each tag appears once, as it is written; the target's text stays unchanged, except for a space next to a tag that
    stood between spaces. Words are those of the lines without tags.

    Args:
        source: the sentence with its tags.
        target: its translation, without tags; if tags are XML or HTML, `&` and `<` are written as entities.
        scores: scores of links (source word, target word), or a set of links.
        tags: "xml", "html" or "placeholders".
        split: whether a tag may appear more than once, around all target words that are linked with its own.

    Raises:
        ValueError: the kind of tags is unknown, the source is invalid, or a link is to a word that does not exist.
    """
    return place_markup(read_markup(source, tags, target), target, scores, split=split)


def place_markup(
    markup: Markup,
    target: str,
    scores: Mapping[tuple[int, int], float] | Collection[tuple[int, int]],
    *,
    words: Sequence[Window] | None = None,
    split: bool = False,
    outside: float = OUTSIDE,
    punctuation: float = PUNCTUATION,
) -> Transferred:
    """Put the tags of a parsed sentence into its translation; see `transfer_markup`.

    Args:
        words: start and end of the target's words; by default those between spaces.
    """
    spans = words_in(target) if words is None else words
    table = Scores(scores, len(markup.words), len(spans))
    own = OwnTags(target, markup.syntax)
    placing = _Placing(markup, target, spans, table, split, outside, punctuation, own)
    placing.place()
    positions = placing.windows, placing.places, placing.characters
    writer = _Writer(markup, target, spans, *positions, own)
    text = writer.write()
    if markup.syntax.has_placeholders and not _is_intact(markup, own, text):
        writer = _Writer(markup, target, spans, *positions, own, apart=True)
        text = writer.write()
    placements = sorted(placing.report)
    if own.tokens is None:
        report = [placement.doubt(MALFORMED) for _, placement in placements]
    elif not own.stay(text, writer.inserted, writer.elements):
        report = [placement.doubt(CROSSING, 0.0) for _, placement in placements]
    else:
        report = [placement.doubt(MOVED, PART) if n in writer.moved else placement for n, placement in placements]
    if markup.repeated:
        report = [
            placement.doubt(REPEATED, PART) if any(tag in placement.tag for tag in markup.repeated) else placement
            for placement in report
        ]
    report = doubt_arguments(_doubt_order(report, markup, text), markup.extra, text, markup.tokens, markup.syntax)
    return Transferred(text, tuple(report))


def _doubt_order(report: Sequence[Placement], markup: Markup, text: str) -> list[Placement]:
    """Doubt placeholders without a number or name that have changed places: a program fills them in their order."""
    rows = [*report]
    positional = [n for n, row in enumerate(rows) if has_positional(row.tag)]
    doubtful: Sequence[int] = out_of_order([rows[n].target[0] for n in positional])
    if positional and not doubtful:  # or with those that the target has
        there = positional_of(parse_target(text, markup.syntax))
        if there != markup.positional and Counter(there) == Counter(markup.positional):
            doubtful = range(len(positional))
    for n in doubtful:
        rows[positional[n]] = rows[positional[n]].doubt(ORDER, 0.0)
    return rows


def doubt_arguments(
    report: Sequence[Placement], extra: Sequence[str], text: str, source: Sequence[Token], syntax: Syntax
) -> list[Placement]:
    """Doubt what is placed in a target with others that the source lacks, or that are written in another way."""
    remarks = [OTHERS] * any(tag[:1] != "<" for tag in extra)
    if report and "$" in text and not mixes_arguments(source) and mixes_arguments(parse_target(text, syntax)):
        remarks.append(MIXED)
    names = {name[1].lower() for tag in extra if (name := _UNIDENTIFIED.match(tag))}
    rows = []
    for row in report:
        if names and any(name.lower() in names for name in _UNIDENTIFIED.findall(row.tag)):
            row = row.doubt(ANOTHER, 0.0)
        if remarks and (row.tag[:1] != "<" or "%" in row.tag):
            for remark in remarks:
                row = row.doubt(remark, 0.0)
        rows.append(row)
    return rows


def out_of_order(values: Sequence[Any]) -> list[int]:
    """Return the positions of all values of which a larger one is before, or a smaller one behind."""
    highest = [*accumulate(values, max)]
    lowest = [*accumulate(reversed(values), min)][::-1]
    return [n for n, value in enumerate(values) if value < highest[n] or value > lowest[n]]


def is_placeholder(markup: Markup, element: Element) -> bool:
    """Tell whether an element is a placeholder, or several adjacent ones."""
    return markup.tokens[element.tokens[0]].name in (PLACEHOLDER, ICU)


def _is_intact(markup: Markup, own: OwnTags, text: str) -> bool:
    """Check that a text has the placeholders of the source and of the target: none became part of another one."""
    try:
        after = markup.syntax.parse(text)
    except ValueError:  # as the target is not well-formed
        return True
    names = (PLACEHOLDER, ICU)
    expected = Counter(token.text for token in (*markup.tokens, *(own.tokens or ())) if token.name in names)
    return expected == Counter(token.text for token in after if token.name in names)


class _Placing:
    """Finds the windows and places of one sentence's tags, by the numbers of elements' first tokens."""

    def __init__(
        self,
        markup: Markup,
        target: str,
        spans: Sequence[Window],
        scores: Scores,
        split: bool,
        outside: float,
        punctuation: float,
        own: OwnTags,
    ) -> None:
        self._markup, self._scores, self._split = markup, scores, split
        self._outside, self._punctuation = outside, punctuation
        self._words = [target[start:end] for start, end in spans]
        self._positions: defaultdict[str, list[int]] = defaultdict(list)
        for k, word in enumerate(self._words):
            self._positions[word].append(k)
        self._source = [markup.plain[start:end].lower() for start, end in markup.words]
        self._ends = sentence_ends(self._words)
        self._target, self._spans = target, spans
        self._borders = {offset for span in spans for offset in span}
        self._source_borders = {offset for span in markup.words for offset in span}
        self._marks: dict[str, set[int]] = {"stop": set(), "pause": set(), "": set()}
        for k, word in enumerate(self._words):
            if kind := mark_kind(word):
                self._marks[kind].add(k)
        lower = target.lower()
        self._texts = {"source": markup.plain, "target": target, "lower": lower if len(lower) == len(target) else ""}
        self._own = own
        self._places_of: dict[tuple[str, str], dict[str, list[Window]]] = {}
        self._empty = [match.start() + 1 for match in _EMPTY.finditer(target)]
        self.windows: dict[int, list[Window]] = {}
        self.places: dict[int, int] = {}
        self.characters: dict[int, Window] = {}
        self._enclosed, self._edges = bytearray(len(target)), bytearray(len(target) + 1)
        self._parts: set[int] = set()  # elements whose characters are a part of a word, by what is around it
        self.report: list[tuple[int, Placement]] = []

    def place(self) -> None:
        """Find windows and places, from the outermost elements to the innermost."""
        root = self._markup.root
        self.windows[root.tokens[0]] = [(0, len(self._words))]
        waiting = [root]
        while waiting:
            parent = waiting.pop()
            regions = self.windows[parent.tokens[0]]
            spans = [child for child in parent.children if child.words[0] < child.words[1]]
            own = self.characters.get(parent.tokens[0], (0, 0))
            self._enclosed[slice(*own)] = bytes(own[1] - own[0])
            windows, taken = self._find(parent, spans, regions)
            self._enclosed[slice(*own)] = b"\1" * (own[1] - own[0])
            for child, child_windows in zip(spans, windows, strict=True):
                if child_windows:
                    self.windows[child.tokens[0]] = child_windows
                    self._note(child, child_windows, self._confidence(child, child_windows))
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

    def _confidence(self, element: Element, windows: Sequence[Window]) -> float:
        """Return how sure the windows of an element are; certain if its content stands in the target as it is."""
        if element.tokens[0] in self.characters and element.tokens[0] not in self._parts:
            return 1.0
        return self._scores.confidence(element.words, windows) * (
            PART if INSIDE in element.remarks or element.tokens[0] in self._parts else 1.0
        )

    def _note(self, element: Element, windows: Sequence[Window], confidence: float, *remarks: str) -> None:
        """Add the position of an element to the report."""
        first = element.tokens[0]
        tag = self._markup.tokens[first].text if first in self.windows else self._markup.tags(element)
        placement = Placement(tag, element.words, tuple(windows), confidence, (*element.remarks, *remarks))
        self.report.append((first, placement))

    def _find(
        self, parent: Element, spans: Sequence[Element], regions: Sequence[Window]
    ) -> tuple[list[list[Window]], list[int]]:
        """Return the windows of the elements with words in another one, and the element of each target word."""
        if len(spans) == 1 and spans[0].words == parent.words and self._words and INSIDE not in spans[0].remarks:
            place = None if self._split or spans[0].block else self._find_verbatim(spans[0], parent, *regions)
            return [[place] if place else [*regions]], [0] * len(self._words)
        words = [child.words for child in spans]
        if self._split:
            return place_split(self._scores, words, regions, self._outside)
        (region,) = regions
        ends = [self._ends | {*region} if child.block else None for child in spans]
        known = [None if child.block else self._find_verbatim(child, parent, region) for child in spans]
        placed, taken = place_apart(self._scores, words, region, ends, self._outside, known)
        for n, (child, window) in enumerate(zip(spans, placed, strict=True)):
            if window and child.tokens[0] not in self.characters and not child.block:
                window = self._without_compound(child, window)
                placed[n] = low, high = self._balanced(child, window, region, taken)
                taken[low:high] = [n] * (high - low)
        return [[window] if window else [] for window in placed], taken

    def _balanced(self, element: Element, window: Window, region: Window, taken: Sequence[int]) -> Window:
        """Return a window with the words up to the partner of a quote or bracket in it, if the source has both."""
        content = self._markup.plain[element.start : element.end].split()
        low, high = window
        if len(content) > MOST_QUOTED_WORDS:
            return window
        for kind in ("quote", "bracket"):
            own = [partners(word, kind) for word in content]
            opened, closed = (sum(marks[side] for marks in own) for side in (0, 1))
            if not opened or opened != closed:
                continue
            first = low if own[0][0] else low + 1
            depth = 0
            for k in range(first, min(region[1], window[1] + MOST_MISSING)):
                if k >= window[1] and (depth <= 0 or taken[k] != FREE):
                    break
                more, fewer = partners(self._words[k], kind)
                depth += more - fewer
                if k >= window[1] and fewer and depth == 0:
                    high = k + 1
        return low, high

    def _without_compound(self, element: Element, window: Window) -> Window:
        """Return the window of an element without the other parts of a compound.

        In `<b>Stable</b>-Suite` the window of the compound is that of the element, which covers its first part only;
        in `<b>Help</b> screen`, its characters are a part of `Hilfe-Ansicht`.
        """
        if INSIDE in element.remarks:
            (start, first), (end, last) = self._markup.edges(element)
            before, after = (len(_PART.findall(text)) for text in (first[:start][::-1], last[end:]))
        else:
            i, n = element.words
            before, after = (self._is_part(m, window[0]) for m in (i - 1, n))
        low, high = window
        if high - low > 1 and INSIDE in element.remarks:
            low = min(low + before, high - 1)
            return low, max(low + 1, high - after)
        word, at = self._words[low], self._spans[low][0]
        hyphens = [match.start() for match in _PART.finditer(word)]
        if high - low == 1 and bool(before) != bool(after) and before + after <= len(hyphens):
            start = at + hyphens[before - 1] + 1 if before else at + leading(word)
            end = at + len(word) - trailing(word, full_stop=True) if before else at + hyphens[-after]
            if start < end and not self._is_enclosed(start, end):
                self._note_characters(element, (start, end))
                self._parts.add(element.tokens[0])
        return window

    def _is_part(self, i: int, k: int) -> bool:
        """Tell whether a source word outside of an element is a part of the compound that the target has for both.

        Articles and prepositions are linked with nouns next to them; a part is longer, and has no better word.
        """
        if not 0 <= i < len(self._source) or len(self._source[i]) < LONG:
            return False
        row = self._scores.row(i)
        return row.get(k, 0.0) >= COMPOUND and row[k] == max(row.values())

    def _find_verbatim(self, element: Element, parent: Element, region: Window) -> Window | None:
        """Return the window of an element whose content stands in the target as it is; note its characters.

        Where the content occurs more than once, is very short, or a part of a word, the occurrence has to be linked.
        """
        content = self._markup.plain[element.start : element.end].strip(" \t")
        low, high = region
        if not content or low >= high:
            return None
        edges = self.characters.get(parent.tokens[0], (self._spans[low][0], self._spans[high - 1][1]))
        found = self._in_order(element, content, parent, edges)
        if not found and (place := self._find_in_equal_word(element, [region])):
            return self._words_at(place)
        kind = ""
        for kind in ("alone", "whole", "part") if INSIDE in element.remarks and not found else ("alone", "whole"):
            for text in ("target", "lower") if len(content) >= SHORT else ("target",):
                found = found or _within(self._occurrences(content, text)[kind], *edges)
            if found:
                break
        found = [place for place in found if not self._is_enclosed(*place)]
        if len(found) > 1 or len(content) < SHORT or kind == "part":
            gains = self._scores.inside(element.words)
            linked = [j for j in range(low, high) if gains[j]]
            found = sorted({place for j in linked for place in self._overlapping(found, j)})
            if len(found) > 1:
                found = [max(found, key=lambda place: sum(gains[slice(*self._words_at(place))]))]
        if not found:
            similar = self._find_in_similar_word(element, region)
            return similar and self._words_at(similar)
        self._note_characters(element, found[0])
        return self._words_at(found[0])

    def _in_order(self, element: Element, content: str, parent: Element, edges: Window) -> Sequence[Window]:
        """Return the occurrence of a content that has the number of the element's own, if both sides have as many."""
        source, target = self._occurrences(content, "source"), self._occurrences(content, "target")
        for kinds in (("alone",), ("alone", "whole")):
            own = sorted(place for kind in kinds for place in _within(source[kind], parent.start, parent.end))
            places = sorted(place for kind in kinds for place in _within(target[kind], *edges))
            first = bisect_left(own, (element.start,))
            if len(own) == len(places) and own[first : first + 1] == [(element.start, element.start + len(content))]:
                return [places[first]]
        return []

    def _occurrences(self, content: str, text: str) -> dict[str, list[Window]]:
        """Return the characters of all occurrences of a content in a text; see `occurrences`.

        Args:
            text: "source", "target", or "lower", which is the target in any case.
        """
        if (content, text) not in self._places_of:
            sought = content.lower() if text == "lower" else content
            borders = self._source_borders if text == "source" else self._borders
            same = len(sought) == len(content)
            self._places_of[content, text] = occurrences(self._texts[text] if same else "", sought, borders)
        return self._places_of[content, text]

    def _overlapping(self, places: Sequence[Window], k: int) -> Sequence[Window]:
        """Return those of several places, all of the same length, that overlap a target word."""
        start, end = self._spans[k]
        first = bisect_right(places, start, key=lambda place: place[1])
        return places[first : bisect_left(places, end, lo=first, key=lambda place: place[0])]

    def _find_in_equal_word(self, element: Element, regions: Sequence[Window]) -> Window | None:
        """Return the characters of what touches or is inside a single word, if that stands in the target too."""
        if not (element.before or element.behind):
            return None
        words = self._markup.words
        n = bisect_right(words, element.start, key=lambda span: span[1])
        n -= bool(n and words[n - 1][1] == element.start and not element.behind)
        start, end = words[n]
        if element.end > end:
            return None
        row, text = self._scores.row(n), self._markup.plain[start:end]
        equal = [k for k in self._positions[text] if any(low <= k < high for low, high in regions)]
        linked = [k for k in equal if row.get(k)]
        if not linked and (len(equal) != 1 or len(text) < 2):
            return None
        places = []
        for k in sorted(linked or equal, key=lambda k: -row.get(k, 0.0)):
            at = self._spans[k][0] - start
            places.append((element.start + at, element.end + at))
        free = [place for place in places if not self._is_enclosed(*place)]
        return self._note_characters(element, free[0]) if free else None

    def _find_in_similar_word(self, element: Element, region: Window) -> Window | None:
        """Return the characters of what is inside a single word, between those that are around it in a linked word."""
        (start, first), (end, last) = self._markup.edges(element)
        if first != last or element.words[1] - element.words[0] > 1:
            return None
        before = first[leading(first) : start] if leading(first) < start else ""
        after = first[end : len(first) - trailing(first, True)]
        if not before + after or any(part.isalnum() and len(part) < SHORT for part in (before, after)):
            return None
        gains = self._scores.inside(element.words)
        for k in sorted((k for k in range(*region) if gains[k]), key=lambda k: -gains[k]):
            word = self._words[k]
            begin = word.find(before) + len(before) if before else leading(word)
            stop = word.rfind(after) if after else len(word) - trailing(word, True)
            split = combines(word[begin - 1 : begin], word[begin : begin + 1]) or combines(
                word[stop - 1 : stop], word[stop : stop + 1]
            )
            if (not before or before in word) and begin < stop and not split:
                at = self._spans[k][0]
                if not self._is_enclosed(at + begin, at + stop):
                    self._parts.add(element.tokens[0])
                    return self._note_characters(element, (at + begin, at + stop))
        return None

    def _note_characters(self, element: Element, place: Window) -> Window:
        """Keep and return the characters that an element encloses."""
        start, end = self.characters[element.tokens[0]] = place
        self._enclosed[start:end] = b"\1" * (end - start)
        self._edges[start] = 1
        return place

    def _is_enclosed(self, start: int, end: int) -> bool:
        """Check whether some of these characters are those of an element, where they are known, or break an entity."""
        if self._own.breaks(start) or self._own.breaks(end):
            return True
        return self._enclosed.find(1, start, end) >= 0 or self._edges.find(1, start + 1, end) >= 0

    def _words_at(self, place: Window) -> Window:
        """Return the words that characters of the target belong to."""
        first = bisect_right(self._spans, place[0], key=lambda span: span[1])
        return first, bisect_left(self._spans, place[1], key=lambda span: span[0])

    def _find_lone_mark(self, regions: Sequence[Window]) -> int | None:
        """Return the first word that is a lone closing mark, if the source has none: a placeholder is missing there."""
        if any(is_punctuation(self._markup.plain[slice(*span)]) for span in self._markup.words):
            return None
        marks = (k for low, high in regions for k in range(low, high) if all(map(closes, self._words[k])))
        return next(marks, None)

    def _fill_empty_pairs(self, parent: Element, regions: Sequence[Window]) -> None:
        """Place points that stood within quotes or brackets into empty ones of the target, across the fewest links."""
        quoted = [
            child
            for child in parent.children
            if child.tokens[0] not in self.windows and child.before[-1:] + child.behind[:1] in _PAIRS
        ]
        if len(quoted) * len(self._empty) > MOST_QUOTED:
            return
        costs = []
        for n, element in enumerate(quoted):
            crossed = self._scores.crossings(element.words[0])
            for m, offset in enumerate(self._empty):
                k = bisect_right(self._spans, offset, key=lambda span: span[0]) - 1
                if any(low <= k < high for low, high in regions):
                    is_other = (element.before[-1:] in _BRACKETS) != (self._target[offset - 1] in _BRACKETS)
                    costs.append((is_other, min(crossed[k], crossed[k + 1]), abs(n - m), n, m, k))
        used: set[int] = set()
        for *_, n, m, k in sorted(costs):
            key = quoted[n].tokens[0]
            if key not in self.characters and m not in used:
                used.add(m)
                self._note_characters(quoted[n], (self._empty[m], self._empty[m]))
                self.places[key] = k
                self._note(quoted[n], [(k, k)], 1.0)
        self._empty = [offset for m, offset in enumerate(self._empty) if m not in used]

    def _place_whole(self, element: Element, parent: Element, regions: Sequence[Window], places: Sequence[int]) -> None:
        """Place an element without words, or without a link, in one piece where the fewest links are crossed."""
        at = element.words[0]
        costs = self._scores.crossings(at)
        found = element.start == element.end and self._find_in_equal_word(element, regions)
        place, margin = self._cheapest(element, parent, regions, places, costs)
        if found:
            place = self._words_at(found)[0]
        self.places[element.tokens[0]] = place
        all_scores = costs[0] + costs[-1]
        confidence = 1.0 if found else min(margin, 1 - costs[place] / all_scores) if all_scores else 0.0
        if element.words[0] < element.words[1]:  # which it does not enclose
            confidence = 0.0
            remark = NO_ROOM if self._scores.linked(element.words) else UNLINKED
        else:
            remark = "" if at in parent.words or self._scores.linked((max(0, at - 1), at + 1)) else UNLINKED
            confidence = confidence if found or INSIDE not in element.remarks else min(confidence, PART)
        self._note(element, [(place, place)], confidence, *filter(None, [remark]))

    def _cheapest(
        self,
        element: Element,
        parent: Element,
        regions: Sequence[Window],
        places: Sequence[int],
        costs: Sequence[float],
    ) -> tuple[int, float]:
        """Return the place that the fewest links cross, and by how much the next best is worse, at most 1.

        An element at the edge of its parent stays at that edge.
        """
        at = element.words[0]
        words = self._source
        if is_placeholder(self._markup, element):
            if at and words[at - 1] in BRIDGES:
                row = self._scores.row(at - 1)
                after = [j for j in row if row[j] > BRIDGED and self._words[j].lower() in BRIDGES]
                if after:
                    return max(after, key=lambda j: row[j]) + 1, 1.0
            if (alone := self._find_lone_mark(regions)) is not None:
                return alone, 1.0
        elif at <= parent.words[0]:
            return regions[0][0], 1.0
        elif at >= parent.words[1]:
            return regions[-1][1], 1.0
        source = words[at - 1] if at else ""
        share = len(self._words) / max(1, len(words))
        left = self._scores.row(at - 1) if at and is_placeholder(self._markup, element) else {}

        marks = self._marks[mark_kind(source)]

        def cost(k: int) -> tuple[float, float]:
            bonus = self._punctuation if k - 1 in marks else 0.0
            return round(costs[k] - bonus - NEIGHBOUR * left.get(k - 1, 0.0), 9), abs(k - at * share)

        if element.block:
            places = [k for k in places if k in self._ends] or [regions[0][0]]
        limit = nsmallest(2, [costs[k] for k in places])[-1] + 1e-9  # no bonus is negative
        candidates = [k for k in places if costs[k] <= limit or k - 1 in marks or k - 1 in left]
        best, *others = nsmallest(2, ((*cost(k), n, k) for n, k in enumerate(candidates)))
        return best[-1], min(1.0, others[0][0] - best[0]) if others else 1.0


def occurrences(text: str, content: str, borders: Collection[int]) -> dict[str, list[Window]]:
    """Return the characters of all occurrences of a content in a text.

    Those "alone" have spaces or punctuation around them; "whole" ones may be joined to other words by marks, as in
    `Makefile.in`; in a "part" of a word another letter or digit is next to them.
    """
    places: dict[str, list[Window]] = {"alone": [], "whole": [], "part": []}
    at = text.find(content) if len(content) <= LONGEST_CONTENT else -1
    while at >= 0:
        end = at + len(content)
        before, after = text[max(0, at - 2) : at], text[end : end + 2]
        if combines(before[-1:], content[0]) or combines(content[-1], after[:1]):
            at = text.find(content, at + 1)
            continue
        joined = (_joined(before[-1:], content[0]) and at not in borders) or (
            _joined(content[-1], after[:1]) and end not in borders
        )
        marked = (before[-1:] in _JOINTS and before[:1].isalnum()) or (after[:1] in _JOINTS and after[1:].isalnum())
        places["part" if joined else "whole" if marked else "alone"].append((at, end))
        at = text.find(content, at + 1)
    return places


def _within(places: Sequence[Window], start: int, end: int) -> Sequence[Window]:
    """Return those of several places, all of the same length, that are between two offsets."""
    first = bisect_left(places, start, key=lambda place: place[0])
    return places[first : bisect_right(places, end, lo=first, key=lambda place: place[1])]


def _joined(left: str, right: str) -> bool:
    """Tell whether two characters belong to the same word: both are letters, their marks, or digits."""
    return is_letter_or_mark(left) and is_letter_or_mark(right)
