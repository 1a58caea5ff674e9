"""Attention between words against loops over pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.analysis.maps import SPECIAL, Tokens, between_words


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
