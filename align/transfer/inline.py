"""Put the tags of a source text into its translation, which may contain some of them already.

- `tags.Token`: a tag, a placeholder, or the text between two of them. `Syntax.parse` cuts both sides into tokens; equal
  ones of both sides are matched (`pair_equal`), and those of the source that have no match are missing.
- `tags.Markup`: the source's plain text, its words, and a tree of the missing tags. Each `tags.Element` knows the words
  that it encloses, or the place where it stands; pairs of native codes that overlap come one layer after another.
- `windows.Window`: a range of target words. `markup.place_markup` finds one for each element with words, from the
  outermost to the innermost, and a place between two words for the others: an `Insertion` at an offset for each tag.
- `tree.Tree`: the tags that the translation has, at fixed offsets. The missing ones are inserted there: each element is
  in those that it is in in the source, and crosses none. Into a translation without tags they come as they are.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

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
    has_positional,
    in_common,
    is_break,
    markup_of,
    mixes_arguments,
    pair_placeholders,
    readable,
    without_section,
    words_in,
)
from align.transfer.tree import Item, Tree, elements, is_code, overlap, partners, spare_annotations, text_of
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


def match_by_x(source: Sequence[Token], target: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    """Identify halves of native codes by `x`, which is the same in all languages of TMX; `i` only pairs two of them.

    Without `x` somewhere, or if the sides have none in common, `i` has to do.
    """
    sides = [*source], [*target]
    opening = (
        [code for code in side if is_code(code) and code.name[1:2] != "<" and code.kind == "open"] for side in sides
    )
    ours, theirs = ({code.name: x[1] if (x := _X.search(code.text)) else None for code in codes} for codes in opening)
    if None in {*ours.values(), *theirs.values()} or (theirs and not {*ours.values()} & {*theirs.values()}):
        return sides
    lone = {name: x for name, x in ours.items() if x not in theirs.values()}  # closing halves that have lost the other
    for tokens, known in zip(sides, (ours, lone | theirs), strict=True):
        for n, token in enumerate(tokens):
            if is_code(token) and token.name in known:
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


def _spans(tokens: Sequence[Token], plain: str, words: Sequence[tuple[int, int]]) -> dict[str, dict[int, list[range]]]:
    """Return by identity, for each element its words, and for each point the word before it and the one after."""
    letters = [0, *accumulate(not character.isspace() for character in plain)]
    starts, ends = [letters[a] for a, _ in words], [letters[b] for _, b in words]
    at = [0, *accumulate(len("".join(token.text.split())) if token.kind == "text" else 0 for token in tokens)]
    pairs = partners(tokens)
    closing = set(pairs.values())
    spans: dict[str, dict[int, list[range]]] = defaultdict(dict)
    for n, token in enumerate(tokens):
        if token.kind == "text" or n in closing:
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


def without_comments(tokens: Iterable[Token], syntax: Syntax) -> list[Token]:
    """Return tokens without comments and processing instructions of XML."""
    return [token for token in tokens if syntax.tags != "xml" or not token.text.startswith(("<!--", "<?"))]


class Inline:
    """A source text with tags, and its translation, which may have some of them.

    Args:
        source, target: both sides, cut into tokens.
        as_written: whether the words are those between spaces and TABs: of the source without its tags, and of the
            translation with its own. Otherwise they are those that a model reads, which has no tags.
        well_formed: whether the translation could be parsed; if not, it is one text.

    Raises:
        ValueError: a side cannot be parsed, or has too many tags.
    """

    def __init__(
        self,
        source: Sequence[Token],
        target: Sequence[Token],
        syntax: Syntax,
        *,
        as_written: bool = False,
        well_formed: bool = True,
    ) -> None:
        self.syntax, self._as_written, self._well_formed = syntax, as_written, well_formed
        check_size(source, text_of(target))
        counts = [sum(token.kind != "text" for token in side) for side in (source, target)]
        if counts[1] and max(counts) > MAX_TAGS:
            raise ValueError(f"more than {MAX_TAGS:,} tags")
        # which tags and placeholders the translation has
        self.tokens, self._target_tokens = match_by_x(*in_common(source, target))
        self.tokens = pair_placeholders(self.tokens, {token.identity for token in self._target_tokens})
        self._partners, self._spare = partners(self.tokens), spare_annotations(self.tokens, self._target_tokens)
        self._given: Sequence[str] | None = None
        self._use(self._match({}))
        unknown = (m for m, token in enumerate(self._target_tokens) if token.kind != "text" and m not in self._matches)
        self.extra = tuple(self._target_tokens[m].text for m in unknown)  # which the source does not have
        self.missing = tuple(self.tokens[n].text for n in sorted(self._new))  # which the translation lacks
        if self.missing:  # a CDATA section has no room for them
            target = self._target_tokens = [without_section(token) for token in self._target_tokens]
        self._translation = self._flatten(text_of(target))  # without its tags
        self._offsets = [*accumulate((len(token.text) * (token.kind == "text") for token in target), initial=0)]
        # the words, as a model reads them
        self.plain = self._layers[0].plain  # the source without tags
        self.source_words = self._layers[0].readable()
        self._target = "".join(token.text for token in target) if as_written else self._translation
        words = words_in(self._target)
        if not as_written:  # a break ends a word, even without a space
            ends = sorted({at for at, token in zip(self._offsets, target, strict=False) if is_break(token)})
            cuts = ([a, *ends[bisect_right(ends, a) : bisect_left(ends, b)], b] for a, b in words)
            words = [word for cut in cuts for word in pairwise(cut)]
        self.target_words = readable((self._target[start:end] for start, end in words), syntax.escaped)
        self._words = self._without_tags(words)

    @classmethod
    def of_segment(cls, source: str, target: str, tags: str | Syntax) -> Inline:
        """Read a segment of a document, both sides well-formed; comments and instructions of XML are not placed."""
        syntax = Syntax.of(tags)
        return cls(without_comments(syntax.parse(source), syntax), syntax.parse(target), syntax)

    @classmethod
    def of_line(cls, source: str, target: str, tags: str | Syntax, *, as_written: bool = False) -> Inline:
        """Read a line, of which everything is placed; a translation that is not well-formed is text."""
        syntax, well_formed = Syntax.of(tags), True
        tokens = syntax.parse(source)
        try:
            target_tokens = syntax.parse(target)
        except ValueError:
            target_tokens, well_formed = [Token("text", target)], False
        return cls(tokens, target_tokens, syntax, as_written=as_written, well_formed=well_formed)

    def _flatten(self, text: str) -> str:
        """Replace each space by one for a model; line ends by a TAB if they may tell where placeholders are."""
        line_end = "\t" if self.syntax.has_placeholders else " "
        return text if self._as_written else line_end.join(_SPACE.sub(" ", line) for line in text.split("\n"))

    def _without_tags(self, words: Sequence[Window]) -> Sequence[Window]:
        """Return words of the translation, given by their characters, by those that it has without its tags."""
        if not self._as_written:
            return words
        is_text = (token.kind == "text" for token in self._target_tokens for _ in token.text)
        offsets = [0, *accumulate(map(int, is_text))]
        return [(offsets[start], offsets[end]) for start, end in words]

    def use_words(self, source: Sequence[str], target: Sequence[str]) -> None:
        """Count other words than those between spaces; see `align.transfer.tags.find_words`."""
        self._given = source
        self._use(self._matches)
        self._words = self._without_tags(find_words(target, self._target, self.syntax.escaped))

    def _use(self, matches: dict[int, int]) -> None:
        """Prepare the tokens of the source that the translation does not match."""
        self._matches = matches
        self._written = self._renumber()
        there = {*matches.values(), *self._spare}
        self._new = {n for n, token in enumerate(self.tokens) if token.kind != "text"} - there
        self._layers = [markup_of(layer, self.syntax, spaces=not self._as_written) for layer in self._split()]
        if self._given is not None:
            words = find_words(self._given, self._layers[0].plain, self.syntax.escaped)
            self._layers = [layer.with_words(words) for layer in self._layers]

    def _renumber(self) -> list[Token]:
        """Return the source's tokens, codes with the number `i` of their other half, or one that is free, in TMX."""
        tokens = list(self.tokens)
        names = {n: self._target_tokens[m].name for m, n in self._matches.items() if m >= 0}
        taken = {token.name for token in self._target_tokens if is_code(token)}
        numbers = [int(name[1:]) for name in {*taken, *(token.name for token in tokens)} if name[1:].isdecimal()]
        for n, m in self._partners.items():
            if not is_code(tokens[n]) or not _I.search(tokens[n].text):
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
        """Return the source's token for each equal one of the translation: the first, or the one chosen for it."""
        pairs = elements(self.tokens), elements(self._target_tokens)
        sides = []
        for tokens, ends in zip((self.tokens, self._target_tokens), pairs, strict=True):
            closing, side = set(ends.values()), []
            for n, token in enumerate(tokens):
                is_half = token.kind != "point" and n not in ends and not is_code(token)
                if token.kind != "text" and n not in closing:
                    side.append(((token.identity, is_half), n))
            sides.append(side)
        first = pair_equal(sides[0], sides[1], chosen)  # the closing half of a code has to be that of the opening one
        ours, theirs = self._partners, partners(self._target_tokens)
        ends = {theirs[m]: ours[n] for n, m in first if n in ours and m in theirs}
        matches = {m: n for n, m in pair_equal(sides[0], sides[1], {**ends, **chosen})}
        return matches | {pairs[1].get(m, -1 - m): pairs[0][n] for m, n in matches.items() if n in pairs[0]}

    def _choose(self, links: Mapping[tuple[int, int], float]) -> set[str]:
        """Match equal tokens of which the translation lacks some by their links; return which could be others as well.

        A text in them that is the same on both sides, such as a command, counts more than links in or next to them.
        """
        matched = {self.tokens[n].identity for n in self._matches.values()}
        if not any(self.tokens[n].identity in matched for n in self._new):
            return set()
        source = self._layers[0]
        written = markup_of(self.tokens, self.syntax, spaces=not self._as_written).tokens
        ours_of = _spans(written, source.plain, source.words)
        theirs_of = _spans(self._target_tokens, self._translation, self._words)
        contents = list[dict[int, str]]()  # text and placeholders in each element, by the number of its opening tag
        for tokens in (self.tokens, self._target_tokens):
            texts = [token.text if token.kind == "text" or token.name == PLACEHOLDER else "" for token in tokens]
            contents.append({n: " ".join("".join(texts[n:m]).split()) for n, m in partners(tokens).items()})
        of_target: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for (i, j), score in links.items():
            of_target[j].append((i, score))
        chosen: dict[int, int] = {}
        unsure: set[str] = set()
        for identity, theirs in theirs_of.items():
            ours = ours_of.get(identity, {})
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
        fixed = [pair for pair in new if not is_code(self.tokens[pair[0]])]
        codes = sorted(pair for pair in new if is_code(self.tokens[pair[0]]))
        numbers = self._new
        for count in range(1, MAX_LAYERS + 1):
            pairs, rest = dict(fixed), []
            for n, m in codes:
                if count < MAX_LAYERS and any(overlap((n, m), pair) for pair in pairs.items()):
                    rest.append((n, m))
                else:
                    pairs[n] = m
            later = {n for pair in rest for n in pair}
            starts = {m: n for n, m in pairs.items()}
            layer = []  # all tokens of the source; those that are not of this layer are empty texts
            for n, token in enumerate(self._written):
                if token.kind == "text":
                    token = token._replace(text=self._flatten(token.text))
                elif n not in numbers - later:
                    token = Token("text", "", BREAK if is_break(token) else "")
                elif is_code(token):
                    kind: Kind = "open" if n in pairs else "close" if n in starts else "point"
                    token = token._replace(kind=kind, name=token.name if kind == "point" else f"#{starts.get(n, n)}")
                layer.append(token)
            yield layer
            if not rest:
                return
            fixed, codes, numbers = [], rest, later

    def place(
        self, scores: Mapping[tuple[int, int], float] | Collection[tuple[int, int]], *, split: bool = False
    ) -> Transferred:
        """Return the translation with all tags, and where those that were missing are.

        Args:
            scores: scores of links (source word, target word), or a set of links.
            split: whether a tag may come more than once, around all target words that are linked with its own.
        """
        links = scores if isinstance(scores, Mapping) else dict.fromkeys(scores, 1.0)
        if split:  # a placeholder comes once
            self._partners = {n: m for n, m in self._partners.items() if self.tokens[n].name != PLACEHOLDER}
            self._use(self._matches)
        unsure = self._choose(links)
        tree = Tree(text_of(self._target_tokens), self._written, self._partners)
        tree.add_own(self._target_tokens, self._matches)
        table = Scores(links, len(self._layers[0].words), len(self._words))
        rows: list[tuple[set[int], Placement]] = []
        own = {at for at, token in zip(self._offsets, self._target_tokens, strict=False) if token.kind != "text"}
        for layer in self._layers:
            insertions, placed = place_markup(layer, self._translation, self._words, table, split=split, own=own)
            tree.add(insertions)
            rows += placed
        items = tree.items()
        text = self._join(items)
        pairs = partners(self._target_tokens)
        paired = {*pairs, *pairs.values()}
        tags = [(m, token) for m, token in enumerate(self._target_tokens) if token.kind in ("open", "close")]
        orphans = {token.name for m, token in tags if m not in paired and not is_code(token)}
        crossed = tree.crossed(items, {-1 - m: -1 - end for m, end in pairs.items()})
        touching = tree.touching(items)
        order = [item.number for item in items if item.number >= 0 and item.kind != "text"]
        order = [n for n in order if has_positional(self.tokens[n].text)]
        highest, lowest = accumulate(order, max), reversed([*accumulate(reversed(order), min)])
        swapped = {n for n, high, low in zip(order, highest, lowest, strict=True) if n < high or n > low}
        is_mixed = bool(rows) and "$" in text and not mixes_arguments(self.tokens)
        is_mixed = is_mixed and mixes_arguments(self._parse(text) or [Token("text", text)])
        has_others = any(tag[:1] != "<" for tag in self.extra)
        extra = {name[1].lower() for tag in self.extra if (name := _UNIDENTIFIED.match(tag))}
        report = []
        for numbers, row in rows:
            numbers |= {tree.first_half(n) for n in numbers}
            moved = [tree.moved[n] for n in numbers if n in tree.moved]
            has_argument = row.tag[:1] != "<" or "%" in row.tag
            doubts = (
                (MALFORMED, 1.0, not self._well_formed),
                (MOVED, min(moved, default=1.0), moved),
                (CROSSING, 0.0, numbers & crossed or any(self.tokens[n].name in orphans for n in numbers)),
                (ORDER, 0.0, numbers & swapped),
                (REPEATED, 0.0, numbers & touching),
                (REPEATED, PART, any(self.tokens[n].identity in unsure for n in numbers)),
                (ANOTHER, 0.0, any(name.lower() in extra for name in _UNIDENTIFIED.findall(row.tag))),
                (OTHERS, 0.0, has_argument and has_others),
                (MIXED, 0.0, has_argument and is_mixed),
            )
            for remark, limit, applies in doubts:
                row = row.doubt(remark, limit) if applies else row
            report.append(row)
        return Transferred(text, tuple(report))

    def _join(self, items: Sequence[Item]) -> str:
        """Return the text of all items, with spaces around new placeholders where they would become part of others."""
        names = {n: token.name for n, token in enumerate(self._written)}
        names |= {-1 - m: token.name for m, token in enumerate(self._target_tokens)}
        for one, other in pairwise([item for item in items if item.text]):
            if "text" in (one.kind, other.kind):
                continue
            adjacent = min(one.number, other.number) >= 0 and other.number == one.number + 1
            is_one_new = min(one.rank, other.rank) == -1 < max(one.rank, other.rank)
            if is_one_new and not adjacent and {names[one.number], names[other.number]} <= {PLACEHOLDER, ICU}:
                other.text = f" {other.text}"
        text = "".join(item.text for item in items)
        if not self.syntax.has_placeholders:
            return text
        tokens = *self._target_tokens, *(self._written[n] for n in self._new)
        sides = tokens, self._parse(text) or tokens
        before, now = (Counter(token.text for token in side if token.name in (PLACEHOLDER, ICU)) for side in sides)
        if before != now:  # one has become a part of another
            text = ""
            for item, following in zip(items, [*items[1:], Item("text", "")], strict=True):
                if item.rank >= 0 and self._written[item.number].name in (PLACEHOLDER, ICU):
                    near = text[-1:], following.text[:1]
                    left, right = (" " * (side not in ("", " ", "\t", "<", ">")) for side in near)
                    item.text = left + item.text.strip(" ") + right
                text += item.text
        return text

    def _parse(self, text: str) -> list[Token]:
        """Return the tokens of the result; none if it is not well-formed, as the translation is not."""
        try:
            return self.syntax.parse(text)
        except ValueError:
            return []


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
    return Inline.of_line(source, target, tags, as_written=True).place(scores, split=split)
