"""Evaluate from Python: one call from links to scores, intervals and tests."""

from __future__ import annotations

from align import __version__, evaluate, parse_marked, parse_pharaoh
from align.evaluation.metrics import METRICS, compare, estimate
from align.io.signature import signature

GOLD = [parse_marked(line) for line in ("0-0 1p1 2-2", "0-0", "1-1 0-0")] * 20
ONE = [parse_pharaoh(line) for line in ("0-0 1-1", "0-0", "0-0 1-1")] * 20
TWO = [parse_pharaoh(line) for line in ("0-0 1-1 2-2", "0-1", "0-0 1-1")] * 20


def test_scores_with_intervals_and_a_paired_test() -> None:
    report = evaluate(GOLD, {"one": ONE, "two": TWO}, samples=200, seed=3, paired="permutation")
    one, two = report.systems
    assert (one.name, one.difference, two.name) == ("one", None, "two")
    for system in report.systems:
        assert system.scores == {name: estimate(system.counts, name, 200, 3) for name in METRICS}
    assert two.difference == compare(two.counts, one.counts, "permutation", samples=200, seed=3)
    expected: dict[str, str | int | None] = {"n": 60, "ci": "percentile-200", "seed": 3, "test": "permutation"}
    assert report.signature_parts() == expected
    assert signature(expected, "AER") == f"AER|n:60|ci:percentile-200|seed:3|test:permutation|v:{__version__}"


def test_intervals_only_where_they_are_wanted() -> None:
    (system,) = evaluate(GOLD, {"one": ONE}, samples=50, intervals=["aer"]).systems
    assert [name for name, score in system.scores.items() if score.low is not None] == ["aer"]
    report = evaluate(GOLD, [("one", ONE), ("one", ONE)], samples=0, paired="bootstrap")
    assert [score.low for system in report.systems for score in system.scores.values()] == [None] * 8
    assert report.systems[1].difference == (0.0, None)
    assert signature(report.signature_parts(), "AER") == f"AER|n:60|v:{__version__}"
