"""Attention of decoder-only models is that of transformers, with norms written out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from align.core.scores import CELL_SCORES
from align.core.types import CrossAttention
from align.models.causal.families import build_causal
from align.models.causal.forward import CausalTransformer
from align.models.settings import Config
from tests import causal

pytest.importorskip("transformers", reason="needs transformers, which the models are compared with")

PROMPTS = [1, 5, 9, 7, *range(20, 30)], [1, 5, 9, 7, 33, 34, 35], [1, 5, 9, 8, *range(40, 52)]
TARGETS = [11, 12, 13, 14], [15, 16, 17, 18, 19, 20, 21], [22]


def ours(model: Any) -> CausalTransformer:
    return build_causal(Config(model.config.to_dict(), "config.json"), dict(model.state_dict()))


def record(
    transformer: CausalTransformer, prompts: Sequence[list[int]], targets: Sequence[list[int]], layers: Sequence[int]
) -> list[CrossAttention]:
    rows = [prompt + target for prompt, target in zip(prompts, targets, strict=True)]
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    for padded, row in zip(ids, rows, strict=True):
        padded[: len(row)] = torch.tensor(row)
    lengths = torch.tensor([len(row) for row in rows])
    return list(transformer.record(ids, lengths, torch.tensor([len(target) for target in targets]), layers))


def read_from_transformers(model: Any, ids: list[int]) -> tuple[list[Tensor], list[Tensor]]:
    """Weights of each layer `[H, T, T]`, and the output of each layer's attention `[T, D]`."""
    outputs: list[Tensor] = []
    hooks = [
        layer.self_attn.register_forward_hook(lambda _, __, out: outputs.append(out[0][0]))
        for layer in model.model.layers
    ]
    with torch.inference_mode():
        weights = model(torch.tensor([ids]), output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    return [layer[0] for layer in weights], outputs


@pytest.mark.parametrize("name", causal.MODELS)
def test_rows_are_those_of_transformers(name: str) -> None:
    model = causal.make_model(name)
    transformer = ours(model)
    recorded = record(transformer, PROMPTS, TARGETS, [1, 2, 3, 4])
    assert [attention.layer for attention in recorded] == [1, 2, 3, 4]
    for n, (prompt, target) in enumerate(zip(PROMPTS, TARGETS, strict=True)):
        ids = prompt + target
        weights, outputs = read_from_transformers(model, ids)
        rows = slice(len(prompt) - 1, len(ids))
        for attention, expected, out in zip(recorded, weights, outputs, strict=True):
            got = attention.weights[n, :, : len(target) + 1]
            assert torch.allclose(got[..., : len(ids)], expected[:, rows], atol=1e-5)
            assert not got[..., len(ids) :].any()
            values = attention.values[n, :, : len(ids)]  # [H, S, d]
            vectors = torch.einsum("hts,hsd,hde->te", got[..., : len(ids)], values, attention.out_proj)
            bias = model.model.layers[attention.layer - 1].self_attn.o_proj.bias
            assert torch.allclose(vectors if bias is None else vectors + bias, out[rows], atol=1e-4)
            assert out.abs().max() > 0.05


@pytest.mark.parametrize("name", ["llama with biases", "gemma2"])
def test_norms_are_those_of_vectors_written_out(name: str) -> None:
    model = causal.make_model(name)
    prompt, target = PROMPTS[0], TARGETS[0]
    (attention,) = record(ours(model), [prompt], [target], [3])
    with torch.inference_mode():
        states: list[Tensor] = []
        inner = model.model.layers[2].self_attn
        hook = inner.register_forward_pre_hook(
            lambda _, __, named: states.append(named["hidden_states"][0]), with_kwargs=True
        )
        weights = model(torch.tensor([prompt + target]), output_attentions=True).attentions[2][0]
        hook.remove()
        size, shared = inner.head_dim, inner.num_key_value_groups
        of_groups = inner.v_proj(states[0]).split(size, -1)
        projections = inner.o_proj.weight.split(size, 1)
        vectors = torch.stack([of_groups[h // shared] @ w.T for h, w in enumerate(projections)])  # [H, S, D]
        rows = weights[:, len(prompt) - 1 :]
        expected = rows * vectors.norm(dim=-1)[:, None]
        together = torch.einsum("hts,hsd->tsd", rows, vectors).norm(dim=-1)
    scores = CELL_SCORES["norm"](attention, [*range(1, 7), "all"])[0]
    assert torch.allclose(scores[:6], expected, atol=1e-4, rtol=1e-4)
    assert torch.allclose(scores[6], together, atol=1e-4, rtol=1e-4)


def test_layers_stop_at_the_last_one_requested_and_come_one_by_one() -> None:
    transformer = ours(causal.make_model("llama"))
    broken = CausalTransformer(transformer.embedding, transformer.layers[:2], transformer.frequencies, transformer.norm)
    assert len(record(broken, PROMPTS, TARGETS, [2])) == 1
