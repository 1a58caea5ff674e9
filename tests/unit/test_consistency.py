"""Lexical consistency on cases that can be counted by hand."""

from math import log

import numpy as np
import pytest

from align.core.consistency import LinkedWords, lexical_consistency, number_words
from align.core.types import Pair


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_counted_by_hand() -> None:
    # links: (0,0) x3, (0,1), (1,1) x2; c(s): 0 -> 4, 1 -> 2; c(t): 0 -> 3, 1 -> 3; n = 6
    source, target = numbers(0, 0, 0, 0, 1, 1), numbers(0, 0, 0, 1, 1, 1)
    expected = 3 * log((3 - 1) * 6 / ((4 - 1) * (3 - 1))) + 2 * log((2 - 1) * 6 / ((2 - 1) * (3 - 1)))
    assert lexical_consistency(source, target, 10) == pytest.approx(expected / 10)


def test_linked_words_are_counted_over_pairs_in_every_way_at_once() -> None:
    linked = LinkedWords((2,))
    linked.add(Pair(("a", "b"), ("x", "y", "z"), 1), np.array([[0, 1, -1, 7], [-1, -1, -1, 7]]))  # padded by one
    linked.add(Pair(("B", "a"), ("x", "y"), 2), np.array([[1, 0], [-1, 1]]))
    by_hand = lexical_consistency(numbers(0, 1, 0, 1), numbers(0, 1, 0, 1), 5)
    assert linked.consistency().tolist() == [by_hand, lexical_consistency(numbers(0), numbers(1), 5)]
    assert LinkedWords((2, 3)).consistency().tolist() == [[0.0] * 3] * 2


def test_words_count_as_the_same_in_any_spelling() -> None:
    spellings = ["Haus", "HAUS", "Ha\u00adus", "T\u00fcr", "Tu\u0308r", "\u09a8\u09df", "\u09a8\u09af\u09bc"]
    assert number_words(spellings, {}).tolist() == [0, 0, 0, 1, 1, 2, 2]
