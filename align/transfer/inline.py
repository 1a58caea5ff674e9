"""Put inline elements of a segment into its translation, which may contain some of them already.

Those that the translation has stay where they are. The others are placed in its text, and both are put together so that
every element is in those that it is in in the source. Pairs of native codes may overlap, in XLIFF and TMX: those that
do are placed one layer after another.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
from scipy.optimize import linear_sum_assignment

from align.transfer.markup import (
    CROSSING,
    MOVED,
    ORDER,
    PART,
    REPEATED,
    Placement,
    doubt_arguments,
    out_of_order,
    place_markup,
)
from align.transfer.tags import (
    BLOCK,
    PLACEHOLDER,
    Kind,
    Syntax,
    Token,
    find_words,
    halves,
    has_positional,
    in_common,
    is_break,
    markup_of,
    readable,
    words_in,
)

MOST = 2000
"""Limit of tags in a segment's source and in its translation; the time to place them grows with its square."""

LAYERS = 8
"""Limit of layers; elements that overlap beyond it are placed by their halves."""

NEARLY = 0.5
"""Share of the linked score of a tag from which an equal one could as well be the one that the translation has."""

FIRST = 0xF0000
"""A character for private use, which stands for the first tag of a segment while its tags are placed."""

_LIGHT = " \t\r\n.,;:!?\u2026"
"""Spaces and punctuation that may change their side of a tag."""

_SPACE = re.compile(r"\s")
_X = re.compile(r"""^<[^>]*?\sx\s*=\s*["']([^"'>]*)""")
_I = re.compile(r"""^(<[^>]*?\si\s*=\s*["'])[^"'>]*""")
_PRIVATE = re.compile("[\U000f0000-\U000fffff]")


def _flatten(text: str) -> str:
    """Replace line ends and other spaces, each by one space."""
    return _SPACE.sub(" ", text)


def _text_of(tokens: Sequence[Token]) -> str:
    return "".join(token.text for token in tokens if token.kind == "text")


def _is_code(token: Token) -> bool:
    """Check for half of a pair of native codes, which is an element by itself in XML."""
    return token.name.startswith("#")


def _identity(token: Token) -> str:
    return token.key or token.text


def _x_of(tokens: Sequence[Token]) -> dict[str, str | None]:
    """Return the attribute `x` of the opening halves of native codes, by the names of their pairs."""
    opening = (token for token in tokens if _is_code(token) and token.kind == "open")
    return {token.name: x[1] if (x := _X.search(token.text)) else None for token in opening}


