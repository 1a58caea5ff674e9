"""Patterns of maps that are made to have one, scores against loops, and shares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.analysis.maps import Maps
from align.analysis.patterns import (
    BLOCK,
    BOTH,
    DIAGONAL,
    HETEROGENEOUS,
    PATTERNS,
    VERTICAL,
    name,
    patterns,
    score,
    segments_of,
)
from align.core.errors import DataError
from align.core.types import Pair
from align.evaluation.tables import Interval
from tests.analysis.made import MadeModel, random_maps, tokens

SIZE = 20
EVEN = np.full((SIZE, SIZE), 1 / SIZE)
STRIPES = np.tile(np.eye(SIZE)[[3]] * 0.6 + np.eye(SIZE)[[19]] * 0.4, (SIZE, 1))
SEGMENTS = np.arange(SIZE) // (SIZE // 2)
BLOCKS = (SEGMENTS[:, None] == SEGMENTS) / (SIZE / 2)
SHAPES = {
    "first column": (np.tile(np.eye(SIZE)[0], (SIZE, 1)), VERTICAL),
    "two columns": (STRIPES, VERTICAL),
    "itself": (np.eye(SIZE), DIAGONAL),
    "before": (np.eye(SIZE, k=-1) + np.eye(SIZE)[[0]].T @ np.eye(SIZE)[[0]], DIAGONAL),
    "two behind": (np.roll(np.eye(SIZE), 2, axis=1), DIAGONAL),
    "before and behind": ((np.eye(SIZE, k=-1) + np.eye(SIZE, k=1)) / 2, DIAGONAL),
    "columns and diagonal": ((STRIPES + np.eye(SIZE)) / 2, BOTH),
    "own segment": (BLOCKS, BLOCK),
    "everywhere": (EVEN, HETEROGENEOUS),
    "backwards": (np.eye(SIZE)[::-1], HETEROGENEOUS),
    "five behind": (np.roll(np.eye(SIZE), 5, axis=1), HETEROGENEOUS),
}
EVERYTHING = np.ones((SIZE, SIZE), bool)


def heads(*maps: Any) -> Any:
    """Maps of one layer."""
    return np.stack(maps)[None].astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_maps_are_called_what_they_are_made_to_be(shape: str, noise: float) -> None:
    drawn = np.random.default_rng(1).dirichlet(np.ones(SIZE), SIZE)
    made, expected = SHAPES[shape]
    found = name(score(heads((1 - noise) * made + noise * drawn), EVERYTHING, SEGMENTS))
    assert PATTERNS[found[0, 0]] == PATTERNS[expected]
    if shape == "own segment":
        assert name(score(heads(made), EVERYTHING)) == HETEROGENEOUS  # of one segment


@given(st.integers(8, 25), st.integers(8, 25), st.booleans(), st.integers(0, 99))
def test_scores_against_loops(rows: int, columns: int, causal: bool, seed: int) -> None:
    columns = rows if causal else columns
    values = np.random.default_rng(seed).random((1, 1, rows, columns)).astype(np.float32)
    seen = np.tri(rows, columns) > 0 if causal else np.ones((rows, columns), bool)
    share = np.zeros((rows, columns))
    chance = np.zeros((rows, columns))
    for t in range(rows):
        there = [s for s in range(columns) if seen[t, s]]
        for s in there:
            share[t, s] = values[0, 0, t, s] / sum(float(values[0, 0, t, other]) for other in there)
            chance[t, s] = 1 / len(there)
    most = sorted(range(columns), key=lambda s: -share[:, s].sum())[: -(-columns // 10)]

    def above(cells: list[tuple[int, int]]) -> float:
        p, q = (sum(float(one[t, s]) for t, s in cells) / rows for one in (share, chance))
        return (p - q) / (1 - q)

    def near(centre: int) -> list[tuple[int, int]]:
        ratio = (columns - 1) / (rows - 1)
        return [(t, s) for t in range(rows) for s in range(columns) if abs(t * ratio + centre - s) <= 1]

    best = max((0, -1, 1, -2, 2), key=lambda centre: sum(share[t, s] for t, s in near(centre)))
    expected = (
        above([(t, s) for t in range(rows) for s in most]),
        above([cell for cell in near(best) if cell[1] not in most]),
    )
    assert score(values, seen)[:2, 0, 0] == pytest.approx(expected, abs=1e-5)


TEXT = tokens(" ".join(f"w{n}" for n in range(SIZE - 1)) + " </s>")


def made(values: Any) -> Maps:
    """Maps of one layer whose weights are given, and whose norms are the opposite: even."""
    maps = random_maps(TEXT, TEXT, (1, len(values)))
    return replace(maps, weights=heads(*values), vectors=np.ones((1, len(values), SIZE), np.float32))


def test_shares_by_head_and_part() -> None:
    shapes = [SHAPES["first column"][0], SHAPES["itself"][0]]
    other = [SHAPES["first column"][0], SHAPES["backwards"][0]]
    model = MadeModel([{"encoder": made(shapes)}, {"encoder": made(other)}], (1, 2))
    finding = patterns(model, [Pair(("a",), (), n) for n in (1, 2)], ["encoder"])
    rows = {(row["head"], row["measure"]): row for row in finding.tables["heads"].rows}
    assert rows[1, "a"]["vertical"] == 100
    assert (rows[2, "a"]["diagonal"], rows[2, "a"]["heterogeneous"]) == (50, 50)
    (row, _) = finding.tables["parts"].rows
    assert (row["vertical"], row["diagonal"], row["heterogeneous"], row["texts"]) == (50, 25, 25, 2)
    assert row["diagonal interval"] == Interval(0, 50)
    assert [row["vertical"] for row in finding.tables["layers"].rows] == [50, 50]


def test_segments_of_pairs_that_one_encoder_reads() -> None:
    both = tokens("[CLS] gut ##en tag [SEP] good day [SEP]")
    found = segments_of(both, Pair(("guten", "tag"), ("good", "day"), 1))
    assert found is not None
    assert list(found) == [0, 0, 0, 0, 0, 1, 1, 1]
    assert segments_of(tokens("guten tag </s>"), Pair(("guten", "tag"), ("good", "day"), 1)) is None
    assert segments_of(both, Pair(("guten", "tag", "good", "day"), (), 1)) is None


def test_texts_that_are_too_short_are_left_out_and_counted() -> None:
    short = tokens("a b c </s>")
    few = random_maps(short, short, (1, 1))
    pairs = [Pair(("a",), (), 1), Pair(("b",), (), 2)]
    finding = patterns(MadeModel([{"encoder": few}, {"encoder": made([EVEN])}], (1, 1)), pairs, ["encoder"])
    assert "1 text left out" in finding.tables["parts"].notes[1]
    with pytest.raises(DataError, match="no line of 8 pieces or more"):
        patterns(MadeModel([{"encoder": few}] * 2, (1, 1)), pairs, ["encoder"])
