"""Put the tags of a source text into its translation, which may contain some of them already.

- `tags.Token`: a tag, a placeholder, or the text between two of them. `Syntax.parse` cuts both sides into tokens; equal
  ones of both sides are matched (`pair_equal`), and those of the source that have no match are missing.
- `tags.Markup`: the source's plain text, its words, and a tree of the missing tags. Each `tags.Element` knows the words
  that it encloses, or the place where it stands; pairs of native codes that overlap come one layer after another.
- `windows.Window`: a range of target words. `markup.place_markup` finds one for each element with words, from the
  outermost to the innermost, and a place between two words for the others: an `Insertion` at an offset for each tag.
- `_Tree`: the tags that the translation has, at fixed offsets. The missing ones are inserted there, so that elements
  are in those that they are in in the source, and cross none; into a translation without tags they come as they are.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, TypeVar

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

K = TypeVar("K")
T = TypeVar("T")

MAX_TAGS = 2000
"""Limit of tags in a segment's source and in its translation; the time to place them grows with its square."""

MAX_LAYERS = 8  # limit of layers; elements that overlap beyond it are placed by their halves

TIE_RATIO = 0.5
"""Share of the linked score of a tag from which an equal one could as well be the one that the translation has."""

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


def pair_equal(
    ours: Iterable[tuple[K, T]], theirs: Iterable[tuple[K, T]], chosen: Mapping[T, T] = {}
) -> list[tuple[T, T]]:
    """Pair pieces of two texts that have equal keys: of several equal ones the first ones, or those chosen.

    Args:
        ours, theirs: the keys and pieces of both sides, in order.
        chosen: pieces of ours by those of theirs.
    """
    pieces: defaultdict[K, list[T]] = defaultdict(list)
    for key, piece in reversed([*ours]):
        pieces[key].append(piece)
    pairs = []
    for key, piece in theirs:
        if same := pieces.get(key):
            if chosen.get(piece) in same:
                same.append(same.pop(same.index(chosen[piece])))
            pairs.append((same.pop(), piece))
    return pairs


