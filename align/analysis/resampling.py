"""Accuracy of the best of many candidates, chosen on one half and scored on the other, with bootstrap intervals.

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
    """A share from 0 to 1 with its 95 % interval; NaN where the total is 0."""

    value: float
    low: float
    high: float


class Draws:
    """Bootstrap samples of sentences, the same for all shares that are compared.

    Args:
        sentences: number N of sentences.
        seed: seed of the samples.
        samples: number R of samples.
    """

    def __init__(self, sentences: int, seed: int, samples: int = SAMPLES) -> None:
        shares = np.full(sentences, 1 / max(1, sentences))
        times = np.random.default_rng(seed).multinomial(sentences, shares, samples)
        self._times = times.astype(np.float32)  # [R, N], exact as far as it counts, and in half of the memory

    def share(self, right: Counts, total: Counts) -> Share:
        """Return a share with its interval.

        Args:
            right: count of right answers in each sentence `[N]`, or its difference from another method's count.
            total: count of all answers in each sentence `[N]`.
        """
        with np.errstate(invalid="ignore"):
            value = float(np.sum(right) / np.sum(total))
            drawn = (self._times @ right.astype(np.float32)) / (self._times @ total.astype(np.float32))  # [R]
        drawn = drawn[np.isfinite(drawn)]
        low, high = np.percentile(drawn, (2.5, 97.5)) if len(drawn) else (np.nan, np.nan)
        return Share(value, float(low), float(high))


class Chosen(NamedTuple):
    """The best of C candidates on each half, and its right answers in the other half.

    Attributes:
        candidates: chosen on the first and on the second half.
        right: count of right answers in each sentence `[N]`.
    """

    candidates: tuple[int, int]
    right: Counts


def halve(sentences: int, seed: int) -> NDArray[np.bool_]:
    """Split N sentences at random; return which are in the second half `[N]`."""
    half: NDArray[np.bool_] = np.random.default_rng(seed).permutation(sentences) % 2 == 1
    return half


def choose(right: Counts, second: NDArray[np.bool_]) -> Chosen:
    """Choose the best candidate on each half, the first on ties, and score it on the other half.

    Args:
        right: count of right answers of each candidate in each sentence `[N, C]`.
        second: which sentences are in the second half `[N]`.
    """
    candidates = int(right[~second].sum(0).argmax()), int(right[second].sum(0).argmax())
    return Chosen(candidates, np.where(second, right[:, candidates[0]], right[:, candidates[1]]))


def folds(sentences: int, count: int, seed: int) -> Counts:
    """Split N sentences at random; return the fold of each, from 0 `[N]`."""
    numbers: Counts = np.random.default_rng(seed).permutation(sentences) % count
    return numbers
