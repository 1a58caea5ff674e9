"""Masked heads and their gates, against modules rebuilt without the heads, and against finite differences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from align.analysis.models.heads import AttentionHead, all_heads, attention_blocks, gate_gradients, masked
from tests import hugging, toy

SOURCE, STEPS = torch.tensor([[4, 7, 5, 2], [6, 4, 2, 1]]), torch.tensor([[2, 5, 8], [2, 9, 4]])
HEADS = [AttentionHead("encoder", 1, 2), AttentionHead("cross", 2, 1), AttentionHead("cross", 2, 4)]

BERTS = {
    "bert": ("BertConfig", "BertModel"),
    "roberta": ("RobertaConfig", "RobertaForTokenClassification"),
    "electra": ("ElectraConfig", "ElectraModel"),
    "distilbert": ("DistilBertConfig", "DistilBertModel"),
}


def fairseq_model() -> Any:
    return toy.build_model({}, toy.SOURCE_WORDS, toy.TARGET_WORDS)[0]


def bert(kind: str) -> Any:
    import transformers as hf

    settings, module = (getattr(hf, name) for name in BERTS[kind])
    sizes = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "embedding_size": 8}
    if kind == "distilbert":
        sizes = {"vocab_size": 20, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24}
    torch.manual_seed(1)
    model = module(settings(**sizes)).eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.5)
    return model


@contextmanager
def gated(model: Any, gates: dict[AttentionHead, float]) -> Iterator[None]:
    """With what goes into output projections multiplied by gates, by hooks."""
    handles = []
    for block in attention_blocks(model):
        values = [gates.get(AttentionHead(block.part, block.layer, n + 1), 1.0) for n in range(block.heads)]
        each = torch.tensor(values, dtype=block.columns.dtype).repeat_interleave(
            block.projection.weight.shape[1] // block.heads
        )
        handles.append(block.projection.register_forward_pre_hook(lambda _, args, each=each: (args[0] * each,)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def hugging_output(model: Any) -> Tensor:
    found: Tensor = model(
        input_ids=SOURCE, attention_mask=SOURCE.ne(1), decoder_input_ids=STEPS, use_cache=False
    ).logits
    return found


@pytest.mark.parametrize("kind", ["fairseq", *hugging.VOCABULARIES])
def test_all_attention_is_found(kind: str, tmp_path: Path) -> None:
    model = fairseq_model() if kind == "fairseq" else hugging.save_model(kind, tmp_path)
    blocks = attention_blocks(model)
    layers = {"encoder": 2, "decoder": 2, "cross": 2} if kind == "fairseq" else {"encoder": 2, "decoder": 3, "cross": 3}
    assert [(b.part, b.layer) for b in blocks] == [(part, n + 1) for part, most in layers.items() for n in range(most)]
    assert {b.heads for b in blocks} == {4}
    assert all_heads(blocks)[5] == AttentionHead("encoder", 2, 2)
    assert str(HEADS[1]) == "cross 2.1"


@pytest.mark.parametrize("kind", ["bart", "marian", "t5", *BERTS])
def test_masked_is_as_gated(kind: str, tmp_path: Path) -> None:
    def run() -> Tensor:
        return model(SOURCE)[0] if kind in BERTS else hugging_output(model)

    model = bert(kind) if kind in BERTS else hugging.save_model(kind, tmp_path)
    heads = [AttentionHead("encoder", 2, 3)] if kind in BERTS else HEADS
    before = run()
    with gated(model, dict.fromkeys(heads, 0.0)):
        expected = run()
    with masked(attention_blocks(model), heads):
        torch.testing.assert_close(run(), expected)
    assert torch.equal(run(), before)


def loss_of(logits: Tensor) -> Tensor:
    return -logits.double().log_softmax(-1)[..., 3].sum()


def test_gate_gradients_are_finite_differences(tmp_path: Path) -> None:
    """Of a T5, whose softmax is in float32 whatever its weights are in; `importance` is that of a Marian."""
    model, step = hugging.save_model("t5", tmp_path).double().requires_grad_(False), 1e-3
    blocks = attention_blocks(model)
    found = gate_gradients(blocks, lambda: loss_of(hugging_output(model)))
    expected = []
    for head in all_heads(blocks):
        losses = []
        for gate in (1 + step, 1 - step):
            with gated(model, {head: gate}):
                losses.append(loss_of(hugging_output(model)))
        expected.append((losses[0] - losses[1]) / (2 * step))
    torch.testing.assert_close(found, torch.stack(expected), rtol=0.03, atol=0.03)
    assert found.abs().min() > 1e-4
    assert not any(weight.requires_grad or weight.grad is not None for weight in model.parameters())
