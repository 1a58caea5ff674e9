"""Parse a line with tags into a tree of elements, each with the words that it contains."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import unescape

from align.core.text import normalize
from align.transfer.tags import BLOCK, ESCAPED, PARSERS, Token, halves

_WORD = re.compile(r"[^ \t]+")
_SPACE = re.compile(r"[ \t\n]")
_BREAKS = BLOCK | {"br"}
"""Elements that end a word even without a space."""

INSIDE, UNMATCHED = "inside a word", "without its other half"
"""Remarks on a tag before it is placed."""


@dataclass(slots=True)
class Element:
    """An element, or a point: a tag or placeholder without content, or several adjacent ones.

    Attributes:
        tokens: numbers of the first and the last of its tokens; the first identifies it.
        start: offset of its start in the plain text.
        point: whether it has no content.
        block: whether it contains whole sentences, or an element in it does.
        children: the elements in it, in order.
        words: its words, the first one and the one after the last; of a point, twice the word after it.
        before: text that touches it on its left, up to the next space.
        behind: text that touches it on its right.
        remarks: anything unusual about it.
    """

    tokens: tuple[int, int]
    start: int
    end: int
    point: bool
    block: bool
    children: list[Element] = field(default_factory=list)
    words: tuple[int, int] = (0, 0)
    before: str = ""
    behind: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Markup:
    """A line with tags.

    Attributes:
        plain: the line without its tags; block tags and `<br>` leave a space between words that they separate.
        words: start and end of each of its words.
        root: an element that contains all of it and has no tags itself.
        escaped: whether its text has entities.
    """

    tokens: Sequence[Token]
    plain: str
    words: Sequence[tuple[int, int]]
    root: Element
    escaped: bool

    def readable(self) -> tuple[str, ...]:
        """Return the words as a model reads them: without entities."""
        return readable((self.plain[start:end] for start, end in self.words), self.escaped)

    def tags(self, element: Element) -> str:
        """Return all tags of an element and of those in it, without the text between them."""
        first, last = element.tokens
        return "".join(token.text for token in self.tokens[first : last + 1] if token.kind != "text")


def readable(words: Iterable[str], escaped: bool) -> tuple[str, ...]:
    """Replace entities in words, if `escaped`; a word that would get a space stays unchanged."""
    if not escaped:
        return tuple(words)
    decoded = ((word, unescape(word) if "&" in word else word) for word in words)
    return tuple(plain if plain and not _SPACE.search(plain) else word for word, plain in decoded)


def words_in(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each word of a text."""
    return [match.span() for match in _WORD.finditer(text)]


def has_letters(text: str) -> bool:
    """Check whether a text has a letter, a digit or anything else that is not punctuation."""
    return any(not unicodedata.category(character).startswith("P") for character in normalize(text))


def read_markup(text: str, tags: str) -> Markup:
    """Read a line with tags.

    Args:
        tags: a key of `align.transfer.tags.PARSERS`.

    Raises:
        ValueError: the key is unknown, or the line cannot be parsed.
    """
    if tags not in PARSERS:
        raise ValueError(f"tags are one of {', '.join(PARSERS)}; not {tags!r}")
    tokens = PARSERS[tags](text)
    plain, root = _tree(tokens)
    words = words_in(plain)
    _find_words(root, plain, words)
    root.words = (0, len(words))
    return Markup(tokens, plain, words, root, tags in ESCAPED)


def _tree(tokens: Sequence[Token]) -> tuple[str, Element]:
    """Return the plain text, and an element that contains all of it."""
    pairs = halves(tokens)
    ends = set(pairs.values())
    root = Element((-1, len(tokens)), 0, 0, point=False, block=False)
    inside, parts, at, parted = [root], list[str](), 0, False
    for n, token in enumerate(tokens):
        if token.kind == "text":
            if parted and parts and parts[-1][-1] not in " \t" and token.text[0] not in " \t":
                parts.append(" ")
                at += 1
            parts.append(token.text)
            at += len(token.text)
            parted = False
            continue
        parted = parted or token.name in _BREAKS
        parent, block = inside[-1], token.name in BLOCK
        before = parent.children[-1] if parent.children else None
        if n in pairs:
            parent.children.append(Element((n, pairs[n]), at, at, point=False, block=block))
            inside.append(parent.children[-1])
        elif n in ends:
            inside.pop().end = at
            inside[-1].block |= parent.block
        elif before and before.point and before.tokens[1] == n - 1 and before.block == block:
            before.tokens = (before.tokens[0], n)
        else:
            remarks = () if token.kind == "point" else (UNMATCHED,)
            parent.children.append(Element((n, n), at, at, point=True, block=block, remarks=remarks))
            parent.block |= block
    root.end, root.block = at, False
    return "".join(parts), root


def _find_words(root: Element, plain: str, words: Sequence[tuple[int, int]]) -> None:
    """Set the words of all elements in a tree, and the text that touches them."""
    ends = [end for _, end in words]
    waiting = list(root.children)
    while waiting:
        element = waiting.pop()
        waiting.extend(element.children)
        n, element.before, first = _around(element.start, plain, words, ends)
        m, last, element.behind = _around(element.end, plain, words, ends)
        inside = bool(element.before and first), bool(last and element.behind)
        cut = (
            inside[0] and has_letters(element.before) and has_letters(first),
            inside[1] and has_letters(last) and has_letters(element.behind),
        )
        begin = n + (inside[0] and not has_letters(first))
        after = m + (inside[1] and has_letters(last))
        if not plain[element.start : element.end].strip(" \t"):
            begin = after = n + (inside[0] and (has_letters(element.before) or not has_letters(first)))
        elif begin >= after:  # around punctuation of a word, not around the word
            begin, after, cut = n, n + 1, (True, True)
        element.words = (begin, after)
        if any(cut):
            element.remarks += (INSIDE,)


def _around(at: int, plain: str, words: Sequence[tuple[int, int]], ends: Sequence[int]) -> tuple[int, str, str]:
    """Return how many words end up to an offset of a text, and the visible text on its left and right."""
    n = bisect_right(ends, at)
    if n < len(words) and words[n][0] <= at:
        return n, normalize(plain[words[n][0] : at]), normalize(plain[at : words[n][1]])
    return n, normalize(plain[words[n - 1][0] : at]) if n and ends[n - 1] == at else "", ""
