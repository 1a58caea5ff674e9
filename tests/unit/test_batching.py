"""Buffers and batches."""

import random
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core import stream as batching
from align.core.aligner import GROUP, groups
from align.core.errors import PairError
from align.core.stream import (
    BATCH_TOKENS,
    BUFFER,
    LONGEST_PIECE,
    SPREAD,
    Encoded,
    batches,
    chunks,
    encode,
    of_one_length,
)
from align.core.types import Pair, Pieces
from tests.known import KnownRecorder


@given(st.lists(st.integers(0, 40)), st.integers(1, 7))
def test_chunks_end_by_bytes_too_and_begin_anew_at_each_multiple(items: list[int], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "BUFFER_BYTES", 60)
        found = list(chunks(items, size, lambda item: item))
    assert [item for chunk in found for item in chunk] == items
    assert all(sum(chunk[:-1]) <= 60 for chunk in found)
    ends = [*accumulate(map(len, found))]
    assert {*range(size, len(items) + 1, size)} <= {*ends}
    assert all(end % size == 0 or sum(chunk) > 60 for end, chunk in zip(ends[:-1], found[:-1], strict=True))


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50))), st.integers(1, 200))
def test_batches_hold_everything_once_and_keep_to_their_budget(lengths: list[tuple[int, int]], tokens: int) -> None:
    found = list(batches(lengths, tokens))
    assert sorted(n for batch in found for n in batch) == list(range(len(lengths)))
    for batch in found:
        longest = max(max(lengths[n]) for n in batch)
        assert len(batch) == 1 or len(batch) * longest <= tokens
        assert longest <= SPREAD * min(max(lengths[n]) for n in batch) + 2


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50))), st.integers(1, 60))
def test_groups_hold_everything_once_and_keep_to_their_budget(lengths: list[tuple[int, int]], tokens: int) -> None:
    pieces = [Pieces([0] * s, range(s), [0] * t, range(t), (s, t)) for s, t in lengths]
    found = list(groups([Encoded(Pair((), (), 1), of_pair) for of_pair in pieces], tokens))
    assert sorted(n for group in found for n in group) == list(range(len(lengths)))
    for group in found:
        assert len(group) == 1 or len(group) * max(max(lengths[n]) for n in group) <= GROUP * tokens


def test_pads_are_few_where_the_sides_differ_in_length() -> None:
    chance = random.Random(0)
    sources = [max(2, round(chance.lognormvariate(3, 0.7))) for _ in range(BUFFER)]
    lengths = [(source, max(1, round(source * chance.gauss(1, 0.2)))) for source in sources]
    found = list(batches(lengths, BATCH_TOKENS))
    padded = sum(len(batch) * max(lengths[n][side] for n in batch) for batch in found for side in (0, 1))
    assert padded / sum(map(sum, lengths)) < 1.15
    assert len(found) < 1.4 * sum(map(max, lengths)) / BATCH_TOKENS


@given(st.lists(st.integers(1, 6)), st.integers(1, 30), st.integers(1, 3))
def test_batches_of_one_length_hold_every_item_once_and_no_pads(lengths: list[int], tokens: int, times: int) -> None:
    found = list(of_one_length(lengths, tokens, times))
    assert sorted(position for batch in found for position in batch) == list(range(len(lengths)))
    for batch in found:
        (length,) = {lengths[position] for position in batch}
        assert len(batch) == 1 or len(batch) * length * times <= tokens


def test_a_line_of_more_characters_than_the_model_can_take_is_not_cut_into_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(KnownRecorder, "encode")
    pair = Pair(("1",), ("1" * (100 * LONGEST_PIECE + 1),), 7)
    recorder: Any = KnownRecorder()
    assert encode(recorder, pair, "blank").skipped == "too long"
    with pytest.raises(PairError, match=r"^line 7: target has 100,001 characters, the model takes 100,000: ") as error:
        encode(recorder, pair)
    assert error.value.line == 7
