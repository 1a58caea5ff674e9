"""Put the tags of a source text into its translation, which may contain some of them already.

Those that the translation has stay where they are. The others are placed in its text without tags, and both are put
together so that elements keep the nesting that they have in the source. Pairs of native codes may overlap, in XLIFF and
TMX: those that do are placed one layer after another.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from align.transfer.markup import (
    ANOTHER,
    CROSSING,
    MALFORMED,
    MIXED,
    MOVED,
    ORDER,
    OTHERS,
    PART,
    REPEATED,
    Insertion,
    Placement,
    Transferred,
    place_markup,
)
from align.transfer.tags import (
    BREAK,
    ICU,
    PLACEHOLDER,
    Kind,
    Syntax,
    Token,
    check_size,
    find_words,
    halves,
    has_positional,
    in_common,
    is_break,
    markup_of,
    mixes_arguments,
    readable,
    words_in,
)
from align.transfer.windows import Scores, Window

MAX_TAGS = 2000
"""Limit of tags in a segment's source and in its translation; the time to place them grows with its square."""

MAX_LAYERS = 8  # limit of layers; elements that overlap beyond it are placed by their halves

TIE_RATIO = 0.5
"""Share of the linked score of a tag from which an equal one could as well be the one that the translation has."""

_LIGHT = " \t\r\n.,;:!?\u2026"  # spaces and punctuation that may change their side of a tag

_SPACE = re.compile(r"\s")
_X = re.compile(r"""^<[^>]*?\sx\s*=\s*["']([^"'>]*)""")
_I = re.compile(r"""^(<[^>]*?\si\s*=\s*["'])[^"'>]*""")
_UNIDENTIFIED = re.compile(r"""<([A-Za-z][\w:.-]*)(?![^<>]*\s(?:id|mid|i|x|rid|startRef)\s*=)""")


def _text_of(tokens: Sequence[Token]) -> str:
    return "".join(token.text for token in tokens if token.kind == "text")


def _is_code(token: Token) -> bool:
    """Check for half of a pair of native codes, which is an element by itself in XML."""
    return token.name.startswith("#")


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
        spans[token.identity][n] = parts or [range(first - 1, first), range(first, first + 1)]
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
    """A token of the translation while it is put together."""

    kind: str
    text: str
    number: int  # number of the source token; a negative one if the source does not have it
    rank: int = -1  # position among the tokens that are new