def _elements(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the closing tag of each opening one, but no native codes."""
    return halves([token._replace(kind="point") if _is_code(token) else token for token in tokens])


def partners(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the closing token of each opening one; pairs of native codes may overlap others."""
    pairs = _elements(tokens)
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
        self._target = "".join(token.text for token in there) if as_written else self._plain
        words = words_in(self._target)
        self.target_words = readable((self._target[a:b] for a, b in words), syntax.escaped)
        self._words = self._words_at(words)

    def _flatten(self, text: str) -> str:
        """Replace line ends and other spaces, each by one space, for a model."""
        return text if self._as_written else _SPACE.sub(" ", text)

    def _words_at(self, words: Sequence[Window]) -> Sequence[Window]:
        """Return the characters of the plain translation that words of the translation as it is written have."""
        if self._target == self._plain:
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
        self._words = self._words_at(find_words(target, self._target, self.syntax.escaped))

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
        elements = _elements(self.tokens), _elements(self._there)
        sides = []
        for tokens, pairs in zip((self.tokens, self._there), elements, strict=True):
            ends, side = set(pairs.values()), []
            for n, token in enumerate(tokens):
                is_half = token.kind != "point" and n not in pairs and not _is_code(token)
                if token.kind != "text" and n not in ends:
                    side.append(((token.identity, is_half), n))
            sides.append(side)
        matches = {m: n for n, m in pair_equal(sides[0], sides[1], chosen)}
        closing = {elements[1].get(m, -1 - m): elements[0][n] for m, n in matches.items() if n in elements[0]}
        return matches | closing

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
        tree = _Tree(_text_of(self._there), self._written, self._partners)
        tree.add_own(self._there, self._matches)
        table = Scores(links, len(self._layers[0].words), len(self._words))
        rows: list[tuple[set[int], Placement]] = []
        for layer in self._layers:
            insertions, placed = place_markup(layer, self._plain, self._words, table, split=split)
            tree.add(insertions)
            rows += placed
        items = tree.items()
        text = self._join(items)
        pairs = partners(self._there)
        paired = {*pairs, *pairs.values()}
        orphans = {
            token.name
            for m, token in enumerate(self._there)
            if token.kind in ("open", "close") and m not in paired and not _is_code(token)
        }
        crossed = tree.crossed(items, {-1 - m: -1 - end for m, end in pairs.items()})
        touching = tree.touching(items)
        positional = [
            item.number
            for item in items
            if item.number >= 0 and item.kind != "text" and has_positional(self.tokens[item.number].text)
        ]
        swapped = {positional[n] for n in out_of_order(positional)}
        report = []
        for numbers, row in rows:
            numbers |= {tree.first_half(n) for n in numbers}
            if not self._well_formed:
                row = row.doubt(MALFORMED)
            if moved := [tree.moved[n] for n in numbers if n in tree.moved]:
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

    def _join(self, items: Sequence[_Item]) -> str:
        """Return the text of all items, with spaces around new placeholders where they would become part of others."""
        names = {n: token.name for n, token in enumerate(self._written)}
        names |= {-1 - m: token.name for m, token in enumerate(self._there)}
        for one, other in pairwise([item for item in items if item.text]):
            if "text" in (one.kind, other.kind):
                continue
            adjacent = min(one.number, other.number) >= 0 and other.number == one.number + 1
            is_one_new = min(one.rank, other.rank) == -1 < max(one.rank, other.rank)
            if is_one_new and not adjacent and {names[one.number], names[other.number]} <= {PLACEHOLDER, ICU}:
                other.text = f" {other.text}"
        text = "".join(item.text for item in items)
        if self.syntax.has_placeholders and not self._is_intact(text):
            text = ""
            for item, following in zip(items, [*items[1:], _Item("text", "", -1)], strict=True):
                if item.rank >= 0 and self._written[item.number].name in (PLACEHOLDER, ICU):
                    sides = text[-1:], following.text[:1]
                    before, after = (" " * (side not in ("", " ", "\t", "<", ">")) for side in sides)
                    item.text = before + item.text.strip(" ") + after
                text += item.text
        return text

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


@dataclass(eq=False, slots=True)
class _Node:
    """An element or a point in the text of a translation without tags."""

    start: int
    end: int
    texts: list[str]  # both tags of an element, or what stands at a point
    numbers: list[int]  # of the source's tokens; negative ones if the source does not have them
    ranks: list[int]  # positions among the tags that are new; -1 of those that the translation has
    parent: _Node | None = None
    children: list[_Node] = field(default_factory=list)


_Tag = tuple[int, Kind, str, int, int]  # its offset, kind and text, the number of the source's token, and its rank


def _read(root: _Node, tags: Iterable[_Tag]) -> list[_Node]:
    """Put tags, in order, into a tree; return all nodes, outer ones first."""
    nodes: list[_Node] = []
    node = root
    for at, kind, text, number, rank in tags:
        if kind == "close" and node.parent:
            node.end = at
            node.texts.append(text)
            node.numbers.append(number)
            node.ranks.append(rank)
            node = node.parent
            continue
        nodes.append(_Node(at, at, [text], [number], [rank], node))
        node.children.append(nodes[-1])
        node = nodes[-1] if kind == "open" else node
    return nodes


def _ancestor(node: _Node | None, parent: _Node) -> _Node | None:
    """Return the child of a parent that a node is or is in; None if it is elsewhere."""
    while node and node.parent is not parent:
        node = node.parent
    return node


class _Tree:
    """The elements and points of a translation: those that it has are fixed, new ones come between or around them."""

    def __init__(self, text: str, tokens: Sequence[Token], partners: Mapping[int, int]) -> None:
        self._text, self._tokens, self._partners = text, tokens, partners
        self._letters = [0, *accumulate(map(str.isalnum, text))]
        self._starts = {m: n for n, m in partners.items()}
        self._elements = {n: m for n, m in partners.items() if not _is_code(tokens[n])}
        self._root = _Node(0, len(text), [], [], [])
        self._nodes: defaultdict[int, list[_Node]] = defaultdict(list)
        self._ranks = 0
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

    def add_own(self, tokens: Sequence[Token], matches: Mapping[int, int]) -> None:
        """Add the tags that the translation has, by their tokens and the source's tokens that these match."""
        pairs = _elements(tokens)
        paired = {*pairs, *pairs.values()}
        offsets = [0, *accumulate(len(token.text) if token.kind == "text" else 0 for token in tokens)]
        self._enter(
            _read(
                self._root,
                [
                    (offsets[m], token.kind if m in paired else "point", token.text, matches.get(m, -1 - m), -1)
                    for m, token in enumerate(tokens)
                    if token.kind != "text"
                ],
            )
        )

    def add(self, insertions: Sequence[Insertion]) -> None:
        """Place the tags of a layer."""
        base, self._ranks = self._ranks, self._ranks + len(insertions)
        tags: list[_Tag] = []
        for rank, (at, n, text) in enumerate(insertions, base):
            kind: Kind = "open" if n in self._elements else "point"
            tags.append((at, "close" if self._starts.get(n) in self._elements else kind, text, n, rank))
        if not self._root.children:
            self._enter(_read(self._root, tags))
            return
        nodes = _read(_Node(0, len(self._text), [], [], []), tags)
        for node in sorted(nodes, key=lambda node: node.numbers[0]):
            self._insert(node, base)
        for n in {self.first_half(node.numbers[0]) for node in nodes} & self._partners.keys() - self._elements.keys():
            opening, closing = self._nodes.get(n), self._nodes.get(self._partners[n])
            content = _text_of(self._tokens[n : self._partners[n]]).strip()
            if opening and closing and content and not self._text[opening[0].start : closing[0].start].strip():
                self.moved[n] = 0.0  # a pair of codes that encloses text in the source only

    def _enter(self, nodes: Iterable[_Node]) -> None:
        for node in nodes:
            self._nodes[node.numbers[0]].append(node)

    def _insert(self, node: _Node, base: int) -> None:
        """Place a tag or an element near its offsets: in its parent, in the source's order, and across no element."""
        n, rank = node.numbers[0], node.ranks[0]
        start, end = linked = node.start, node.end
        parent = self._root
        for element in reversed(self._around[n]):
            if outer := [one for one in self._nodes[element] if len(one.texts) == 2 and one.ranks[0] < rank]:
                parent = outer[-1]
                break
        partner = self._partners.get(n)
        if n not in self._elements:  # not before the other half of a pair of codes, or after it
            for one in self._nodes.get(self._starts.get(n, n), ()):
                start = end = max(start, one.start)
            for one in self._nodes.get(self._partners.get(n, n), ()):
                start = end = min(start, one.start)
        inside = []  # what the translation has of its content
        if n in self._elements and not self._nodes[n]:
            numbers = (k for k in range(n + 1, self._elements[n]) if n in self._around[k])
            inside = [one for k in numbers for one in self._nodes.get(k, ())]
        while True:
            children = parent.children
            own = {top for one in inside if (top := _ancestor(one, parent))}
            inner = self._extra_around(children, start, end, own)
            if inner is None:
                low, high, region = self._run(node, parent, own, (start, end), base)
                run = children[low:high]
                own = {one for one in own if one in run}
                start, end = (min(max(region[0], at), region[1]) for at in (start, end))
                inner = self._extra_around(run, start, end, own)
            if inner is None:
                break
            parent = inner
        if own:
            edges = min(one.start for one in own), max(one.end for one in own)
            is_empty = self._letters[start] == self._letters[end]
            start, end = edges if is_empty else (min(start, edges[0]), max(end, edges[1]))
        if start < end:
            start, end = self._beside(run, own, (start, end), linked)
        first = low
        while first < high and (one := children[first]) not in own and one.end <= start:
            if one.start == start and (one.ranks[0] > rank or one.numbers[0] == partner):
                break
            first += 1
        last = max((k + 1 for k in range(low, high) if children[k] in own), default=first)
        while last < high and children[last].start < end:
            last += 1
        if n in self._elements:
            if not self._text[slice(*linked)].strip() and (start < end or first < last):
                node.texts = [text.strip(" ") for text in node.texts]  # around tags, not between words
            texts = self._text[slice(*linked)], self._text[start:end]
            counts = [[self._letters[at] for at in bounds] for bounds in (linked, (start, end))]
            if texts[0].strip() and not texts[1].strip():
                self.moved[n] = 0.0
            elif counts[0] != counts[1] or texts[0].strip() != texts[1].strip():
                self.moved[n] = PART
        elif self._text[min(start, linked[0]) : max(start, linked[0])].strip():
            self.moved[self.first_half(n)] = PART
        node.start, node.end, node.parent, node.children = start, end, parent, children[first:last]
        for one in node.children:
            one.parent = node
        children[first:last] = [node]
        self._nodes[n].append(node)

    def _extra_around(self, nodes: Sequence[_Node], start: int, end: int, own: set[_Node]) -> _Node | None:
        """Return the element that the source does not have and that some characters are in, with all of `own`."""
        for node in nodes:
            if len(node.texts) == 2 and node.numbers[0] < 0 and own <= {node}:
                bounds = node.start, node.end
                if bounds[0] < start <= end < bounds[1] or (
                    start < end and bounds[0] <= start and end <= bounds[1] and bounds != (start, end)
                ):
                    return node
        return None

    def _run(self, node: _Node, parent: _Node, own: set[_Node], bounds: Window, base: int) -> tuple[int, int, Window]:
        """Return the children of a parent between those that are next to a tag in the source, and their characters.

        They have as many of the characters in `bounds` as possible, and the nodes of `own`.
        """
        n, children = node.numbers[0], parent.children
        fixed: list[tuple[int, bool]] = []  # places of those next to the tag; whether they are behind it
        for k, child in enumerate(children):
            neighbour = None if child in own else self._neighbour(child, n)
            if neighbour is not None:
                is_new = neighbour.ranks[0] >= base
                fixed.append((k, neighbour.ranks[0] > node.ranks[0] if is_new else neighbour.numbers[0] > n))
        disorder = sum(not is_behind for _, is_behind in fixed)
        places = [-1, *(k for k, _ in fixed), len(children)]
        best: tuple[tuple[int, int, int, int], tuple[int, int, Window]] | None = None
        for r, (before, after) in enumerate(pairwise(places)):
            if r:
                disorder += 1 if fixed[r - 1][1] else -1
            region = (
                children[before].end if before >= 0 else parent.start,
                children[after].start if after < len(children) else parent.end,
            )
            overlap = min(region[1], bounds[1]) - max(region[0], bounds[0])
            outside = len(own) - sum(child in own for child in children[before + 1 : after])
            cost = outside, -max(0, overlap), max(0, -overlap), disorder
            if best is None or cost < best[0]:
                best = cost, (before + 1, after, region)
        assert best is not None
        return best[1]

    def _neighbour(self, node: _Node, n: int) -> _Node | None:
        """Return what of a node is next to a tag in the source, not in it: the node, or one in it; not a code."""
        waiting = [node]
        while waiting:
            one = waiting.pop()
            number = one.numbers[0]
            if number < 0 or number == n or _is_code(self._tokens[number]) or n in self._around[number]:
                waiting += reversed(one.children)
            else:
                return one
        return None

    def _beside(self, nodes: Sequence[_Node], own: set[_Node], bounds: Window, linked: Window) -> Window:
        """Return an element's characters so that others are in it or outside, as fewer letters change."""
        start, end = bounds
        starts, ends = [start], [end]
        for n, node in enumerate(nodes):
            if node.start < start < node.end:
                limit = nodes[n + 1].start if n + 1 < len(nodes) else len(self._text)
                after = self._text[node.end : limit]
                starts = [node.start, node.end + len(after) - len(after.lstrip())]
            if node.start < end < node.end:
                limit = nodes[n - 1].end if n else 0
                before = self._text[limit : node.start]
                ends = [node.end, len(before.rstrip()) + limit]
        ways = [
            (first, last)
            for first in starts
            for last in ends
            if first <= last and all(first <= one.start and one.end <= last for one in own)
        ]

        def changed(way: Window) -> int:
            return sum(abs(self._letters[here] - self._letters[at]) for here, at in zip(way, linked, strict=True))

        return min(ways, key=changed, default=(starts[0], ends[0]))

    def items(self) -> list[_Item]:
        """Return all tags and the text between them."""
        items, at = list[_Item](), 0

        def write(end: int, kind: Kind, text: str, number: int, rank: int) -> None:
            nonlocal at
            if end > at:
                items.append(_Item("text", self._text[at:end], -1))
                at = end
            items.append(_Item(kind, text, number, rank))

        waiting: list[tuple[_Node, int]] = [(one, 0) for one in reversed(self._root.children)]
        while waiting:
            node, k = waiting.pop()
            kind: Kind = "close" if k else "open" if len(node.texts) == 2 else "point"
            write(node.end if k else node.start, kind, node.texts[k], node.numbers[k], node.ranks[k])
            if kind == "open":
                waiting += [(node, 1), *((one, 0) for one in reversed(node.children))]
        return [*items, _Item("text", self._text[at:], -1)]

    def first_half(self, n: int) -> int:
        """Return the number of the opening tag of an element or a pair of codes; a point's own number."""
        return self._starts.get(n, n)

    def touching(self, items: Sequence[_Item]) -> set[int]:
        """Return the numbers of tags that touch an equal one, one of them new, with text between them in the source."""
        touching: set[int] = set()
        before: _Item | None = None
        for item in items:
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

    def crossed(self, items: Sequence[_Item], own: Mapping[int, int]) -> set[int]:
        """Return the numbers of pairs that cross another one or are in it, where they are not in the source.

        `own` are the pairs of the translation, by the numbers that they have if the source does not have them.
        """
        places = {item.number: k for k, item in enumerate(items) if item.kind != "text"}
        pairs = [
            ((places[n], places[m]), n)
            for n, m in (*self._partners.items(), *own.items())
            if n in places and m in places and places[n] < places[m]
        ]
        is_new = {n: any(items[k].rank >= 0 for k in pair) for pair, n in pairs}
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
        for item in items:
            if item.kind == "close" and stack:
                stack.pop()
            for outer in stack if item.kind == "open" and item.number >= 0 else ():
                if outer.number >= 0 and outer.number not in self._around[item.number]:
                    crossed |= {outer.number, item.number}
            if item.kind == "open":
                stack.append(item)
        return crossed
