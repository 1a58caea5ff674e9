"""Batches without pads: which rows there are, and where they lie; the first layer's products by table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from align.models.engine import forward
from align.models.engine.forward import Layout, round_up
from align.models.fairseq.model import load_fairseq
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from tests import toy

SIDES = ("encoder", "decoder")


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


@pytest.mark.parametrize(("learned", "length"), [(False, 3), (False, forward.FIRST_POSITIONS + 9), (True, 3)])
@pytest.mark.parametrize("before", [False, True])
def test_the_first_layer_by_table_equals_the_product(
    learned: bool, before: bool, length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"learned_pos": learned, "normalize_before": before}
    toy.save_model(tmp_path, {f"{side}_{name}": value for side in SIDES for name, value in settings.items()})
    transformer = load_fairseq(find_model(str(tmp_path), ModelOptions())).transformer
    layout = Layout.of(torch.arange(length) < torch.tensor([length, 2])[:, None])
    ids = torch.arange(len(layout.positions)) % len(toy.SOURCE_WORDS)
    for stack in (transformer.encoder, transformer.decoder):
        x, projected = stack.begin(ids, layout)
        assert (projected is None) == before
        if projected is not None:
            attention = stack.layers[0].attention
            assert isinstance(attention, forward.SelfAttention)
            known = attention.query_key_value(x)[: length + 2]
            assert torch.allclose(layout.flatten(projected)[: length + 2], known, atol=1e-5)
        assert replace(stack, tabled=False).begin(ids, layout)[1] is None
        monkeypatch.setattr(forward, "TABLED", stack.embedding.pieces.numel())
        assert replace(stack).begin(ids, layout)[1] is None
        monkeypatch.undo()
