"""Batches without pads: which rows there are, and where they lie."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from align.models.engine.forward import Layout, round_up


@given(st.integers(1, 100_000))
def test_round_numbers_are_near(rows: int) -> None:
    assert rows <= round_up(rows) <= max(rows + 31, rows * 17 / 16)
    assert round_up(round_up(rows)) == round_up(rows)


def test_round_numbers_are_few() -> None:
    assert len({round_up(rows) for rows in range(1, 4097)}) == 32 + 2 * 16


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_padding_and_flattening(lengths: list[int]) -> None:
    kept = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    layout = Layout.of(kept)
    numbers = torch.arange(1, kept.numel() + 1, dtype=torch.float32).view(*kept.shape, 1)  # of every place
    flat = layout.flatten(numbers)
    assert len(flat) == len(layout.positions) == round_up(sum(lengths))
    assert torch.equal(flat[: sum(lengths)], numbers[kept])
    assert torch.equal(layout.pad(flat)[kept], numbers[kept])
    assert layout.positions[: sum(lengths)].tolist() == [place for length in lengths for place in range(length)]
    assert (layout.mask is None) == (min(lengths) == max(lengths))
