"""Random taggings put into random translations: no tag lost, doubled, crossed or moved out of another."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import product

from align.transfer.inline import Inline, transfer_markup
from align.transfer.markup import CROSSING
from align.transfer.tags import KINDS, PLACEHOLDERS, in_common, parse, words_in
from tests.hostile import driver
from tests.hostile.driver import Tried

WORDS = (
    *("das", "Haus", "ist", "alt.", "(EU)", "„Ja“,", "z.B.", "3,5", "50%", "&amp;", "R&amp;D,", "&lt;b&gt;"),
    *("&nbsp;", "don't", "students’", "...", "?!", "»", "日本語。", "עברית", "é", "\u202e", "a-b"),
    *("&#228;rger", "\xa0"),
)
NAMES = ("b", "i", "a", "span", "g", "x", "p", "li", "div", "u")
PLACEHOLDER = (
    "%s",
    "%1$s",
    "{0}",
    "{name}:",
    "(%d)",
    "%{x}%s",
    "$HOME",
    "{n, plural, one{# a} other{<b>#</b>}}",
    "%count%",
)
NEAR = ("100%", "{", "$", "b%", "x:", "%s", "{0}", "#", "%%")
"""Words of a target that may become part of a placeholder, or are one."""

POINTS = ("<br/>", '<x id="1"/>', "<img src='a b.png' />", "<!-- a  <b> -->", "<hr/>", "<?pi  x?>", "<wbr/>")


def _space(rng: random.Random) -> str:
    return rng.choice((" ", " ", " ", "  ", "\t", ""))


def tagged(rng: random.Random, depth: int = 0, words: Sequence[str] = WORDS) -> str:
    """A piece of well-formed XML; every element says in an attribute which one it is."""
    parts = []
    for _ in range(rng.choice((0, 1, 1, 2, 3, 4)) if depth else rng.randrange(1, 7)):
        kind = rng.random()
        if kind < 0.55 or depth > 5:
            parts.append(rng.choice(words))
        elif kind < 0.65:
            parts.append(rng.choice(POINTS))
        else:
            name = rng.choice(NAMES)
            space = "  " if rng.random() < 0.1 else " "
            parts.append(f"<{name}{space}n='{rng.random()}'>{tagged(rng, depth + 1, words)}</{name}>")
        parts.append(_space(rng))
    return "".join(parts)


def structure(text: str, kind: str) -> tuple[Counter[str], dict[str, tuple[str, ...]], str]:
    """How often each tag comes, what each element is in, and the text without them.

    Raises:
        ValueError: tags are not balanced.
    """
    tags: Counter[str] = Counter()
    inside: dict[str, tuple[str, ...]] = {}
    stack: list[tuple[str, str]] = []
    plain = []
    for token in parse(text, kind):
        if token.kind == "text":
            plain.append(token.text)
            continue
        tags[token.text] += 1
        if token.kind == "close":
            if not stack or stack.pop()[0] != token.name:
                raise ValueError("not balanced")
        elif token.kind == "open":
            inside[token.text] = tuple(tag for _, tag in stack)
            stack.append((token.name, token.text))
    if stack:
        raise ValueError("not balanced")
    return tags, inside, "".join(plain)


def tags_beside(source: str, text: str, kind: str) -> Counter[str]:
    """Count the tags of a translation; adapted ones count as those of the source."""
    _, tokens = in_common(parse(source, kind), parse(text, kind))
    return Counter(token.identity for token in tokens if token.kind != "text")


def expected_tags(source: str, target: str, kind: str) -> Counter[str]:
    """Count the tags that the translation has to have: those of either side."""
    tokens, _ = in_common(parse(source, kind), parse(target, kind))
    return Counter(token.identity for token in tokens if token.kind != "text") | tags_beside(source, target, kind)


def try_tagging(rng: random.Random) -> Tried:
    """Put a tagging into a translation."""
    kind = rng.choice(KINDS)
    both = kind.endswith(PLACEHOLDERS)
    words = WORDS + PLACEHOLDER if both else WORDS
    if kind == PLACEHOLDERS:
        source = "".join(rng.choice(words) + _space(rng) for _ in range(rng.randrange(8)))
    else:
        source = tagged(rng, words=words)
    near = WORDS + NEAR if both else WORDS
    target = "".join(rng.choice(near) + (_space(rng) or " ") for _ in range(rng.choice((0, 1, 2, 3, 5, 9))))
    sizes = len(Inline(source, target, kind, lenient=True, as_written=True).source_words), len(words_in(target))
    pairs = list(product(range(sizes[0]), range(sizes[1])))
    scores = {pair: rng.choice((1.0, rng.random())) for pair in rng.sample(pairs, rng.randrange(len(pairs) + 1))}
    try:
        placed = [transfer_markup(source, target, scores, tags=kind, split=split) for split in (False, True)]
        once, split = (one.text for one in placed)
        before, there, after, twice = (structure(text, kind) for text in (source, target, once, split))
    except Exception as error:
        return Tried("taggings", f"{type(error).__name__}: {error}: {source!r} ||| {target!r}")
    expected = expected_tags(source, target, kind)
    crossing = any(CROSSING in row.remarks for one in placed for row in one.report)
    letters = "".join if both else list  # a placeholder may need spaces around it within a word
    for what, same in (
        ("other tags", expected == tags_beside(source, once, kind) and set(after[0]) == set(twice[0])),
        ("other nesting", crossing or before[1] == after[1] == twice[1]),
        ("other text", letters(words_of(after[2])) == letters(words_of(there[2])) == letters(words_of(twice[2]))),
    ):
        if not same:
            return Tried("taggings", f"{what}: {kind}: {source!r} ||| {target!r} => {once!r}, split {split!r}")
    return Tried("taggings")


def words_of(text: str) -> list[str]:
    """The words of a text."""
    return [text[slice(*word)] for word in words_in(text)]


if __name__ == "__main__":
    sys.exit(driver.main("markup", try_tagging, 10_000))
