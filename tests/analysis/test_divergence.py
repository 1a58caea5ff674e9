"""KL, Jensen-Shannon divergence and total variation distance against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from align.analysis.similarity import js, kl, tvd

DRAW = np.random.default_rng(1)
P, Q = DRAW.dirichlet(np.full(7, 0.3), (3, 50)), DRAW.dirichlet(np.ones(7), (3, 50))


def test_as_scipy() -> None:
    np.testing.assert_allclose(kl(P, Q), entropy(P, Q, axis=-1), rtol=1e-12)
    np.testing.assert_allclose(js(P, Q), jensenshannon(P, Q, axis=-1) ** 2, rtol=1e-10)
    np.testing.assert_allclose(tvd(P, Q), np.maximum(P - Q, 0).sum(-1), rtol=1e-12)
    assert js(P, Q).shape == (3, 50)


def test_ends() -> None:
    one, other, half = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]), np.array([0.5, 0.5, 0.0])
    assert (kl(one, one), js(one, one), tvd(one, one)) == (0, 0, 0)
    assert (kl(one, other), js(one, other), tvd(one, other)) == (np.inf, pytest.approx(np.log(2)), 1)
    assert (kl(one, half), kl(half, one)) == (pytest.approx(np.log(2)), np.inf)


def test_narrow_numbers() -> None:
    """What float32 rounds away makes no divergence less than 0."""
    p = P.astype(np.float32)
    assert (js(p, p) >= 0).all()
    assert js(p, P).max() < 1e-6
