"""The adversary's loss, how far models are apart, and the safe point."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy, spearmanr
from torch import Tensor

from align.analysis.adversary import DIVERGENCES, NEVER, adversarial_loss, distance, log_js, log_kl

DRAW = np.random.default_rng(1)


def logs(shape: tuple[int, ...], seed: int) -> Tensor:
    """Logarithms of distributions at random, the last column of which is a pad."""
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    scores[..., -1] = NEVER
    return scores.log_softmax(-1)


def test_divergences_of_pads_and_of_what_never_meets() -> None:
    p, q = logs((4, 3, 6), 1), logs((4, 3, 6), 2)
    np.testing.assert_allclose(log_js(p, q), log_js(p[..., :-1], q[..., :-1]))
    apart = torch.tensor([[0.0, NEVER], [NEVER, 0.0]])
    assert log_js(apart[0], apart[1]) == pytest.approx(math.log(2))
    assert torch.isfinite(log_kl(apart[0], apart[1]))


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_loss_by_hand(divergence: str) -> None:
    """Word by word and head by head, with scipy."""
    said, original, attention, other = logs((5, 4), 1), logs((5, 4), 2), logs((5, 3, 6), 3), logs((5, 3, 6), 4)
    total = 0.0
    for n in range(5):
        a, b = said[n].exp().numpy(), original[n].exp().numpy()
        likelihood = -sum(b[k] * math.log(a[k]) for k in range(3))
        away = []
        for h in range(3):
            p, q = (x[n, h].exp().numpy() for x in (attention, other))
            away.append(jensenshannon(p, q) ** 2 if divergence == "js" else entropy(p[:-1], q[:-1]))
        total += (likelihood - 0.7 * np.mean(away)) / 5
    found = adversarial_loss(said[:, :-1], original[:, :-1], attention, other, 0.7, divergence)
    assert float(found) == pytest.approx(total, rel=1e-9)


def test_distance_against_loops() -> None:
    sentences = [[(DRAW.dirichlet(np.ones(3), t), DRAW.dirichlet(np.ones(t), (2, t))) for t in (4, 5)] for _ in "ab"]
    found = distance(*sentences)
    js, tvd, ranks = [], [], []
    for (predicted, attention), (other_predicted, other_attention) in zip(*sentences, strict=True):
        tvd += [np.maximum(p - q, 0).sum() for p, q in zip(predicted, other_predicted, strict=True)]
        for p, q in zip(
            attention.reshape(-1, len(predicted)), other_attention.reshape(-1, len(predicted)), strict=True
        ):
            js.append(jensenshannon(p, q) ** 2)
            ranks.append(spearmanr(p, q).statistic)
    assert found[:2] == pytest.approx((np.mean(tvd), np.mean(js)))
    assert found.heads.mean() == pytest.approx(found.js)
    assert found.ranks == pytest.approx(np.mean(ranks))
    assert found.matched <= found.js


def test_heads_that_only_changed_places_have_not_moved() -> None:
    one = [(DRAW.dirichlet(np.ones(3), 4), DRAW.dirichlet(np.ones(4), (3, 4))) for _ in range(2)]
    found = distance(one, [(predicted, attention[[2, 0, 1]]) for predicted, attention in one])
    assert found.js > 0.05
    assert (found.matched, found.tvd) == (pytest.approx(0, abs=1e-9), 0)
