"""Shares of what is right: of the best of many ways, chosen on one half and scored on the other, with intervals.

Letters: N sentences, C candidates, R samples of the bootstrap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Counts = NDArray[np.int64]

SAMPLES = 1000


class Share(NamedTuple):
    """A share from 0 to 1, and its 95 % interval; NaN where there is nothing to have a share of."""

    value: float
    low: float
    high: float


class Draws:
    """The bootstrap: sentences drawn with replacement, the same ones for all shares that are compared.

    Args:
        sentences: N.
        seed: of the draws.
        samples: R.
    """

    def __init__(self, sentences: int, seed: int, samples: int = SAMPLES) -> None:
        shares = np.full(sentences, 1 / max(1, sentences))
        times = np.random.default_rng(seed).multinomial(sentences, shares, samples)
        self._times = times.astype(np.float32)  # [R, N], exact as far as it counts, and in half of the memory

    def share(self, right: Counts, total: Counts) -> Share:
        """What share is right.

        Args:
            right: how much is right in each sentence `[N]`, or how much more than another way has right.
            total: of how much `[N]`.
        """
        with np.errstate(invalid="ignore"):
            value = float(np.sum(right) / np.sum(total))
            drawn = (self._times @ right.astype(np.float32)) / (self._times @ total.astype(np.float32))  # [R]
        drawn = drawn[np.isfinite(drawn)]
        low, high = np.percentile(drawn, (2.5, 97.5)) if len(drawn) else (np.nan, np.nan)
        return Share(value, float(low), float(high))


class Chosen(NamedTuple):
    """The best of C candidates on each half, and what it has right in the sentences of the other.

    Attributes:
        candidates: chosen on the first and on the second half.
        right: how much is right in each sentence `[N]`.
    """

    candidates: tuple[int, int]
    right: Counts


def halve(sentences: int, seed: int) -> NDArray[np.bool_]:
    """Split N sentences at random: which are of the second half `[N]`."""
    half: NDArray[np.bool_] = np.random.default_rng(seed).permutation(sentences) % 2 == 1
    return half


def choose(right: Counts, second: NDArray[np.bool_]) -> Chosen:
    """Choose a candidate on each half, the first of equally good ones, and score it on the other.

    Args:
        right: how much each candidate has right in each sentence `[N, C]`.
        second: which sentences are of the second half `[N]`.
    """
    candidates = int(right[~second].sum(0).argmax()), int(right[second].sum(0).argmax())
    return Chosen(candidates, np.where(second, right[:, candidates[0]], right[:, candidates[1]]))


def folds(sentences: int, count: int, seed: int) -> Counts:
    """Split N sentences at random: the fold of each, from 0 `[N]`."""
    numbers: Counts = np.random.default_rng(seed).permutation(sentences) % count
    return numbers
