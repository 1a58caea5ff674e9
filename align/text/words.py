"""Words, and where they stand in the line that they were cut from."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from align.types import Pair, Span

_WORD = re.compile(r"[^ \t]+")


def split_words(text: str) -> tuple[str, ...]:
    """The words of a sentence, cut at ASCII space and TAB."""
    return tuple(_WORD.findall(text))


def find_spans(words: Sequence[str], line: str) -> list[Span]:
    """Where words stand in their line.

    Args:
        words: in order, without spaces in them, and nothing but spaces between them in the line.
        line: the line that they were cut from.

    Raises:
        ValueError: the line does not have these words.
    """
    spans, end = [], 0
    for word in words:
        start = line.find(word, end)
        if start < 0:
            raise ValueError(f"{word!r} does not stand behind character {end} of its line")
        end = start + len(word)
        spans.append((start, end))
    return spans


@dataclass(frozen=True, slots=True)
class LinePair(Pair):
    """A pair with the lines that its words were cut from, so that links can tell characters; `LinePair.of` makes one.

    Attributes:
        source_line: the source as it was given, with its own spaces.
        target_line: likewise.
    """

    source_line: str
    target_line: str

    @classmethod
    def of(cls, source: str, target: str, id: int = 1) -> LinePair:
        """A pair of two lines, cut at ASCII space and TAB."""
        return cls(split_words(source), split_words(target), id, source, target)

    @property
    def spans(self) -> tuple[list[Span], list[Span]]:
        """Where the words of source and target stand in their lines.

        Raises:
            ValueError: they do not.
        """
        return find_spans(self.source, self.source_line), find_spans(self.target, self.target_line)

    def with_target(self, words: tuple[str, ...]) -> LinePair:
        """The same source with another target, whose line has a space between words."""
        return replace(self, target=words, target_line=" ".join(words))


MakePair: TypeAlias = Callable[[str, str, int], Pair]
"""Makes a pair of the lines of both sides and its number."""


def make_pair(source: str, target: str, id: int) -> Pair:
    """A pair that does not keep its lines."""
    return Pair(split_words(source), split_words(target), id)
