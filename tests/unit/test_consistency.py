"""Lexical consistency on cases that can be counted by hand."""

from math import log

import numpy as np
import pytest

from align.attention.consistency import Vocabulary, calibrate, lexical_consistency


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_counted_by_hand() -> None:
    # links: (0,0) x3, (0,1), (1,1) x2; c(s): 0 -> 4, 1 -> 2; c(t): 0 -> 3, 1 -> 3; n = 6
    source, target = numbers(0, 0, 0, 0, 1, 1), numbers(0, 0, 0, 1, 1, 1)
    expected = 3 * log((3 - 1) * 6 / ((4 - 1) * (3 - 1))) + 2 * log((2 - 1) * 6 / ((2 - 1) * (3 - 1)))
    assert lexical_consistency(source, target, 10) == pytest.approx(expected / 10)


def test_pairs_seen_once_and_no_links_add_nothing() -> None:
    assert lexical_consistency(numbers(0, 1, 2), numbers(0, 1, 2), 3) == 0
    assert lexical_consistency(numbers(), numbers(), 3) == 0


def test_repeating_links_beat_scattered_ones_and_order_does_not_matter() -> None:
    target = numbers(0, 1, 2, 0, 1, 2, 0, 1, 2)
    right, wrong = target, numbers(0, 1, 2, 1, 2, 0, 2, 0, 1)
    assert lexical_consistency(right, target, 9) > lexical_consistency(wrong, target, 9)
    shuffle = np.random.default_rng(0).permutation(9)
    assert lexical_consistency(right[shuffle], target[shuffle], 9) == pytest.approx(
        lexical_consistency(right, target, 9)
    )


def test_everything_on_one_word_is_not_consistent() -> None:
    target = numbers(0, 1, 2, 0, 1, 2)
    assert lexical_consistency(numbers(0, 0, 0, 0, 0, 0), target, 6) < lexical_consistency(target, target, 6)


def test_choice_is_the_most_consistent_and_of_equals_the_first() -> None:
    target = numbers(0, 1, 0, 1)
    right, wrong = (target, target), (numbers(0, 1, 2, 3), target)
    assert calibrate({"wrong": wrong, "right": right, "also right": right}, 4) == "right"
    with pytest.raises(ValueError, match="no layer or head"):
        calibrate({}, 4)


def test_vocabulary_ignores_case() -> None:
    vocabulary = Vocabulary()
    assert vocabulary.numbers(["Haus", "haus", "HAUS", "und"]).tolist() == [0, 0, 0, 1]
    assert vocabulary.numbers(["und"]).tolist() == [1]
