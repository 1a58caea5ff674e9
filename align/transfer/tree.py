"""A line with tags as a tree of elements, each of which knows the words that it stands around."""

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
"""Elements that end a word even where no space stands beside them."""

INSIDE, UNMATCHED = "inside a word", "without its other half"
"""What there may be to say of a tag before it is placed."""


@dataclass(slots=True)
class Element:
    """An element, or a point: a tag or placeholder without content, or several that touch.

    Attributes:
        tokens: numbers of the first and the last of its tokens; the first tells it from all others.
        start: where in the plain text it begins.
        end: where it ends.
        point: whether it has no content.
        block: whether it stands around sentences, or an element in it does.
        children: what is in it, in order.
        words: its words, the first of them and the first behind them; of a point, twice the one behind it.
        before: what touches it on its left, up to the next space.
        behind: what touches it on its right.
        remarks: what is odd about it.
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
        tokens: of the line.
        plain: the line without its tags; block tags and `<br>` leave a space between words that they part.
        words: where each of its words begins and ends.
        root: an element around all of it, without tags of its own.
        escaped: whether its text has entities.
    """

    tokens: Sequence[Token]
    plain: str
    words: Sequence[tuple[int, int]]
    root: Element
    escaped: bool

    def readable(self) -> tuple[str, ...]:
        """The words as a model is to read them: without entities."""
        return readable((self.plain[start:end] for start, end in self.words), self.escaped)

    def tags(self, element: Element) -> str:
        """All tags of an element and of those in it, without the text between them."""
        first, last = element.tokens
        return "".join(token.text for token in self.tokens[first : last + 1] if token.kind != "text")


def readable(words: Iterable[str], escaped: bool) -> tuple[str, ...]:
    """Words without entities, where they have any; one that would have a space in it stays as it is."""
    if not escaped:
        return tuple(words)
    shown = ((word, unescape(word) if "&" in word else word) for word in words)
    return tuple(plain if plain and not _SPACE.search(plain) else word for word, plain in shown)


def words_in(text: str) -> list[tuple[int, int]]:
    """Where each word of a text begins and ends."""
    return [match.span() for match in _WORD.finditer(text)]


def has_letters(text: str) -> bool:
    """Whether a text has a letter or a digit in it, or anything that is no punctuation."""
    return any(not unicodedata.category(character).startswith("P") for character in normalize(text))


def read_markup(text: str, tags: str) -> Markup:
    """Read a line with tags.

    Args:
        text: the line.
        tags: a key of `align.transfer.tags.PARSERS`.

    Raises:
        ValueError: another key, or a line that cannot be read as that.
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
    """The plain text, and an element around all of it."""
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
    """Find the words of all elements in a tree, and what touches them."""
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
        elif begin >= after:  # around punctuation of a word, and not the word
            begin, after, cut = n, n + 1, (True, True)
        element.words = (begin, after)
        if any(cut):
            element.remarks += (INSIDE,)


def _around(at: int, plain: str, words: Sequence[tuple[int, int]], ends: Sequence[int]) -> tuple[int, str, str]:
    """Return how many words end up to a place in a text, and the visible text that touches it on its left and right."""
    n = bisect_right(ends, at)
    if n < len(words) and words[n][0] <= at:
        return n, normalize(plain[words[n][0] : at]), normalize(plain[at : words[n][1]])
    return n, normalize(plain[words[n - 1][0] : at]) if n and ends[n - 1] == at else "", ""
