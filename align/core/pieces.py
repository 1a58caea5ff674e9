"""Pairs given as piece ids, segmented and generated elsewhere with the same model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from align.core.errors import shorten
from align.core.types import Pair

WordOf = tuple[int | None, ...]
"""The word of each id, from 0; None for special pieces."""


@dataclass(frozen=True, slots=True)
class IdPair(Pair):
    """A pair given as ids; `IdPair.of` makes one.

    Its words are the ids of their pieces joined by commas, and "-" for a word without a piece.

    Attributes:
        source_ids: as the encoder reads them, special pieces and padding included.
        target_ids: as `generate` returns them, or without the special pieces around the translation.
        source_words: word of each source id; None where each id is a word of its own.
        target_words: word of each target id, likewise.
    """

    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    source_words: WordOf | None
    target_words: WordOf | None

    @classmethod
    def of(
        cls,
        source_ids: Iterable[int],
        target_ids: Iterable[int],
        source_words: Iterable[int | None] | None = None,
        target_words: Iterable[int | None] | None = None,
        id: int = 1,
    ) -> IdPair:
        """Return a pair of lists, or of tensors and arrays of one dimension.

        Args:
            source_ids: S ids.
            target_ids: T ids.
            source_words: word of each source id, from 0, None for special pieces, as `word_ids()` of a tokenizer of
                transformers returns. Without it links count the ids, and special pieces have no link.
            target_words: word of each target id, likewise.
            id: number of the pair, for messages.

        Raises:
            TypeError: an id or a word is not an integer.
            ValueError: a negative number, or not as many words as ids.
        """
        ids = _numbers(source_ids, "source_ids"), _numbers(target_ids, "target_ids")
        words = _words_of(source_words, ids[0], "source_words"), _words_of(target_words, ids[1], "target_words")
        return cls(_spelt(ids[0], words[0]), _spelt(ids[1], words[1]), id, *ids, *words)


def _numbers(ids: Iterable[int], name: str) -> tuple[int, ...]:
    values = ids.tolist() if hasattr(ids, "tolist") else ids
    numbers = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes) else None
    if numbers is None or not all(isinstance(n, int) for n in numbers):
        raise TypeError(f"{name} is {shorten(repr(ids))}, not a list of whole numbers")
    if min(numbers, default=0) < 0:
        raise ValueError(f"{name} has {min(numbers)}; ids are numbers from 0")
    return numbers


def _words_of(words: Iterable[int | None] | None, ids: Sequence[int], name: str) -> WordOf | None:
    if words is None:
        return None
    items = tuple(words)
    _numbers([word for word in items if word is not None], name)
    if len(items) != len(ids):
        raise ValueError(f"{name} has {len(items):,} items for {len(ids):,} ids")
    return items


def _spelt(ids: Sequence[int], words: WordOf | None) -> tuple[str, ...]:
    if words is None:
        return tuple(map(str, ids))
    spelt: list[list[str]] = [[] for _ in range(max((word for word in words if word is not None), default=-1) + 1)]
    for n, word in zip(ids, words, strict=True):
        if word is not None:
            spelt[word].append(str(n))
    return tuple(",".join(parts) or "-" for parts in spelt)
