"""All attention, with its norms, is what fairseq's and transformers' own modules compute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from align import load
from align.analysis.maps import Maps
from align.analysis.models.native import own_model
from align.analysis.models.translation import TranslationModel
from align.core.types import PARTS, Part
from align.models.fairseq.dictionary import EOS
from tests import hugging, naive_hugging, toy
from tests.corpora import PAIRS


def own_attention(model: Any, source: Tensor, steps: Tensor) -> dict[Part, list[tuple[Tensor, Tensor]]]:
    """What each of fairseq's modules attends to `[H, T, S]`, and its vectors f(x) `[H, S, D]`, of what goes into it."""
    seen: dict[Part, list[tuple[Tensor, Tensor]]] = {part: [] for part in PARTS}
    stacks: dict[Part, Any] = {"encoder": model.encoder.layers, "decoder": model.decoder.layers}
    modules: list[tuple[Part, Any]] = [(part, layer.self_attn) for part, layers in stacks.items() for layer in layers]
    modules += [("cross", layer.encoder_attn) for layer in model.decoder.layers]

    def keep(part: Part) -> Callable[..., None]:
        def hook(module: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
            query = module.q_proj(kwargs["query"])[:, 0] * module.scaling  # [T, D]
            key, value = module.k_proj(kwargs["key"])[:, 0], module.v_proj(kwargs["value"])[:, 0]  # [S, D]
            weights, vectors = [], []
            for h in range(module.num_heads):
                mine = slice(h * module.head_dim, (h + 1) * module.head_dim)
                scores = query[:, mine] @ key[:, mine].T  # [T, S]
                if part == "decoder":
                    scores += torch.full_like(scores, float("-inf")).triu(1)
                weights.append(scores.softmax(-1))
                vectors.append(value[:, mine] @ module.out_proj.weight[:, mine].T)  # [S, D]
            seen[part].append((torch.stack(weights), torch.stack(vectors)))

        return hook

    handles = [module.register_forward_hook(keep(part), with_kwargs=True) for part, module in modules]
    with torch.no_grad():
        model(source, torch.tensor([source.shape[1]]), steps)
    for handle in handles:
        handle.remove()
    return seen


def assert_same(maps: Maps, layers: list[tuple[Tensor, Tensor]]) -> None:
    """Hold maps against weights and vectors of each layer, every weighted vector written out."""
    assert len(maps.weights) == len(layers)
    for n, (weights, vectors) in enumerate(layers):
        torch.testing.assert_close(torch.tensor(maps.weights[n]), weights, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(torch.tensor(maps.vectors[n]), vectors.norm(dim=-1), atol=1e-4, rtol=1e-4)
        weighted = weights[..., None] * vectors[:, None]  # [H, T, S, D]
        torch.testing.assert_close(torch.tensor(maps.norms[n]), weighted.norm(dim=-1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in toy.SHAPES if name != "scaled parts"])
def test_fairseq(toy_recorder: Callable[..., Any], name: str) -> None:
    recorder = toy_recorder(toy.SHAPES[name])
    readings = list(TranslationModel(recorder).read(PAIRS, PARTS))
    for pair, reading in zip(PAIRS, readings, strict=True):
        pieces = recorder.encode(pair)
        own = own_attention(own_model(recorder), torch.tensor([pieces.source]), torch.tensor([[EOS, *pieces.target]]))
        for part in PARTS:
            assert_same(reading[part], own[part])
    assert readings[0]["cross"].rows.pieces[0] == "</s>"
    assert readings[0]["cross"].columns.pieces[-1] == "</s>"
    assert readings[0]["encoder"].rows == readings[0]["cross"].columns


@pytest.mark.parametrize("kind", hugging.VOCABULARIES)
def test_transformers(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model = hugging.save_model(kind, tmp_path)
    recorder: Any = load(tmp_path, options=hugging.options(kind)).forward.recorder
    for pair, reading in zip(PAIRS, TranslationModel(recorder).read(PAIRS, PARTS), strict=True):
        sentence = naive_hugging.encode(kind, tmp_path, model, pair)
        found = naive_hugging.forward(kind, model, sentence)
        own = {
            "encoder": found.encoder_attentions,
            "decoder": found.decoder_attentions,
            "cross": found.cross_attentions,
        }
        for part in PARTS:
            maps = reading[part]
            for n, weights in enumerate(own[part]):
                t, s = maps.weights.shape[2:]  # transformers reads mBART's last piece, too, which predicts nothing
                torch.testing.assert_close(torch.tensor(maps.weights[n]), weights[0, :, :t, :s], atol=1e-5, rtol=1e-4)
