"""The adversary's loss, how far models are apart, and the safe point."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy, spearmanr
from torch import Tensor

from align.analysis.adversary.losses import (
    DIVERGENCES,
    Distance,
    Sentence,
    adversarial_loss,
    distance,
    log_js,
    log_kl,
    rank_correlation,
    safe_point,
)
from align.analysis.adversary.tagger import NEVER

DRAW = np.random.default_rng(1)
P, Q = DRAW.dirichlet(np.ones(5), (6, 2)), DRAW.dirichlet(np.ones(5), (6, 2))


def logs(shape: tuple[int, ...], seed: int) -> Tensor:
    """Logarithms of distributions at random, the last column of which is a pad."""
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    scores[..., -1] = NEVER
    return scores.log_softmax(-1)


def test_divergences_as_scipy() -> None:
    p, q = torch.from_numpy(P).log(), torch.from_numpy(Q).log()
    np.testing.assert_allclose(log_kl(p, q), entropy(P, Q, axis=-1), rtol=1e-12)
    np.testing.assert_allclose(log_js(p, q), jensenshannon(P, Q, axis=-1) ** 2, rtol=1e-10)


def test_divergence_of_pads_and_of_what_never_meets() -> None:
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


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_gradient_by_finite_differences(divergence: str) -> None:
    original, other = logs((3, 4), 1), logs((3, 2, 5), 2)
    tags = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    scores = torch.randn(3, 2, 5, dtype=torch.float64)
    scores[..., -1] = NEVER
    scores.requires_grad_()

    def loss(tags: Tensor, scores: Tensor) -> Tensor:
        return adversarial_loss(tags.log_softmax(-1), original, scores.log_softmax(-1), other, 0.5, divergence)

    assert torch.autograd.gradcheck(loss, (tags, scores))
    torch.autograd.backward(loss(tags, scores))
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()


def test_distance_against_loops() -> None:
    sentences = [
        [Sentence(DRAW.dirichlet(np.ones(3), t), DRAW.dirichlet(np.ones(t), (2, t))) for t in (4, 5)] for _ in range(2)
    ]
    found = distance(*sentences)
    js, tvd, ranks = [], [], []
    for a, b in zip(*sentences, strict=True):
        tvd += [np.maximum(p - q, 0).sum() for p, q in zip(a.logits, b.logits, strict=True)]
        for h in range(2):
            for p, q in zip(a.attention[h], b.attention[h], strict=True):
                js.append(jensenshannon(p, q) ** 2)
                ranks.append(spearmanr(p, q).statistic)
    assert found.tvd == pytest.approx(np.mean(tvd))
    assert found.js == pytest.approx(np.mean(js))
    assert found.heads.mean() == pytest.approx(found.js)
    assert found.ranks == pytest.approx(np.mean(ranks))
    assert found.matched <= found.js


def test_heads_that_only_changed_places_have_not_moved() -> None:
    one = [Sentence(DRAW.dirichlet(np.ones(3), 4), DRAW.dirichlet(np.ones(4), (3, 4))) for _ in range(2)]
    turned = [Sentence(sentence.logits, sentence.attention[[2, 0, 1]]) for sentence in one]
    found = distance(one, turned)
    assert found.js > 0.05
    assert (found.matched, found.tvd) == (pytest.approx(0, abs=1e-9), 0)


def test_ranks_of_what_is_all_the_same() -> None:
    rows, same = np.array([[0.5, 0.2, 0.3]] * 2), np.full((2, 3), 1 / 3)
    assert np.isnan(rank_correlation(rows, same)).all()
    assert rank_correlation(rows, rows[:, [0, 1, 2]]).tolist() == pytest.approx([1, 1])
    assert rank_correlation(rows, 1 - rows).tolist() == pytest.approx([-1, -1])
    assert np.isnan(distance([Sentence(rows, rows[None])], [Sentence(rows, same[None])]).ranks)


def test_safe_point() -> None:
    points = [
        Distance(tvd, js, js, 0.0, np.array([js])) for tvd, js in ((0.01, 0.1), (0.05, 0.4), (0.04, 0.3), (0.5, 0.6))
    ]
    assert safe_point(points, 0.05) == 1
    assert safe_point(points, 0.04) == 2
    assert safe_point(points, 0.001) is None
    assert safe_point([], 1) is None
