"""Checkpoints without some heads against the same models masked, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from align import load
from align.analysis.models.heads import AttentionHead, attention_blocks, without_heads
from align.analysis.models.native import own_model
from align.analysis.pruning import write_pruned
from align.analysis.recording import Inside
from align.core.scores import collate
from align.core.types import PARTS, Search
from align.models.fairseq.model import load_fairseq
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from examples.to_hugging_face import convert
from tests import toy
from tests.analysis.test_ablate import GOLD, PAIRS, TEXT
from tests.conftest import ROOT

HEADS = [
    AttentionHead("encoder", 1, 2),
    AttentionHead("decoder", 2, 1),
    AttentionHead("decoder", 2, 3),
    AttentionHead("cross", 1, 4),
    AttentionHead("cross", 2, 1),
]


def pruned(checkpoint: Path, folder: Path, heads: list[AttentionHead] = HEADS) -> tuple[Any, Any]:
    """The recorder of a model, and that of the same without some heads."""
    found = find_model(str(checkpoint), ModelOptions())
    recorder = load_fairseq(found)
    write_pruned(found, recorder, heads, folder)
    return recorder, load_fairseq(find_model(str(folder), ModelOptions()))


def batch_of(recorder: Any) -> Any:
    return collate([recorder.encode(pair) for pair in PAIRS], recorder.pad)


@pytest.mark.parametrize(
    ("shape", "old"), [("post-norm", True), *((name, False) for name in ("pre-norm", "wider encoder", "scaled parts"))]
)
def test_a_pruned_model_is_the_masked_one(shape: str, old: bool, tmp_path: Path) -> None:
    whole, small = pruned(toy.save_model(tmp_path / "whole", toy.SHAPES[shape], old=old), tmp_path / "small")
    assert (small.layers, small.heads) == (whole.layers, whole.heads)
    assert small.languages == whole.languages
    with without_heads(whole, attention_blocks(own_model(whole)), HEADS):
        for found, expected in zip(
            small.record(batch_of(small), [1, 2]), whole.record(batch_of(whole), [1, 2]), strict=True
        ):
            there = remaining("cross", found.layer, whole.heads)
            torch.testing.assert_close(found.weights[:, there], expected.weights[:, there])
            assert not found.values[:, [n for n in range(whole.heads) if n not in there]].any()
            torch.testing.assert_close(found.out_proj, expected.out_proj)
        assert_same_norms(small, whole)


def remaining(part: str, layer: int, heads: int) -> list[int]:
    """The numbers of the heads of a layer that are not pruned, from 0."""
    return [n for n in range(heads) if (part, layer, n + 1) not in HEADS]


def assert_same_norms(small: Any, masked: Any) -> None:
    source, steps = small.padded(batch_of(small))
    recorded = [list(Inside(one.transformer).record(source, steps, PARTS)) for one in (small, masked)]
    for found, expected in zip(*recorded, strict=True):
        vectors = expected.vectors
        if found.part != "cross":  # whose pruned heads are zeros, as masked ones are; others are not there
            vectors = vectors[:, remaining(found.part, found.layer, vectors.shape[1])]
        torch.testing.assert_close(found.vectors, vectors)


def test_links_and_translations_are_the_masked_models(tmp_path: Path) -> None:
    checkpoint = toy.save_trained_model(tmp_path / "whole")
    heads = [AttentionHead("encoder", 1, 1), AttentionHead("decoder", 1, 2), AttentionHead("cross", 1, 3)]
    whole, small = pruned(checkpoint, tmp_path / "small", heads)
    found = load(str(tmp_path / "small"), device="cpu")
    expected = load(str(checkpoint), device="cpu")
    sources = [whole.encode(pair).source for pair in PAIRS]
    translated = small.translator(Search(), 100)(sources)
    links = [[str(alignment) for alignment in found(TEXT)]]
    recorder: Any = expected.forward.recorder
    with without_heads(recorder, attention_blocks(own_model(recorder)), heads):
        links.append([str(alignment) for alignment in expected(TEXT)])
        assert translated == recorder.translator(Search(), 100)(sources)
    assert links[0] == links[1]
    assert len(GOLD) == len(links[0])


def test_a_calibrated_head_that_is_gone_is_calibrated_no_more(tmp_path: Path) -> None:
    pruned(ROOT / "align" / "models" / "bundled" / "de-en", tmp_path / "small", [AttentionHead("cross", 1, 1)])
    calibrated = find_model(str(tmp_path / "small"), ModelOptions()).calibration(("de", "en"))
    assert {position for _, position in calibrated} == {"output"}


def test_a_pruned_model_is_not_converted(tmp_path: Path) -> None:
    pruned(toy.save_model(tmp_path / "whole"), tmp_path / "small")
    with pytest.raises(ValueError, match="some were pruned here"):
        convert(str(tmp_path / "small"), tmp_path / "converted")