def _match_by_x(source: Sequence[Token], target: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    """Identify halves of native codes by `x`, which is the same in all languages of TMX; `i` only pairs two of them.

    Without `x` somewhere, or if the sides have none in common, `i` has to do.
    """
    ours, theirs = _x_of(source), _x_of(target)
    sides = [*source], [*target]
    if None in {*ours.values(), *theirs.values()} or (theirs and not {*ours.values()} & {*theirs.values()}):
        return sides
    lone = {name: x for name, x in ours.items() if x not in theirs.values()}  # closing halves that have lost the other
    for tokens, known in zip(sides, (ours, lone | theirs), strict=True):
        for n, token in enumerate(tokens):
            if _is_code(token) and token.name in known:
                tokens[n] = token._replace(key=f"{token.kind} x {known[token.name]}")
    return sides


def partners(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the closing token of each opening one; pairs of native codes may overlap others."""
    pairs = halves([token if not _is_code(token) else token._replace(kind="point") for token in tokens])
    opened: dict[str, list[int]] = defaultdict(list)
    for n, token in enumerate(tokens):
        if _is_code(token) and token.kind == "open":
            opened[token.name].append(n)
        elif _is_code(token) and opened[token.name]:
            pairs[opened[token.name].pop()] = n
    return pairs


def overlap(left: tuple[int, int], right: tuple[int, int]) -> bool:
    """Check whether each of two pairs has one half within the other pair."""
    first, second = sorted((left, right))
    return first[0] < second[0] < first[1] < second[1]


def _contents(tokens: Sequence[Token]) -> dict[int, str]:
    """Return the text and the placeholders in each element, by the number of its opening tag."""
    contents = [token.text if token.kind == "text" or token.name == PLACEHOLDER else "" for token in tokens]
    return {n: " ".join("".join(contents[n:m]).split()) for n, m in partners(tokens).items()}


def _spans(tokens: Sequence[Token], plain: str, words: Sequence[tuple[int, int]]) -> dict[str, dict[int, list[range]]]:
    """Return by identity, for each element its words, and for each point the word before it and the one after."""
    letters = [0, *accumulate(not character.isspace() for character in plain)]
    starts, ends = [letters[a] for a, _ in words], [letters[b] for _, b in words]
    at = [0, *accumulate(len("".join(token.text.split())) if token.kind == "text" else 0 for token in tokens)]
    pairs = partners(tokens)
    closing = set(pairs.values())
    spans: dict[str, dict[int, list[range]]] = defaultdict(dict)
    for n, token in enumerate(tokens):
        if token.kind == "text" or n in closing or _is_code(token):
            continue
        first = bisect_right(ends, at[n])
        parts = [range(first, bisect_left(starts, at[pairs[n]]))] if n in pairs else []
        spans[_identity(token)][n] = parts or [range(first - 1, first), range(first, first + 1)]
    return spans


def _linked(of_target: Mapping[int, Sequence[tuple[int, float]]], theirs: list[range], ours: list[range]) -> float:
    """Return the sum of the scores of links between words, per word of the longer side, part by part."""
    total = longest = 0.0
    for target, source in zip(theirs, ours, strict=False):
        total += sum(score for j in target for i, score in of_target.get(j, ()) if i in source)
        longest += max(len(source), len(target))
    return total / max(1.0, longest)


@dataclass(slots=True)
class _Item:
    """A token of the translation while it is put together.

    Attributes:
        number: number of the source token; a negative one if the source does not have it.
        rank: position among the tokens that are new; -1 of others.
    """

    kind: str
    text: str
    number: int
    rank: int = -1


class Inline:
    """A source text with inline elements, and its translation.

    Args:
        comments: whether comments and processing instructions of XML are placed.

    Attributes:
        missing: number of tags that the translation does not contain.
        extra: tags and placeholders that the translation has and the source does not.
        target_words: words of the translation without tags.
    """

    def __init__(self, source: str, target: str, tags: str | Syntax, *, comments: bool = False) -> None:
        self.syntax = syntax = Syntax.of(tags)
        xml = syntax.tags == "xml"
        if _PRIVATE.search(source + target):
            raise ValueError("characters for private use from U+F0000")
        if xml and "<![CDATA[" in target:
            raise ValueError("a CDATA section in the translation")
        tokens = syntax.parse(source)
        if xml and not comments:
            tokens = [token for token in tokens if not token.text.startswith(("<!--", "<?"))]
        self.tokens, self._there = _match_by_x(*in_common(tokens, syntax.parse(target)))
        if any(sum(token.kind != "text" for token in side) > MOST for side in (tokens, self._there)):
            raise ValueError(f"more than {MOST:,} tags")
        self._partners = partners(tokens)
        self._given: Sequence[str] | None = None
        self._use(self._match({}))
        unknown = (token for m, token in enumerate(self._there) if token.kind != "text" and m not in self._matches)
        self.extra = tuple(token.text for token in unknown)
        self.missing = len(self._new)
        self.plain, self.escaped = self._layers[0].plain, self._layers[0].escaped
        self.source_words = self._layers[0].readable()
        self._plain = _flatten(_text_of(self._there))
        self._words = words_in(self._plain)
        self.target_words = readable((self._plain[a:b] for a, b in self._words), self.escaped)

    def use_words(self, source: Sequence[str], target: Sequence[str]) -> None:
        """Count other words than those between spaces; see `align.transfer.tags.find_words`."""
        self._given = source
        self._use(self._matches)
        self._words = find_words(target, self._plain, self.escaped)

    def _use(self, matches: dict[int, int]) -> None:
        """Prepare the tokens of the source that the translation does not match."""
        syntax = replace(self.syntax, placeholders=False, pattern=None)  # a character stands for each
        self._matches = matches
        self._written = self._renumber()
        self._new = {n for n, token in enumerate(self.tokens) if token.kind != "text"} - set(matches.values())
        self._layers = [markup_of(layer, syntax) for layer in self._split()]
        if self._given is not None:
            words = find_words(self._given, self._layers[0].plain, self._layers[0].escaped)
            self._layers = [layer.with_words(words) for layer in self._layers]

    def _renumber(self) -> list[Token]:
        """Return the source's tokens, codes with the number `i` of their other half, or one that is free, in TMX."""
        tokens = list(self.tokens)
        names = {n: self._there[m].name for m, n in self._matches.items() if m >= 0}
        taken = {token.name for token in self._there if _is_code(token)}
        numbers = [int(name[1:]) for name in {*taken, *(token.name for token in tokens)} if name[1:].isdecimal()]
        for n, m in self._partners.items():
            if not _is_code(tokens[n]) or not _I.search(tokens[n].text):
                continue
            name = names.get(n, names.get(m, tokens[n].name))
            if n not in names and m not in names and name in taken:
                numbers.append(max(numbers, default=0) + 1)
                name = f"#{numbers[-1]}"
            for half in (n, m):
                text = tokens[half].text
                if (match := _I.search(text)) and name != tokens[half].name:
                    tokens[half] = tokens[half]._replace(text=f"{match[1]}{name[1:]}{text[match.end() :]}")
        return tokens

    def _match(self, chosen: Mapping[int, int]) -> dict[int, int]:
        """Return the number of the source token for each token of the translation that the source has too.

        Of equal tokens the first ones match.

        Args:
            chosen: other source tokens, by the numbers of the translation's.
        """
        numbers: dict[str, list[int]] = defaultdict(list)
        ends = set() if not self._partners else {m for n, m in self._partners.items() if not _is_code(self.tokens[n])}
        for n, token in reversed([*enumerate(self.tokens)]):
            if token.kind != "text" and n not in ends:
                numbers[_identity(token)].append(n)
        matches: dict[int, int] = {}
        pairs = partners(self._there)
        for m, token in enumerate(self._there):
            same = numbers.get(_identity(token)) if token.kind != "text" else None
            if same and chosen.get(m) in same:
                same.append(same.pop(same.index(chosen[m])))
            if same and _is_code(token):
                matches[m] = same.pop()
            elif same and (m in pairs) == (same[-1] in self._partners):
                matches[m] = same.pop()
                if m in pairs:
                    matches[pairs[m]] = self._partners[matches[m]]
            elif same and (token.kind == "point" or m in pairs):  # <g/> for <g></g>
                matches[m] = n = same.pop()
                if n in self._partners:
                    matches[-1 - m] = self._partners[n]
        return matches

    def _choose(self, links: Mapping[tuple[int, int], float]) -> set[str]:
        """Match equal tokens of which the translation lacks some by what is linked in them, or next to them.

        A text in them that is the same on both sides, such as a command, counts more than any links.

        Returns:
            Identities of tokens of which others could be the missing ones as well.
        """
        matched = {_identity(self.tokens[n]) for n in self._matches.values()}
        if not any(_identity(self.tokens[n]) in matched for n in self._new):
            return set()
        source, syntax = self._layers[0], replace(self.syntax, placeholders=False, pattern=None)
        written = [
            token._replace(text=markup_of([token], syntax).plain) if token.kind == "text" else token
            for token in self.tokens
        ]
        sides = [_spans(written, source.plain, source.words), _spans(self._there, self._plain, self._words)]
        contents = _contents(self.tokens), _contents(self._there)
        of_target: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for (i, j), score in links.items():
            of_target[j].append((i, score))
        chosen: dict[int, int] = {}
        unsure: set[str] = set()
        for identity, theirs in sides[1].items():
            ours = sides[0].get(identity, {})
            if not len(theirs) < len(ours) or len(theirs) * len(ours) > MOST:
                unsure |= {identity} if len(theirs) < len(ours) else set()
                continue
            near = np.array([[_linked(of_target, span, other) for other in ours.values()] for span in theirs.values()])
            for row, inside in zip(near, map(contents[1].get, theirs), strict=True):
                row += [2.0 * (bool(inside) and inside == contents[0].get(n)) for n in ours]
            first = np.arange(len(ours)) * 1e-9  # of equal ones
            rows, columns = linear_sum_assignment(first - near)
            left = np.delete(near, columns, axis=1)
            if (left.max(axis=1) >= NEARLY * near[rows, columns]).any():
                unsure.add(identity)
            numbers = [*theirs], [*ours]
            chosen |= {numbers[0][row]: numbers[1][column] for row, column in zip(rows, columns, strict=True)}
        words, before = self._layers[0].readable(), self._matches
        matches = self._match(chosen)
        if matches != before:
            self._use(matches)
            if self._layers[0].readable() != words:  # the links are of other words
                self._use(before)
                unsure |= sides[0].keys() & sides[1].keys()
        return unsure

    def _split(self) -> Iterator[list[Token]]:
        """Divide the missing tags into layers in which none overlap; a character stands for each."""
        pairs = {n: m for n, m in self._partners.items() if n in self._new and m in self._new}
        elements = [(n, m) for n, m in pairs.items() if not _is_code(self.tokens[n])]
        codes = sorted((n, m) for n, m in pairs.items() if _is_code(self.tokens[n]))
        numbers = self._new
        for count in range(1, LAYERS + 1):
            accepted, rest = elements, []
            for pair in codes:
                if any(overlap(pair, element) for element in accepted) and count < LAYERS:
                    rest.append(pair)
                else:
                    accepted = [*accepted, pair]
            later = {n for pair in rest for n in pair}
            yield self._stand_ins(numbers - later, dict(accepted))
            if not rest:
                return
            elements, codes, numbers = [], rest, later

    def _stand_ins(self, numbers: set[int], pairs: Mapping[int, int]) -> list[Token]:
        """Return the tokens of a layer: text, and a character for each tag."""
        starts = {m: n for n, m in pairs.items()}
        tokens = []
        for n, token in enumerate(self.tokens):
            if token.kind == "text":
                tokens.append(token._replace(text=_flatten(token.text)))
            elif n in numbers and _is_code(token):
                kind: Kind = "open" if n in pairs else "close" if n in starts else "point"
                tokens.append(Token(kind, chr(FIRST + n), f"#{starts.get(n, n)}"))
            elif n in numbers:
                name = "br" if is_break(token) and token.name not in BLOCK else token.name
                tokens.append(token._replace(text=chr(FIRST + n), name=name))
            elif is_break(token):
                tokens.append(Token("text", " "))
        return tokens

    def place(
        self, scores: Mapping[tuple[int, int], float] | Collection[tuple[int, int]]
    ) -> tuple[str, list[Placement]]:
        """Return the translation with all tags, and where those that were missing are."""
        links = scores if isinstance(scores, Mapping) else dict.fromkeys(scores, 1.0)
        unsure = self._choose(links)
        there = self._there
        items = [
            _Item("point" if _is_code(token) else token.kind, token.text, self._matches.get(m, -1 - m))
            for m, token in enumerate(there)
        ]
        pairs = partners(there)
        paired = {*pairs, *pairs.values()}
        for m, item in enumerate(items):
            if item.kind in ("open", "close") and m not in paired:
                item.kind = "point"
        orphans = {
            token.name
            for m, token in enumerate(there)
            if token.kind in ("open", "close") and m not in paired and not _is_code(token)
        }
        merging = _Merging(items, self._written, self._partners)
        rows: list[Placement] = []
        for markup in self._layers:
            placed = place_markup(markup, self._plain, scores, words=self._words)
            merging.add(placed.text, self._plain)
            rows += placed.report
        crossed, report = merging.crossed({-1 - m: -1 - end for m, end in pairs.items()}), list[Placement]()
        touching = merging.touching()
        positional = [
            item
            for item in merging.items
            if item.number >= 0 and item.kind != "text" and has_positional(self.tokens[item.number].text)
        ]
        swapped = {positional[n].number for n in out_of_order([item.number for item in positional])}
        for row in rows:
            numbers = _numbers(row.tag)
            numbers |= {merging.first_half(n) for n in numbers}
            if moved := [merging.moved[n] for n in numbers if n in merging.moved]:
                row = row.doubt(MOVED, min(moved))
            if numbers & crossed or any(self.tokens[n].name in orphans for n in numbers):
                row = row.doubt(CROSSING, 0.0)
            if numbers & swapped:
                row = row.doubt(ORDER, 0.0)
            if numbers & touching:
                row = row.doubt(REPEATED, 0.0)
            if any(_identity(self.tokens[n]) in unsure for n in numbers):
                row = row.doubt(REPEATED, PART)
            tag = _PRIVATE.sub(lambda match: self._written[ord(match[0]) - FIRST].text, row.tag)
            report.append(row._replace(tag=tag))
        text = "".join(item.text for item in merging.items)
        return text, doubt_arguments(report, self.extra, text, self.tokens, self.syntax)


def _numbers(text: str) -> set[int]:
    """Return the numbers of the tags that characters stand for."""
    return {ord(match[0]) - FIRST for match in _PRIVATE.finditer(text)}


class _Merging:
    """Inserts new tags into a translation with others.

    Attributes:
        moved: highest confidence of the tags, by number, that came to other letters than their links, so as not to
            cross others or to leave their parents.
    """

    def __init__(self, items: list[_Item], tokens: Sequence[Token], partners: Mapping[int, int]) -> None:
        self.items, self._tokens, self._partners = items, tokens, partners
        self._starts = {m: n for n, m in partners.items()}
        self._elements = {n: m for n, m in partners.items() if not _is_code(tokens[n])}
        self._around = self._find_ancestors()
        self.moved: dict[int, float] = {}

    def _find_ancestors(self) -> list[tuple[int, ...]]:
        """Return for each source token the elements that it is in, the innermost last."""
        stack: list[int] = []
        ends = set(self._elements.values())
        around = []
        for n in range(len(self._tokens)):
            if n in ends:
                stack.pop()
            around.append(tuple(stack))
            if n in self._elements:
                stack.append(n)
        for n, m in self._partners.items():
            if n not in self._elements:  # a pair of codes may begin in one element and end in another
                around[n] = around[m] = tuple(e for e in around[n] if e in around[m])
        return around

    def add(self, placed: str, plain: str) -> None:
        """Insert the tags of a text, which differs from the translation's by them and by spaces next to them.

        Args:
            placed: the text, with a character for each tag.
        """
        offsets, texts, order = {}, {}, list[int]()
        at, spaces = 0, ""
        for character in placed:
            if _PRIVATE.match(character):
                n = ord(character) - FIRST
                offsets[n], texts[n] = at, spaces + self._tokens[n].text
                order.append(n)
                spaces = ""
            elif at < len(plain) and character == plain[at]:
                at += 1
                if spaces:
                    texts[order[-1]] += spaces
                    spaces = ""
            else:
                spaces += character
        self._divide(set(offsets.values()))
        letters, points = [0, *accumulate(map(str.isalnum, plain))], dict[int, int]()
        base = 1 + max((item.rank for item in self.items), default=-1)
        ranks = {n: base + k for k, n in enumerate(order)}
        for n in sorted(order):
            if self._starts.get(n) in self._elements:
                continue
            start = self._find(n, offsets[n], ranks[n], last=True)
            if n not in self._elements:
                points[n] = self._offset(start)
                low, high = sorted((points[n], offsets[n]))
                if plain[low:high].strip(_LIGHT):
                    self.moved[self.first_half(n)] = PART
                self.items.insert(start, _Item("point", texts[n], n, ranks[n]))
                continue
            last = self._elements[n]
            bounds = [letters[offsets[n]], letters[offsets[last]]]
            opening, closing = _Item("open", texts[n], n, ranks[n]), _Item("close", texts[last], last, ranks[last])
            start, end = self._enclose(start, n, opening, offsets[last], closing)
            at_start, at_end = self._offset(start), self._offset(end + 1)
            reached = [letters[at_start], letters[at_end]]
            linked, covered = plain[offsets[n] : offsets[last]], plain[at_start:at_end]
            if linked.strip() and not covered.strip():
                self.moved[n] = 0.0
            elif reached != bounds or linked.strip(_LIGHT) != covered.strip(_LIGHT):
                self.moved[n] = PART
        for n in {self.first_half(n) for n in points} & self._partners.keys():
            if self._is_emptied(n, self._partners[n]):
                self.moved[n] = 0.0

    def _is_emptied(self, n: int, m: int) -> bool:
        """Check whether a pair of codes encloses text in the source, and none in the translation."""
        places = {item.number: k for k, item in enumerate(self.items) if item.kind != "text"}
        if n not in places or m not in places or not _text_of(self._tokens[n:m]).strip():
            return False
        return not "".join(item.text for item in self.items[places[n] : places[m]] if item.kind == "text").strip()

    def first_half(self, n: int) -> int:
        """Return the number of the opening tag of an element or a pair of codes; a point's own number."""
        return self._starts.get(n, n)

    def touching(self) -> set[int]:
        """Return the numbers of tags that touch an equal one, one of them new, with text between them in the source."""
        touching: set[int] = set()
        before: _Item | None = None
        for item in self.items:
            if item.kind == "text":
                before = None if item.text.strip() else before
                continue
            if before and min(before.number, item.number) >= 0 and max(before.rank, item.rank) >= 0:
                first, last = sorted((before.number, item.number))
                ours = self._tokens[first], self._tokens[last]
                is_equal = before.kind == item.kind and _identity(ours[0]) == _identity(ours[1])
                between = self._tokens[first + 1 : last]
                has_content = any(t.text.strip() if t.kind == "text" else t.kind == "point" for t in between)
                if is_equal and has_content:
                    touching |= {self.first_half(first), self.first_half(last)}
            before = item
        return touching

    def crossed(self, own: Mapping[int, int]) -> set[int]:
        """Return the numbers of pairs that cross another one, where they do not in the source, and one of them is new.

        Args:
            own: pairs of the translation, by the numbers that they have if the source does not have them.
        """
        places = {item.number: k for k, item in enumerate(self.items) if item.kind != "text"}
        pairs = [
            ((places[n], places[m]), n)
            for n, m in (*self._partners.items(), *own.items())
            if n in places and m in places and places[n] < places[m]
        ]
        is_new = {n: any(self.items[k].rank >= 0 for k in pair) for pair, n in pairs}
        crossed: set[int] = set()
        opened: list[tuple[tuple[int, int], int]] = []
        for pair, n in sorted(pairs):
            opened = [(earlier, m) for earlier, m in opened if earlier[1] > pair[0]]
            for earlier, m in opened:
                if (is_new[n] or is_new[m]) and overlap(earlier, pair):
                    in_source = min(m, n) >= 0 and overlap((m, self._partners[m]), (n, self._partners[n]))
                    crossed |= set() if in_source else {n, m}
            opened.append((pair, n))
        return crossed

    def _offset(self, k: int) -> int:
        """Return the offset of the text at which an item stands."""
        return sum(len(item.text) for item in self.items[:k] if item.kind == "text")

    def _divide(self, offsets: set[int]) -> None:
        """Divide the text where tags come."""
        items, at = [], 0
        for item in self.items:
            if item.kind != "text":
                items.append(item)
                continue
            end = at + len(item.text)
            bounds = [at, *sorted(offset for offset in offsets if at < offset < end), end]
            items += [_Item("text", item.text[a - at : b - at], item.number) for a, b in pairwise(bounds)]
            at = end
        self.items[:] = items

    def _region(self, n: int) -> tuple[int, int]:
        """Return the part of the translation that is in the innermost element that a source token is in."""
        numbers = {item.number: k for k, item in enumerate(self.items)}
        low, high = 0, len(self.items)
        for element in reversed(self._around[n]):
            if element in numbers and self._elements[element] in numbers:
                low, high = numbers[element] + 1, numbers[self._elements[element]]
                break
        if n not in self._elements:  # not before the other half of a pair of codes, or after it
            if (start := numbers.get(self._starts.get(n, n))) is not None:
                low = min(max(low, start + 1), high)
            if (end := numbers.get(self._partners.get(n, n))) is not None:
                high = max(min(high, end), low)
        return low, high

    def _find(self, n: int, offset: int, rank: int, *, last: bool) -> int:
        """Return where a tag goes at an offset of the text: in its innermost element, in the order of new tags."""
        at = low = 0
        while low < len(self.items) and at < offset:
            at += len(self.items[low].text) if self.items[low].kind == "text" else 0
            low += 1
        high = low
        while high < len(self.items) and self.items[high].kind != "text":
            high += 1
        for k in range(low, high):
            if 0 <= self.items[k].rank < rank:
                low = k + 1
            elif self.items[k].rank > rank:
                high = k
                break
        first, end = self._region(n)
        low, high = (min(max(first, k), end) for k in (low, high))
        depth, level = 0, []
        for k in range(first, high + 1):
            if k >= low and not depth:
                level.append(k)
            if k < high:
                depth += {"open": 1, "close": -1}.get(self.items[k].kind, 0)
        if not level:
            return high if last else low
        return level[-1] if last else level[0]

    def _enclose(self, start: int, n: int, opening: _Item, offset: int, closing: _Item) -> tuple[int, int]:
        """Insert an element that encloses the text to an offset, and those of the translation that are in it.

        Returns:
            The items that it has been put around, by their numbers before.
        """
        first, limit = self._region(n)
        end = max(start, self._find(n, offset, closing.rank, last=False))
        for k in range(first, limit):
            number = self.items[k].number
            if number >= 0 and n in self._around[number]:
                start, end = min(start, k), max(end, k + 1)
        matches, stack = {}, []
        for k in range(first, limit):
            if self.items[k].kind == "open":
                stack.append(k)
            elif self.items[k].kind == "close":
                matches[k] = stack.pop()
                matches[matches[k]] = k
        k = start
        bounds = (-1, -1)
        while bounds != (start, end):  # no other element may overlap
            bounds = start, end
            for k in range(start, end):
                if k in matches:
                    start, end = min(start, matches[k]), max(end, matches[k] + 1)
        self.items.insert(end, closing)
        self.items.insert(start, opening)
        return start, end
