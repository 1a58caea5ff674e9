"""Lighter training steps compute what fairseq's own do, and their dropout is dropout."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from fairseq.modules import FairseqDropout, MultiheadAttention

from align.training.plugin.lighter import FastDropout, lighten
from tests import toy

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("p", [0.1, 0.5, 0.73])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_share_that_is_dropped_and_the_scale_of_the_rest(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    x = torch.ones(1001, 997, dtype=dtype, requires_grad=True)  # an odd number of elements
    y = FastDropout(p)(x)
    kept = y != 0
    assert y.dtype == dtype
    assert kept.float().mean().item() == pytest.approx(1 - p, abs=5 * (p * (1 - p) / x.numel()) ** 0.5 + 2**-16)
    torch.testing.assert_close(y[kept], torch.tensor(1 / (1 - p), dtype=dtype).expand(int(kept.sum())))
    # neighbours, which share a random number, are dropped independently
    flat = kept.flatten()[:-4]
    for step in (1, 2, 3):
        both = (flat[::4] & kept.flatten()[step : len(flat) + step : 4]).float().mean().item()
        assert both == pytest.approx((1 - p) ** 2, abs=0.005)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", ["post-norm", "pre-norm", "wider encoder", "quantisation noise"])
@pytest.mark.parametrize("narrow", [False, True])
def test_steps_are_those_of_the_model_as_it_was(shape: str, narrow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    own = toy.build_model(toy.SHAPES[shape], toy.SOURCE_WORDS, toy.TARGET_WORDS)[0].train()
    ours = copy.deepcopy(own)
    lighten(ours)
    assert not any(type(module) is FairseqDropout for module in ours.modules())
    read: list[Any] = []
    attention = MultiheadAttention.forward

    def watched(self: MultiheadAttention, **inputs: Any) -> Any:
        read.append(inputs)
        return attention(self, **inputs)

    monkeypatch.setattr(MultiheadAttention, "forward", watched)
    found = []
    for model in (own, ours):
        torch.manual_seed(4)  # of quantisation noise
        read.clear()
        source, before = torch.tensor([[4, 5, 6, 2], [7, 8, 2, 1]]), torch.tensor([[2, 4, 5], [2, 6, 1]])
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            logits, _ = model(source, torch.tensor([4, 3]), before)
        logits.float().logsumexp(-1).sum().backward()
        found.append([logits, *(p.grad for p in model.parameters() if p.grad is not None)])
    dtype = torch.bfloat16 if narrow else torch.float32
    assert {k["query"].dtype for k in read} == {k["key"].dtype for k in read} == {dtype}
    assert all(k["key"] is k["value"] for k in read)
    assert torch.equal(found[0][0], found[1][0])
    # gradients of what queries, keys and values share are added up in the narrow type
    torch.testing.assert_close(found[1], found[0], rtol=0.02 if narrow else 0, atol=0.02 if narrow else 0)
