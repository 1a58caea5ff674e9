"""Items and their alignments: in order, all of them, or an error."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.errors import LostItemError
from align.core.stream import align_items, chunks
from align.core.types import Alignment, Pair

Align = Callable[[Iterator[Pair]], Generator[Alignment, None, None]]
Item = tuple[str, list[Pair]]


def items_of(counts: list[int]) -> list[Item]:
    """Items with these numbers of pairs; the n-th pair of all has the number n."""
    number = 0
    items = []
    for n, count in enumerate(counts):
        items.append((f"item {n}", [Pair(("a",), ("b",), number + k) for k in range(1, count + 1)]))
        number += count
    return items


def reading_ahead(buffer: int) -> Align:
    """An aligner that reads a buffer of pairs before it yields their alignments."""

    def align(pairs: Iterator[Pair]) -> Generator[Alignment, None, None]:
        for chunk in chunks(pairs, buffer):
            yield from (Alignment(pair, {}) for pair in chunk)

    return align


def pairs_of(item: Item) -> list[Pair]:
    return item[1]


@given(st.lists(st.integers(0, 3)), st.integers(1, 50))
def test_each_item_comes_with_its_own(counts: list[int], buffer: int) -> None:
    items = items_of(counts)
    joined = list(align_items(items, pairs_of, reading_ahead(buffer)))
    assert [item for item, _ in joined] == items
    assert [[alignment.pair for alignment in alignments] for _, alignments in joined] == [pairs for _, pairs in items]


@given(
    st.lists(st.integers(0, 3), min_size=1),
    st.integers(1, 50),
    st.sampled_from(["first", "last", "all", "twice", "swapped"]),
)
def test_no_fault_is_silent(counts: list[int], buffer: int, fault: str) -> None:
    counts = [*counts, 2]  # two pairs at least, with different numbers

    def faulty(pairs: Iterator[Pair]) -> Generator[Alignment, None, None]:
        alignments = list(reading_ahead(buffer)(pairs))
        yield from {
            "first": alignments[1:],
            "last": alignments[:-1],
            "all": [],
            "twice": [*alignments, alignments[-1]],
            "swapped": [*alignments[:-2], *alignments[:-3:-1]],
        }[fault]

    items, done = items_of(counts), []
    with pytest.raises(LostItemError, match=r"after \d+ items?; what is written ends there"):
        done.extend(align_items(items, pairs_of, faulty))
    assert [item for item, _ in done] == items[: len(done)]
