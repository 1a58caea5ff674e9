"""Norms against weights, compared with loops over every pair of pieces."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from align.analysis.mixing import ALL, FACTORS, Sample, categories, measure
from align.core.types import Pair
from tests.analysis.made import MadeModel, random_maps, tokens

SENTENCES = [tokens("das Haus ist ##t alt , </s>"), tokens("wir sehen . </s>"), tokens("[CLS] gut . [SEP]")]
PAIRS = [Pair(("a",), ("b",), n) for n in (1, 2, 3)]


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_against_loops(part: str) -> None:
    maps = [random_maps(one, one, seed=n) for n, one in enumerate(SENTENCES)]
    model = MadeModel([{part: one} for one in maps])  # type: ignore[dict-item]
    found = measure(model, PAIRS, [part])[part]  # type: ignore[index, list-item]
    values: dict[tuple[str, str], list[float]] = {}
    pieces: dict[tuple[str, str], list[float]] = {}
    for one in maps:
        kinds = categories(one.columns)
        for s, piece in enumerate(one.columns.pieces):
            seen: dict[str, list[float]] = {factor: [] for factor in FACTORS}
            for t in range(s if part == "decoder" else 0, len(one.rows)):
                for layer, head in np.ndindex(2, 3):
                    a, f = float(one.weights[layer, head, t, s]), float(one.vectors[layer, head, s])
                    for factor, value in zip(FACTORS, (a, f, a * f), strict=True):
                        values.setdefault((kinds[s], factor), []).append(value)
                        seen[factor].append(value)
            for factor in FACTORS:
                pieces.setdefault((piece, factor), []).append(float(np.mean(seen[factor])))
    for (kind, factor), expected in values.items():
        assert found.means(kind)[FACTORS.index(factor)].mean() == pytest.approx(np.mean(expected))
        everything = [value for (_, of), some in values.items() if of == factor for value in some]
        mean, deviation = np.mean(everything), np.std(everything)
        spread = mean, deviation, deviation / mean, min(everything), max(everything)
        assert found.spread(factor) == pytest.approx(spread)
        weights, vectors = values[kind, "weight"], values[kind, "vector"]
        assert found.correlation(kind) == pytest.approx(spearmanr(weights, vectors).statistic)
        counts = Counter(piece for one in SENTENCES for piece in one.pieces)
        ranks, means = [-counts[p] for p in counts], [np.mean(pieces[p, factor]) for p in counts]
        assert found.rank_correlation(factor) == pytest.approx(spearmanr(ranks, means).statistic)
    np.testing.assert_allclose(sum(found.shares(kind) for kind in found.pairs), np.ones((3, 2, 3)))
    assert len(found.samples[ALL].items) == sum(len(some) for (_, factor), some in values.items() if factor == "norm")


def test_kinds_of_pieces() -> None:
    assert categories(tokens("Haus , ##, </s> [CLS] .")) == ["rest", ". and ,", ". and ,", "</s>", "[CLS]", ". and ,"]


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 50))
def test_a_sample_holds_no_more_than_its_size_and_nothing_foreign(lengths: list[int], size: int) -> None:
    sample = Sample(size, seed=1)
    for n, length in enumerate(lengths):
        sample.add(np.column_stack((np.full(length, n), np.arange(length))).astype(float))
    assert len(sample.items) == min(size, sum(lengths))
    assert len({tuple(item) for item in sample.items}) == len(sample.items)
    assert all(item[1] < lengths[int(item[0])] for item in sample.items)


def test_a_sample_is_fair() -> None:
    counts = np.zeros(20)
    for seed in range(2000):
        sample = Sample(5, seed)
        for begin, end in ((0, 4), (4, 12), (12, 20)):
            sample.add(np.column_stack((np.arange(begin, end), np.zeros(end - begin))).astype(float))
        counts[sample.items[:, 0].astype(int)] += 1
    assert counts.sum() == 10_000
    assert (abs(counts - 500) < 5 * np.sqrt(500)).all()
