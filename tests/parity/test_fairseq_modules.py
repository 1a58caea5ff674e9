"""What is recorded is what fairseq computed, for every shape of Transformer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from align.analysis.models.native import own_model
from align.core.scores import collate
from align.core.types import Pair
from align.models.engine.linear import Linear, PackedLinear, PlainLinear
from align.models.fairseq.dictionary import EOS
from tests import toy
from tests.corpora import PAIRS


def reference(recorder: Any, pair: Pair) -> list[dict[str, torch.Tensor]]:
    """A full forward pass of fairseq's own on one pair, with what each cross-attention put out."""
    pieces = recorder.encode(pair)
    source = torch.tensor([pieces.source])
    steps = torch.tensor([[EOS, *pieces.target]])
    seen: list[dict[str, torch.Tensor]] = []

    def keep(module: Any, args: Any, output: Any) -> None:
        seen.append({"output": output[0].transpose(0, 1), "weights": output[1], "bias": module.out_proj.bias})

    def ask(module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return args, {**kwargs, "need_head_weights": True}

    handles = []
    for layer in own_model(recorder).decoder.layers:
        handles.append(layer.encoder_attn.register_forward_pre_hook(ask, with_kwargs=True))
        handles.append(layer.encoder_attn.register_forward_hook(keep))
    with torch.inference_mode():
        own_model(recorder)(source, torch.tensor([source.shape[1]]), steps)
    for handle in handles:
        handle.remove()
    return seen


@pytest.mark.parametrize(
    ("name", "old"), [*((name, False) for name in toy.SHAPES), ("post-norm", True), ("scaled parts", True)]
)
def test_weighted_vectors_and_bias_add_up_to_the_modules_output(
    toy_recorder: Callable[..., Any], name: str, old: bool
) -> None:
    recorder = toy_recorder(toy.SHAPES[name], old=old)
    layers = range(1, recorder.layers + 1)
    batch = collate([recorder.encode(pair) for pair in PAIRS], recorder.pad)
    recorded = list(recorder.record(batch, layers))
    assert [attention.layer for attention in recorded] == list(layers)
    for b, pair in enumerate(PAIRS):
        pieces = recorder.encode(pair)
        steps, length = len(pieces.target) + 1, len(pieces.source)
        for attention, own in zip(recorded, reference(recorder, pair), strict=True):
            weights = attention.weights[b, :, :steps, :length]
            torch.testing.assert_close(weights, own["weights"][:, 0], rtol=0, atol=1e-5)
            assert (attention.weights[b, :, :steps, length:] == 0).all()
            transformed = torch.einsum("hsd,hdo->hso", attention.values[b, :, :length], attention.out_proj)
            output = torch.einsum("hts,hso->to", weights, transformed) + own["bias"]
            torch.testing.assert_close(output, own["output"][0], rtol=0, atol=1e-5)


def test_nothing_above_the_wanted_attention_is_run(
    toy_recorder: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = toy_recorder({"decoder_layers": 3})
    ran: list[Linear] = []
    for kind in (PackedLinear, PlainLinear):
        product = kind.__call__

        def watched(self: Linear, *rest: Any, product: Any = product) -> Any:
            ran.append(self)
            return product(self, *rest)

        monkeypatch.setattr(kind, "__call__", watched)
    batch = collate([recorder.encode(PAIRS[0])], recorder.pad)
    list(recorder.record(batch, [2]))
    first, second, third = recorder.transformer.decoder.layers
    assert first.feed_forward in ran
    assert second.cross.key_value in ran
    for unneeded in (second.cross_block.out, second.feed_forward, third.attention.query_key_value):
        assert unneeded not in ran
