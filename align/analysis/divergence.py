"""How far apart two distributions are, such as two rows of attention; all in nats, over the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def kl(p: NDArray[Any], q: NDArray[Any]) -> Doubles:
    """Kullback-Leibler divergence of p from q, `sum p log(p / q)`: 0 to infinity, `[..., S]` to `[...]`."""
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * (np.log(p) - np.log(q)), 0.0)
    divergence: Doubles = terms.sum(-1)
    return divergence


def js(p: NDArray[Any], q: NDArray[Any]) -> Doubles:
    """Jensen-Shannon divergence, the mean of either's KL from the mean of both: 0 to log 2, `[..., S]` to `[...]`."""
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    middle = (p + q) / 2
    divergence: Doubles = np.maximum(0.0, (kl(p, middle) + kl(q, middle)) / 2)
    return divergence


def tvd(p: NDArray[Any], q: NDArray[Any]) -> Doubles:
    """Total variation distance, half of the sum of differences: 0 to 1, `[..., S]` to `[...]`."""
    distance: Doubles = np.abs(np.asarray(p, np.float64) - np.asarray(q, np.float64)).sum(-1) / 2
    return distance
