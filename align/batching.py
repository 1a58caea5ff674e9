"""A stream of items in buffers, and a buffer in batches of like length; flat in memory however long the input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

BUFFER = 2000
"""Pairs that are read ahead, to sort them by length."""

BATCH_TOKENS = 2000
"""Pieces in a batch, pads included."""


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut a stream into lists of `size`. Where reading fails, in whatever way, what came before comes out first."""
    chunk: list[T] = []
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) == size:
                yield chunk
                chunk = []
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def batches(lengths: Sequence[tuple[int, int]], tokens: int) -> Iterator[list[int]]:
    """Cut items into batches of like length.

    Args:
        lengths: source and target length of each item, in pieces.
        tokens: the most that a batch may hold, counted as its items times its longest side, pads included.

    Yields:
        Positions in `lengths`; every position once. An item longer than `tokens` is a batch of its own.
    """
    batch: list[int] = []
    longest = 0
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        longest = max(longest, *lengths[position])
        if batch and (len(batch) + 1) * longest > tokens:
            yield batch
            batch, longest = [], max(lengths[position])
        batch.append(position)
    if batch:
        yield batch
