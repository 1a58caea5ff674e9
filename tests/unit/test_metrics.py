"""Scores against a naive reading of their definitions, and resampling against plain loops."""

from __future__ import annotations

from itertools import product
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from align import __version__, evaluate
from align.core.types import Gold, Links
from align.evaluation.link_formats import make_gold
from align.evaluation.metrics import METRICS, Counts, Test, aer, compare, count_all, estimate, worst
from align.io.signature import signature

TESTS = get_args(Test)

indices = st.integers(0, 5)
some_links = st.frozensets(st.tuples(indices, indices), max_size=12)
some_gold = st.builds(make_gold, some_links, some_links)
corpora = st.lists(st.tuples(some_links, some_gold), max_size=6)


def counted(corpus: list[tuple[Links, Gold]]) -> Counts:
    return count_all([links for links, _ in corpus], [gold for _, gold in corpus])


def random_counts(seed: int, sentences: int = 40, right: float = 0.7) -> Counts:
    """Counts of a system that finds a share of the gold links."""
    numbers = np.random.default_rng(seed)
    sure, possible = numbers.integers(1, 10, sentences), numbers.integers(0, 5, sentences)
    in_sure, in_possible = numbers.binomial(sure, right), numbers.binomial(possible, right)
    wrong = numbers.integers(0, 4, sentences)
    found = in_sure + in_possible
    return np.stack((in_sure, found, found + wrong, sure), 1)


def naive(corpus: list[tuple[Links, Gold]]) -> dict[str, float | None]:
    """Link by link, and no score where a divisor is 0."""
    in_sure = in_possible = links = sure = 0
    for hypothesis, gold in corpus:
        sure += len(gold.sure)
        for link in hypothesis:
            links += 1
            in_sure += link in gold.sure
            in_possible += link in gold.possible
    p = in_possible / links if links else None
    r = in_sure / sure if sure else None
    return {
        "aer": 1 - (in_sure + in_possible) / (links + sure) if links + sure else None,
        "precision": p,
        "recall": r,
        "f1": 2 * p * r / (p + r) if p is not None and r is not None and p + r else None,
    }


# Scores


@given(corpora)
def test_scores_are_those_of_the_definitions(corpus: list[tuple[Links, Gold]]) -> None:
    counts = counted(corpus)
    for metric, expected in naive(corpus).items():
        assert estimate(counts, metric, samples=0).value == (None if expected is None else pytest.approx(expected))


def test_the_worst_sentences_come_first() -> None:
    counts = np.array([[2, 2, 2, 2], [1, 1, 2, 2], [0, 0, 9, 1], [1, 2, 3, 2], [0, 0, 0, 1]])
    assert worst(counts, 10) == [2, 1, 3, 4]
    assert worst(counts, 2) == [2, 1]


# Never NaN

NOTHING = (0, 0, 0, 0)
EDGES = {
    "no sentence": [],
    "one sentence": [(1, 1, 2, 2)],
    "one sentence of nothing": [NOTHING],
    "nothing at all": [NOTHING] * 5,
    "no hypothesis": [(0, 0, 0, 2)] * 5,
    "no sure links": [(0, 1, 2, 0)] * 5,
    "no gold": [(0, 0, 2, 0)] * 5,
    "all wrong": [(0, 0, 2, 2)] * 5,
    "all right": [(2, 2, 2, 2)] * 5,
    "mostly nothing": [NOTHING] * 9 + [(1, 1, 2, 2)],
}

DEGENERATE = pytest.mark.filterwarnings("ignore:The BCa confidence interval")  # scipy's words, for any method


@DEGENERATE
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", EDGES)
def test_what_is_not_defined_is_none(name: str, metric: str) -> None:
    counts = np.array(EDGES[name], dtype=np.int64).reshape(-1, 4)
    other = np.array([NOTHING] * len(counts), dtype=np.int64).reshape(-1, 4)
    found = [*estimate(counts, metric, samples=50)]
    for test, first in product(TESTS, (counts, other)):
        found += compare(counts, first, test, metric, samples=50)
        found += compare(first, counts, test, metric, samples=50)
    assert all(value is None or (type(value) is float and -1 <= value <= 1) for value in found)


# Intervals


@pytest.mark.parametrize("metric", METRICS)
def test_the_interval_is_that_of_a_plain_loop(metric: str) -> None:
    counts, seed, samples = random_counts(2), 7, 200
    numbers = np.random.default_rng(seed)
    scores = []
    for _ in range(samples):
        drawn = numbers.integers(0, len(counts), len(counts))
        total = sum(counts[n] for n in drawn)
        scores.append(float(METRICS[metric](total)))
    expected = np.percentile(scores, [2.5, 97.5])
    assert estimate(counts, metric, samples, seed)[1:] == pytest.approx(expected)


# Paired tests


def test_bootstrap_p_is_that_of_a_plain_loop() -> None:
    system, first, seed, samples = random_counts(8), random_counts(9), 3, 300
    numbers = np.random.default_rng(seed)
    deltas = []
    for _ in range(samples):
        drawn = numbers.integers(0, len(system), len(system))
        deltas.append(float(aer(system[drawn].sum(0)) - aer(first[drawn].sum(0))))
    difference = float(aer(system.sum(0)) - aer(first.sum(0)))
    extreme = sum(abs(delta - np.mean(deltas)) >= abs(difference) for delta in deltas)
    assert compare(system, first, "bootstrap", samples=samples, seed=seed) == (
        pytest.approx(difference),
        pytest.approx((extreme + 1) / (samples + 1)),
    )


def test_permutation_p_is_that_of_all_swaps_where_they_are_few() -> None:
    system, first = random_counts(10, 8), random_counts(11, 8)
    difference = float(aer(system.sum(0)) - aer(first.sum(0)))
    extreme = 0
    for swaps in product((False, True), repeat=8):
        swapped = np.array(swaps)[:, None]
        delta = aer(np.where(swapped, first, system).sum(0)) - aer(np.where(swapped, system, first).sum(0))
        extreme += abs(float(delta)) >= abs(difference) - 1e-12
    assert compare(system, first, "permutation")[1] == pytest.approx(extreme / 2**8)


# All of it from Python


def test_intervals_and_tests_only_where_they_are_wanted() -> None:
    gold, links = [make_gold([(0, 0), (2, 2)], [(1, 1)])] * 20, [frozenset({(0, 0), (1, 1)})] * 20
    (system,) = evaluate(gold, {"one": links}, samples=50, intervals=["aer"]).systems
    assert [name for name, score in system.scores.items() if score.low is not None] == ["aer"]
    report = evaluate(gold, [("one", links), ("one", links)], samples=0, paired="bootstrap")
    assert [score.low for system in report.systems for score in system.scores.values()] == [None] * 8
    assert [system.difference for system in report.systems] == [None, (0.0, None)]
    assert signature(report.signature_parts(), "AER") == f"AER|n:20|v:{__version__}"
