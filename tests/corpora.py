"""Toy texts: sentences translated word by word, sentences that have nothing to do with each other, and gold."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from align.core.types import Gold, Pair
from tests.toy import SOURCE_WORDS, TARGET_WORDS

TOY_WORDS = list(zip(SOURCE_WORDS, TARGET_WORDS, strict=False))
NUMBERED_WORDS = [(f"s{n}", f"t{n}") for n in range(25)]

PAIRS = [
    Pair(("das", "haus", "ist", "alt", "."), ("the", "house", "is", "old", "now", "."), 1),
    Pair(("wir", "sehen"), ("we",), 2),
    Pair(("unbekannt", ",", "das", "und"), ("we", "see", "it"), 3),
]
"""Of the words of toy models, but for one."""

GOLD = "0-0 1p1 2-2\n0-0\n1-1 0-0\n"
ONE = "0-0 1-1\n0-0\n0-0 1-1\n"
TWO = "0-0 1-1 2-2\n0-1\n0-0 1-1\n"
SOURCE = "a b c\nd e\nf g\n"
TARGET = "x y z\nu v\nw w\n"


def word_by_word(
    count: int, seed: int = 1, words: Sequence[tuple[str, str]] = TOY_WORDS, shortest: int = 2
) -> list[Pair]:
    """Sentences of up to 8 of these words, whose translations stand in the same order."""
    draw = random.Random(seed)
    sentences = [draw.sample(words, draw.randint(shortest, 8)) for _ in range(count)]
    return [
        Pair(tuple(source for source, _ in sentence), tuple(target for _, target in sentence), number)
        for number, sentence in enumerate(sentences, 1)
    ]


def unrelated(count: int, seed: int) -> list[Pair]:
    """Sentences of 1 to 8 different words, drawn for each side apart."""
    draw = random.Random(seed)
    sides = [
        [tuple(draw.sample(words, draw.randrange(1, 9))) for words in (SOURCE_WORDS, TARGET_WORDS)]
        for _ in range(count)
    ]
    return [Pair(source, target, number) for number, (source, target) in enumerate(sides, 1)]


def with_gaps(count: int, longest: int = 9) -> list[Pair]:
    """Sentences drawn for each side apart, some words of which are unknown, and some of which are blank."""
    draw = random.Random(count)

    def side(words: list[str]) -> tuple[str, ...]:
        return tuple(draw.choices([*words, "?"], k=draw.randrange(1, longest) if draw.random() > 0.1 else 0))

    return [Pair(side(SOURCE_WORDS), side(TARGET_WORDS), number) for number in range(1, count + 1)]


def turned(pairs: Iterable[Pair]) -> list[Pair]:
    """The same sentences, the other way round."""
    return [Pair(pair.target, pair.source, pair.id) for pair in pairs]


def as_bitext(pairs: Iterable[Pair]) -> str:
    """Lines of `source ||| target`."""
    return "".join(f"{' '.join(pair.source)} ||| {' '.join(pair.target)}\n" for pair in pairs)


def as_text(sentences: Iterable[Sequence[str]]) -> str:
    """One side of a text, a sentence a line."""
    return "".join(" ".join(words) + "\n" for words in sentences)


def pair_files(folder: Path, source: str, target: str) -> tuple[Path, Path]:
    """Two files of text, `text.de` and `text.en`."""
    paths = folder / "text.de", folder / "text.en"
    for path, text in zip(paths, (source, target), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def format_marked(gold: Gold, mark: str = "p") -> str:
    """A line of `3-4` for sure links and `3p4`, or with another mark `3?4`, for those that are only possible."""
    return " ".join(f"{i}-{j}" if (i, j) in gold.sure else f"{i}{mark}{j}" for i, j in sorted(gold.possible))