class Inline:
    """A source text with tags, and its translation, which may have some of them.

    Args:
        lenient: whether comments and processing instructions of XML are placed too, and a translation that is not
            well-formed is text.
        as_written: whether the words are those between spaces and TABs: of the source without its tags, and of the
            translation with its own.

    Attributes:
        missing: number of tags that the translation does not contain.
        extra: tags and placeholders that the translation has and the source does not.
        plain: the source without tags.
        source_words, target_words: words of both sides, as a model reads them.

    Raises:
        ValueError: a side cannot be parsed, or has too many tags.
    """

    def __init__(
        self,
        source: str | Sequence[Token],
        target: str | Sequence[Token],
        tags: str | Syntax,
        *,
        lenient: bool = False,
        as_written: bool = False,
    ) -> None:
        self.syntax = syntax = Syntax.of(tags)
        tokens = syntax.parse(source) if isinstance(source, str) else [*source]
        if syntax.tags == "xml" and not lenient:
            tokens = [token for token in tokens if not token.text.startswith(("<!--", "<?"))]
        self._well_formed = True
        try:
            there = syntax.parse(target) if isinstance(target, str) else [*target]
        except ValueError:
            if not lenient:
                raise
            there, self._well_formed = [Token("text", str(target))], False
        self.tokens, self._there = _match_by_x(*in_common(tokens, there))
        self._as_written = as_written
        self._plain = self._flatten(_text_of(there))
        check_size(tokens, self._plain)
        counts = [sum(token.kind != "text" for token in side) for side in (tokens, there)]
        if counts[1] and max(counts) > MAX_TAGS:
            raise ValueError(f"more than {MAX_TAGS:,} tags")
        self._partners = partners(self.tokens)
        self._given: Sequence[str] | None = None
        self._use(self._match({}))
        unknown = (token for m, token in enumerate(self._there) if token.kind != "text" and m not in self._matches)
        self.extra = tuple(token.text for token in unknown)
        self.missing = len(self._new)
        self.plain = self._layers[0].plain
        self.source_words = self._layers[0].readable()
        target = "".join(token.text for token in there) if as_written else self._plain
        self.target_words = readable((target[a:b] for a, b in words_in(target)), syntax.escaped)
        self._words = self._words_at(words_in(target))

    def _flatten(self, text: str) -> str:
        """Replace line ends and other spaces, each by one space, for a model."""
        return text if self._as_written else _SPACE.sub(" ", text)

    def _words_at(self, words: Sequence[Window]) -> Sequence[Window]:
        """Return the characters of the plain translation that words of the translation as it is written have."""
        if not self._as_written or len(self._there) == 1:
            return words
        offsets, at = [0], 0
        for token in self._there:
            offsets += [at + (n if token.kind == "text" else 0) for n in range(1, len(token.text) + 1)]
            at = offsets[-1]
        return [(offsets[start], offsets[end]) for start, end in words]

    def use_words(self, source: Sequence[str], target: Sequence[str]) -> None:
        """Count other words than those between spaces; see `align.transfer.tags.find_words`."""
        self._given = source
        self._use(self._matches)
        text = "".join(token.text for token in self._there) if self._as_written else self._plain
        self._words = self._words_at(find_words(target, text, self.syntax.escaped))

    def _use(self, matches: dict[int, int]) -> None:
        """Prepare the tokens of the source that the translation does not match."""
        self._matches = matches
        self._written = self._renumber()
        self._new = {n for n, token in enumerate(self.tokens) if token.kind != "text"} - set(matches.values())
        self._layers = [markup_of(layer, self.syntax, spaces=not self._as_written) for layer in self._split()]
        if self._given is not None:
            words = find_words(self._given, self._layers[0].plain, self.syntax.escaped)
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

        Of equal tokens the first ones match, or those `chosen`, by the translation's numbers.
        """
        numbers: dict[str, list[int]] = defaultdict(list)
        ends = set() if not self._partners else {m for n, m in self._partners.items() if not _is_code(self.tokens[n])}
        for n, token in reversed([*enumerate(self.tokens)]):
            if token.kind != "text" and n not in ends:
                numbers[token.identity].append(n)
        matches: dict[int, int] = {}
        pairs = partners(self._there)
        for m, token in enumerate(self._there):
            same = numbers.get(token.identity) if token.kind != "text" else None
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

        A text in them that is the same on both sides, such as a command, counts more than any links. Return the
        identities of tokens of which others could be the missing ones as well.
        """
        matched = {self.tokens[n].identity for n in self._matches.values()}
        if not any(self.tokens[n].identity in matched for n in self._new):
            return set()
        source = self._layers[0]
        written = [
            token._replace(text=markup_of([token], self.syntax, spaces=not self._as_written).plain)
            if token.kind == "text"
            else token
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
            if not len(theirs) < len(ours) or len(theirs) * len(ours) > MAX_TAGS:
                unsure |= {identity} if len(theirs) < len(ours) else set()
                continue
            near = np.array([[_linked(of_target, span, other) for other in ours.values()] for span in theirs.values()])
            for row, inside in zip(near, map(contents[1].get, theirs), strict=True):
                row += [2.0 * (bool(inside) and inside == contents[0].get(n)) for n in ours]
            first = np.arange(len(ours)) * 1e-9  # of equal ones
            rows, columns = linear_sum_assignment(first - near)
            left = np.delete(near, columns, axis=1)
            if (left.max(axis=1) >= TIE_RATIO * near[rows, columns]).any():
                unsure.add(identity)
            numbers = [*theirs], [*ours]
            chosen |= {numbers[0][row]: numbers[1][column] for row, column in zip(rows, columns, strict=True)}
        self._use(self._match(chosen))
        return unsure

    def _split(self) -> Iterator[list[Token]]:
        """Divide the missing tags into layers in which none overlap."""
        new = [(n, m) for n, m in self._partners.items() if n in self._new and m in self._new]
        elements = [pair for pair in new if not _is_code(self.tokens[pair[0]])]
        codes = sorted(pair for pair in new if _is_code(self.tokens[pair[0]]))
        numbers = self._new
        for count in range(1, MAX_LAYERS + 1):
            accepted, rest = elements, []
            for pair in codes:
                if any(overlap(pair, element) for element in accepted) and count < MAX_LAYERS:
                    rest.append(pair)
                else:
                    accepted = [*accepted, pair]
            later = {n for pair in rest for n in pair}
            pairs = dict(accepted)
            starts = {m: n for n, m in accepted}
            layer = []  # all tokens of the source; those that are not of this layer are empty texts
            for n, token in enumerate(self._written):
                if token.kind == "text":
                    token = token._replace(text=self._flatten(token.text))
                elif n not in numbers - later:
                    token = Token("text", "", BREAK if is_break(token) else "")
                elif _is_code(token):
                    kind: Kind = "open" if n in pairs else "close" if n in starts else "point"
                    token = token._replace(kind=kind, name=f"#{starts.get(n, n)}")
                layer.append(token)
            yield layer
            if not rest:
                return
            elements, codes, numbers = [], rest, later

    def place(
        self, scores: Mapping[tuple[int, int], float] | Collection[tuple[int, int]], *, split: bool = False
    ) -> Transferred:
        """Return the translation with all tags, and where those that were missing are.

        Args:
            scores: scores of links (source word, target word), or a set of links.
            split: whether a tag may come more than once, around all target words that are linked with its own.
        """
        links = scores if isinstance(scores, Mapping) else dict.fromkeys(scores, 1.0)
        unsure = self._choose(links)
        for apart in (False, True):
            merging, rows = self._merge(links, split, apart)
            text = "".join(item.text for item in merging.items)
            if not self.syntax.has_placeholders or self._is_intact(text):
                break
        else:  # a placeholder came elsewhere than placed, next to a tag
            for item in merging.items:
                if item.rank >= 0 and self._written[item.number].name in (PLACEHOLDER, ICU):
                    item.text = f" {item.text.strip(' ')} "
            text = "".join(item.text for item in merging.items)
        pairs = partners(self._there)
        paired = {*pairs, *pairs.values()}
        orphans = {
            token.name
            for m, token in enumerate(self._there)
            if token.kind in ("open", "close") and m not in paired and not _is_code(token)
        }
        crossed = merging.crossed({-1 - m: -1 - end for m, end in pairs.items()})
        touching = merging.touching()
        positional = [
            item.number
            for item in merging.items
            if item.number >= 0 and item.kind != "text" and has_positional(self.tokens[item.number].text)
        ]
        swapped = {positional[n] for n in out_of_order(positional)}
        report = []
        for numbers, row in rows:
            numbers |= {merging.first_half(n) for n in numbers}
            if not self._well_formed:
                row = row.doubt(MALFORMED)
            if moved := [merging.moved[n] for n in numbers if n in merging.moved]:
                row = row.doubt(MOVED, min(moved))
            if numbers & crossed or any(self.tokens[n].name in orphans for n in numbers):
                row = row.doubt(CROSSING, 0.0)
            if numbers & swapped:
                row = row.doubt(ORDER, 0.0)
            if numbers & touching:
                row = row.doubt(REPEATED, 0.0)
            if any(self.tokens[n].identity in unsure for n in numbers):
                row = row.doubt(REPEATED, PART)
            report.append(row)
        return Transferred(text, tuple(self._doubt_arguments(report, text)))

    def _merge(
        self, links: Mapping[tuple[int, int], float], split: bool, apart: bool
    ) -> tuple[_Merging, list[tuple[set[int], Placement]]]:
        """Put all tags together; return the positions of the new ones with the numbers of their tokens."""
        pairs = partners(self._there)
        paired = {*pairs, *pairs.values()}
        items = []
        for m, token in enumerate(self._there):
            is_point = _is_code(token) or (token.kind in ("open", "close") and m not in paired)
            items.append(_Item("point" if is_point else token.kind, token.text, self._matches.get(m, -1 - m)))
        merging = _Merging(items, self._written, self._partners)
        table = Scores(links, len(self._layers[0].words), len(self._words))
        rows = []
        for layer in self._layers:
            insertions, placed = place_markup(layer, self._plain, self._words, table, split=split, apart=apart)
            merging.add(insertions, self._plain)
            rows += placed
        names = {n: token.name for n, token in enumerate(self._written)}
        names |= {-1 - m: token.name for m, token in enumerate(self._there)}
        for one, other in pairwise([item for item in merging.items if item.text]):
            adjacent = min(one.number, other.number) >= 0 and other.number == one.number + 1
            is_one_new = min(one.rank, other.rank) == -1 < max(one.rank, other.rank)
            if is_one_new and not adjacent and {names[one.number], names[other.number]} <= {PLACEHOLDER, ICU}:
                other.text = f" {other.text}"
        return merging, rows

    def _is_intact(self, text: str) -> bool:
        """Check that a text has the placeholders of the source and of the translation: none became part of another."""
        try:
            after = self.syntax.parse(text)
        except ValueError:  # as the translation is not well-formed
            return True
        tokens = *self._there, *(self._written[n] for n in self._new)
        before, now = (
            Counter(token.text for token in side if token.name in (PLACEHOLDER, ICU)) for side in (tokens, after)
        )
        return before == now

    def _doubt_arguments(self, report: Sequence[Placement], text: str) -> Iterator[Placement]:
        """Doubt what is placed in a target with others that the source lacks, or that are written in another way."""
        remarks = [OTHERS] * any(tag[:1] != "<" for tag in self.extra)
        if report and "$" in text and not mixes_arguments(self.tokens) and mixes_arguments(self._parse_result(text)):
            remarks.append(MIXED)
        names = {name[1].lower() for tag in self.extra if (name := _UNIDENTIFIED.match(tag))}
        for row in report:
            if any(name.lower() in names for name in _UNIDENTIFIED.findall(row.tag)):
                row = row.doubt(ANOTHER, 0.0)
            for remark in remarks if row.tag[:1] != "<" or "%" in row.tag else ():
                row = row.doubt(remark, 0.0)
            yield row

    def _parse_result(self, text: str) -> list[Token]:
        try:
            return self.syntax.parse(text)
        except ValueError:  # as the translation is not well-formed
            return [Token("text", text)]


def out_of_order(values: Sequence[Any]) -> list[int]:
    """Return the positions of all values of which a larger one is before, or a smaller one behind."""
    highest = [*accumulate(values, max)]
    lowest = [*accumulate(reversed(values), min)][::-1]
    return [n for n, value in enumerate(values) if value < highest[n] or value > lowest[n]]


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
    stood between spaces. Words are those of the source without tags, and those of the target.

    Args:
        source: the sentence with its tags.
        target: its translation, without tags or with some of them; if tags are XML or HTML, `&` and `<` are written as
            entities.
        scores: scores of links (source word, target word), or a set of links.
        tags: "xml", "html" or "placeholders".
        split: whether a tag may appear more than once, around all target words that are linked with its own.

    Raises:
        ValueError: the kind of tags is unknown, the source is invalid, or a link is to a word that does not exist.
    """
    return Inline(source, target, tags, lenient=True, as_written=True).place(scores, split=split)


class _Merging:
    """Inserts new tags into a translation with others."""

    def __init__(self, items: list[_Item], tokens: Sequence[Token], partners: Mapping[int, int]) -> None:
        self.items, self._tokens, self._partners = items, tokens, partners
        self._starts = {m: n for n, m in partners.items()}
        self._elements = {n: m for n, m in partners.items() if not _is_code(tokens[n])}
        # highest confidence of tags, by number, that came to other letters than their links say, so as not to
        # cross others or to leave their parents
        self.moved: dict[int, float] = {}
        # for each source token the elements that it is in, the innermost last
        stack: list[int] = []
        ends = set(self._elements.values())
        self._around = around = list[tuple[int, ...]]()
        for n in range(len(self._tokens)):
            if n in ends:
                stack.pop()
            around.append(tuple(stack))
            if n in self._elements:
                stack.append(n)
        for n, m in self._partners.items():
            if n not in self._elements:  # a pair of codes may begin in one element and end in another
                around[n] = around[m] = tuple(e for e in around[n] if e in around[m])

    def add(self, insertions: Sequence[Insertion], plain: str) -> None:
        """Insert the tags of a layer into the translation, whose text is given without line ends."""
        self._base = base = 1 + max((item.rank for item in self.items), default=-1)
        if all(item.kind == "text" for item in self.items):
            self._add_to_text(insertions)
            return
        self._divide({insertion.at for insertion in insertions})
        letters, points = [0, *accumulate(map(str.isalnum, plain))], dict[int, int]()
        opened: list[int] = []
        ends: dict[int, int] = {}
        for k, insertion in enumerate(insertions):
            if insertion.number in self._elements:
                opened.append(k)
            elif self._starts.get(insertion.number) in self._elements:
                ends[opened.pop()] = k
        for k, (at, n, text) in sorted(enumerate(insertions), key=lambda row: row[1].number):
            if self._starts.get(n) in self._elements:
                continue
            if n not in self._elements:
                region = self._stretch(n, base + k, (at, at), ())
                slots, levels = self._slots(at, base + k, region), self._levels(region)
                start = max((k for k in slots if not levels[k]), default=slots[-1])  # outside of elements
                points[n] = self._offset(start)
                low, high = sorted((points[n], at))
                if plain[low:high].strip(_LIGHT):
                    self.moved[self.first_half(n)] = PART
                self.items.insert(start, _Item("point", text, n, base + k))
                continue
            end_at, last, end_text = insertions[ends[k]]
            opening, closing = _Item("open", text, n, base + k), _Item("close", end_text, last, base + ends[k])
            start, end = self._place_element(n, (at, end_at), (opening.rank, closing.rank), letters)
            if start < end and not plain[at:end_at].strip():  # around tags, not between words
                opening.text, closing.text = opening.text.strip(" "), closing.text.strip(" ")
            self.items.insert(end, closing)
            self.items.insert(start, opening)
            at_start, at_end = self._offset(start), self._offset(end + 1)
            linked, covered = plain[at:end_at], plain[at_start:at_end]
            if linked.strip() and not covered.strip():
                self.moved[n] = 0.0
            elif [letters[at_start], letters[at_end]] != [letters[at], letters[end_at]] or (
                linked.strip(_LIGHT) != covered.strip(_LIGHT)
            ):
                self.moved[n] = PART
        places = {item.number: k for k, item in enumerate(self.items) if item.kind != "text"}
        for n in {self.first_half(n) for n in points} & self._partners.keys():
            m = self._partners[n]
            if n in places and m in places and _text_of(self._tokens[n:m]).strip():
                content = self.items[places[n] : places[m]]
                if not "".join(item.text for item in content if item.kind == "text").strip():
                    self.moved[n] = 0.0  # a pair of codes that encloses text in the source only

    def _add_to_text(self, insertions: Sequence[Insertion]) -> None:
        """Insert the tags of a layer into a translation without tags."""
        text, at = "".join(item.text for item in self.items), 0
        self.items = []
        for rank, (offset, n, tag) in enumerate(insertions):
            kind = "open" if n in self._elements else "close" if self._starts.get(n) in self._elements else "point"
            self.items += [_Item("text", text[at:offset], -1)] if offset > at else []
            self.items.append(_Item(kind, tag, n, rank))
            at = offset
        self.items += [_Item("text", text[at:], -1)] if text[at:] else []

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
                is_equal = before.kind == item.kind and ours[0].identity == ours[1].identity
                between = self._tokens[first + 1 : last]
                has_content = any(t.text.strip() if t.kind == "text" else t.kind == "point" for t in between)
                if is_equal and has_content:
                    touching |= {self.first_half(first), self.first_half(last)}
            before = item
        return touching

    def crossed(self, own: Mapping[int, int]) -> set[int]:
        """Return the numbers of pairs that cross another one or are in it, where they are not in the source.

        `own` are the pairs of the translation, by the numbers that they have if the source does not have them.
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
        stack: list[_Item] = []  # elements that are in others than in the source
        for item in self.items:
            if item.kind == "close" and stack:
                stack.pop()
            for outer in stack if item.kind == "open" and item.number >= 0 else ():
                if outer.number >= 0 and outer.number not in self._around[item.number]:
                    crossed |= {outer.number, item.number}
            if item.kind == "open":
                stack.append(item)
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
            edges = end - len(item.text.lstrip()), at + len(item.text.rstrip())
            bounds = [at, *sorted({offset for offset in (*offsets, *edges) if at < offset < end}), end]
            items += [_Item("text", item.text[a - at : b - at], item.number) for a, b in pairwise(bounds)]
            at = end
        self.items[:] = items

    def _region(self, n: int, rank: int) -> tuple[int, int]:
        """Return the part of the translation that is in the innermost element that a source token is in."""
        low, high = 0, len(self.items)
        starts = {item.number: k for k, item in enumerate(self.items) if item.rank < rank}
        numbers = {item.number: k for k, item in enumerate(self.items)}
        for element in reversed(self._around[n]):
            ends = [
                k for k in range(starts.get(element, high), high) if self.items[k].number == self._elements[element]
            ]
            if ends:
                low, high = starts[element] + 1, ends[0]
                break
        if n not in self._elements:  # not before the other half of a pair of codes, or after it
            if (start := numbers.get(self._starts.get(n, n))) is not None:
                low = min(max(low, start + 1), high)
            if (end := numbers.get(self._partners.get(n, n))) is not None:
                high = max(min(high, end), low)
        return low, high

    def _slots(self, offset: int, rank: int, region: Window) -> range:
        """Return where a new tag may go at an offset of the text: in a region, and in the order of new tags."""
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
        low, high = (min(max(region[0], k), region[1]) for k in (low, high))
        while low < region[1] and 0 <= self.items[low].rank < rank:
            low += 1
        return range(low, max(low, high) + 1)

    def _stretch(self, n: int, rank: int, bounds: Window, own: Sequence[int]) -> Window:
        """Return the part of an element's content that is between the elements next to a tag in the source.

        It has as many of the characters in `bounds` as possible, and the items of `own`.
        """
        low, high = self._region(n, rank)
        stretches, depth, begin = [], 0, low
        for k in range(low, high):
            item = self.items[k]
            if item.number < 0 or item.kind == "text" or n in self._around[item.number]:
                continue
            if item.number == n or _is_code(self._tokens[item.number]):
                continue
            if item.kind != "close" and not depth:
                stretches.append((begin, k))
            depth += {"open": 1, "close": -1}.get(item.kind, 0)
            begin = k + 1
        stretches.append((begin, high))
        offsets = {k: self._offset(k) for stretch in stretches for k in stretch}

        def cost(stretch: Window) -> tuple[int, int, int, int]:
            start, end = (offsets[k] for k in stretch)
            outside = sum(not stretch[0] <= k < stretch[1] for k in own)
            overlap = min(end, bounds[1]) - max(start, bounds[0])
            disorder = 0
            for k in range(low, high):
                item = self.items[k]
                if item.kind != "text" and item.number >= 0 and not stretch[0] <= k < stretch[1]:
                    is_later = item.rank > rank if item.rank >= self._base else item.number > n
                    disorder += is_later == (k < stretch[0])
            return outside, -max(0, overlap), max(0, -overlap), disorder

        return min(stretches, key=cost)

    def _levels(self, region: Window) -> dict[int, int]:
        """Return how many elements of a region each of its slots is in."""
        steps = ({"open": 1, "close": -1}.get(item.kind, 0) for item in self.items[slice(*region)])
        return dict(enumerate(accumulate(steps, initial=0), region[0]))

    def _place_element(self, n: int, bounds: Window, ranks: Window, letters: Sequence[int]) -> Window:
        """Return where both tags of an element go.

        It contains those elements of the translation that it contains in the source. Others that it would cross are in
        it or outside, as fewer letters change.
        """
        own = []
        if all(item.number != n for item in self.items):
            own = [k for k, item in enumerate(self.items) if item.number >= 0 and n in self._around[item.number]]
        region = self._stretch(n, ranks[0], bounds, own)
        own = [k for k in own if region[0] <= k < region[1]]
        starts, ends = (self._slots(offset, rank, region) for offset, rank in zip(bounds, ranks, strict=True))
        levels = self._levels(region)
        start, end = starts[-1], max(starts[-1], ends[0])
        for level in sorted({levels[k] for k in starts} & {levels[k] for k in ends}):
            first = max(k for k in starts if levels[k] == level)
            last = min((k for k in ends if levels[k] == level and k >= first), default=-1)
            if last >= 0 and min(levels[k] for k in range(first, last + 1)) == level:
                start, end = first, last
                break
        if own and letters[bounds[0]] == letters[bounds[1]]:
            start, end = own[0], own[-1] + 1
        elif own:
            start, end = min(start, own[0]), max(end, own[-1] + 1)
        # the outermost elements that are crossed: where the tag goes outside of each, or inside
        opened: list[int] = []
        left: list[int] = []
        right: list[int] = []
        blank = {k for k, item in enumerate(self.items) if item.kind == "text" and not item.text.strip()}
        for k in range(*region):
            if self.items[k].kind == "open":
                opened.append(k)
            elif self.items[k].kind == "close":
                first = opened.pop() if opened else -1
                if first < start <= k < end:
                    left = [first, k + 1 + (k + 1 in blank)]
                elif start <= first < end <= k:
                    right = [k + 1, first - (first - 1 in blank)]
        if outer := [k for k in opened if start <= k < end]:
            right = [-1, outer[0] - (outer[0] - 1 in blank)]
        ways = [
            (first, last)
            for first in left or [start]
            for last in right or [end]
            if 0 <= first <= last and (not own or (first <= own[0] and own[-1] < last))
        ]

        def changed(way: Window) -> int:
            return sum(abs(letters[self._offset(k)] - letters[at]) for k, at in zip(way, bounds, strict=True))

        return min(ways, key=changed, default=(start, end))
