"""Attention between words against loops over pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.analysis.maps import SPECIAL, Tokens, between_words, has_piece


def tokens(words: list[int], count: int) -> Tokens:
    return Tokens(tuple(f"p{n}" for n in range(len(words))), tuple(words), tuple(f"w{n}" for n in range(count)))


sides = st.lists(st.integers(SPECIAL, 4), min_size=1, max_size=9).map(lambda words: tokens(words, 5))


@given(sides, sides, st.integers(0, 99))
def test_sums_to_and_means_from_words_as_loops_make_them(rows: Tokens, columns: Tokens, seed: int) -> None:
    values = np.random.default_rng(seed).random((2, 3, len(rows), len(columns)), dtype=np.float32)
    found = between_words(values, rows, columns)
    for layer, head in np.ndindex(2, 3):
        for j in range(5):
            attending = [t for t, word in enumerate(rows.words) if word == j]
            for i in range(5):
                attended = [s for s, word in enumerate(columns.words) if word == i]
                sums = [sum(values[layer, head, t, s] for s in attended) for t in attending]
                mean = sum(sums) / len(sums) if sums else 0.0
                assert found[layer, head, j, i] == pytest.approx(mean, abs=1e-5)


def test_rows_of_weights_sum_to_what_goes_to_words() -> None:
    side = tokens([SPECIAL, 0, 0, 1, 3, SPECIAL], 4)
    weights = np.random.default_rng(1).dirichlet(np.ones(6), (1, 2, 6)).astype(np.float32)
    words = between_words(weights, side, side)
    expected = weights[..., [1, 2, 3, 4], 1:5].sum(-1)  # of the pieces of words
    np.testing.assert_allclose(words[..., 0, :].sum(-1), expected[..., :2].mean(-1), rtol=1e-5)
    np.testing.assert_allclose(words[..., [1, 3], :].sum(-1), expected[..., 2:], rtol=1e-5)
    assert not words[..., 2, :].any()
    assert list(has_piece(side)) == [True, True, False, True]
