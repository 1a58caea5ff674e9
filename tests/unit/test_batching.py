"""Buffers and batches."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.text.batching import batches, chunks


@given(st.lists(st.integers()), st.integers(1, 7))
def test_chunks_hold_all_in_order(items: list[int], size: int) -> None:
    found = list(chunks(items, size))
    assert [item for chunk in found for item in chunk] == items
    assert all(len(chunk) == size for chunk in found[:-1])


@pytest.mark.parametrize("error", [ValueError, OSError, RuntimeError, KeyError, Exception, ZeroDivisionError])
def test_what_was_read_before_an_error_comes_out_before_it(error: type[Exception]) -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise error("line 6")

    found: list[list[int]] = []
    with pytest.raises(error, match="line 6") as raised:
        found.extend(chunks(items(), 3))
    assert raised.type is error
    assert found == [[0, 1, 2], [3, 4]]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_who_wants_to_stop_waits_for_nothing(stop: type[BaseException]) -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise stop

    found: list[list[int]] = []
    with pytest.raises(stop):
        found.extend(chunks(items(), 3))
    assert found == [[0, 1, 2]]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50))), st.integers(1, 200))
def test_batches_hold_everything_once_and_keep_to_their_budget(lengths: list[tuple[int, int]], tokens: int) -> None:
    found = list(batches(lengths, tokens))
    assert sorted(n for batch in found for n in batch) == list(range(len(lengths)))
    for batch in found:
        longest = max(max(lengths[n]) for n in batch)
        assert len(batch) == 1 or len(batch) * longest <= tokens
