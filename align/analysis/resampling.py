"""Accuracy of the best of many candidates, chosen on one half and scored on the other, with bootstrap intervals.

Letters: N sentences, C candidates, R samples of the bootstrap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from align.analysis.maps import Counts, Mask
from align.evaluation.tables import Interval, percent

SAMPLES = 1000


def draw_times(items: int, samples: int, seed: int) -> Counts:
    """Return how often each of N items is in each bootstrap sample `[R, N]`."""
    return np.random.default_rng(seed).multinomial(items, np.full(items, 1 / max(1, items)), samples)


def middle(values: NDArray[Any]) -> Interval | None:
    """Return both ends of the middle 95 % of bootstrap values; None if all are NaN."""
    known = values[np.isfinite(values)]
    return Interval(*map(float, np.percentile(known, (2.5, 97.5)))) if len(known) else None


def percents(values: NDArray[Any]) -> Interval | None:
    """Return the middle of bootstrap values from 0 to 1, in percent."""
    ends = middle(values)
    return ends and Interval(100 * ends.low, 100 * ends.high)


class Draws:
    """Bootstrap samples of sentences, the same for all shares that are compared."""

    def __init__(self, sentences: int, seed: int, samples: int = SAMPLES) -> None:
        # exact as far as it counts, and in half of the memory
        self._times = draw_times(sentences, samples, seed).astype(np.float32)

    def share(self, right: Counts, total: Counts) -> tuple[float | None, Interval | None]:
        """Return a share with its interval, in percent; None where the total is 0.

        Args:
            right: count of right answers in each sentence `[N]`, or its difference from another method's count.
            total: count of all answers in each sentence `[N]`.
        """
        with np.errstate(invalid="ignore"):
            value = float(np.sum(right) / np.sum(total))
            drawn = (self._times @ right.astype(np.float32)) / (self._times @ total.astype(np.float32))  # [R]
        return percent(value), percents(drawn)


def halve(sentences: int, seed: int) -> Mask:
    """Split N sentences at random; return which are in the second half `[N]`."""
    half: Mask = folds(sentences, 2, seed) == 1
    return half


def choose(right: Counts, second: Mask) -> tuple[tuple[int, int], Counts]:
    """Choose the best candidate on each half, the first on ties, and score it on the other half.

    Args:
        right: count of right answers of each candidate in each sentence `[N, C]`.
        second: which sentences are in the second half `[N]`.

    Returns:
        The candidates of the first and of the second half, and right answers in each sentence `[N]`.
    """
    candidates = int(right[~second].sum(0).argmax()), int(right[second].sum(0).argmax())
    return candidates, np.where(second, right[:, candidates[0]], right[:, candidates[1]])


def folds(sentences: int, count: int, seed: int) -> Counts:
    """Split N sentences at random; return the fold of each, from 0 `[N]`."""
    numbers: Counts = np.random.default_rng(seed).permutation(sentences) % count
    return numbers
