"""Shares of the best way, chosen on one half and scored on the other, and their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from align.analysis.resampling import Draws, choose, folds, halve


def test_a_share_and_its_interval_are_those_of_resampled_sentences() -> None:
    numbers = np.random.default_rng(3)
    total = numbers.integers(1, 9, 40)
    right = numbers.binomial(total, 0.4)
    found = Draws(40, seed=1, samples=2000).share(right, total)
    drawn = numbers.integers(0, 40, (4000, 40))
    expected = right[drawn].sum(1) / total[drawn].sum(1)
    assert found[0] == 100 * right.sum() / total.sum()
    assert found[1] == pytest.approx(100 * np.percentile(expected, (2.5, 97.5)), abs=1)
    assert found == Draws(40, seed=1, samples=2000).share(right, total)


def test_there_is_no_share_of_nothing() -> None:
    assert Draws(3, seed=1).share(np.zeros(3, int), np.zeros(3, int)) == (None, None)


def test_what_is_best_on_one_half_is_scored_on_the_other() -> None:
    second = np.array([False, False, True, True])
    right = np.array([[3, 1], [3, 0], [0, 2], [1, 2]])
    candidates, found = choose(right, second)
    assert candidates == (0, 1)
    assert list(found) == [1, 0, 0, 1]


def test_the_first_of_equally_good_ways_is_chosen() -> None:
    assert choose(np.ones((4, 3), int), halve(4, 1))[0] == (0, 0)


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_halves_and_folds_are_as_even_as_they_can_be(count: int) -> None:
    assert halve(count, 5).sum() == count // 2
    sizes = np.bincount(folds(count, 5, 5), minlength=5)
    assert sizes.max() - sizes.min() <= 1
