"""The tables of a sweep, of models with more heads than a terminal has room for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from align.core.types import Cell, Head
from align.evaluation.sweep import POSITIONS, SCORES, Sweep
from align.evaluation.tables import WIDTH
from align.view.sweep_tables import MAX_HEADS, cell_table, report


def swept(layers: int, heads: int, gold: bool, reverse: bool) -> Sweep:
    """A sweep of random numbers."""
    names: list[Head] = ["all", *range(1, heads + 1)]
    cells = [Cell(layer, head) for layer in range(1, layers + 1) for head in names]
    shape = (len(SCORES), len(POSITIONS), len(cells))
    random = np.random.default_rng(1)
    in_possible = random.integers(0, 30, (20, *shape))
    counts = np.stack([in_possible // 2, in_possible, np.full_like(in_possible, 30), np.full_like(in_possible, 20)], -1)
    return Sweep(
        cells=cells,
        reverse_cells=cells if reverse else [],
        counts=counts if gold else None,
        target_words=1_000,
        null=random.integers(0, 1_000, shape),
        norm=random.random(shape[1:]),
        consistency=random.random(shape),
        dice=random.random((*shape, len(cells) if reverse else 0)),
        pairs=20,
        skipped=0,
    )


@pytest.mark.parametrize("heads", [1, MAX_HEADS, MAX_HEADS + 1, 16])
@pytest.mark.parametrize("gold", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
def test_all_tables_fit_a_terminal(heads: int, gold: bool, reverse: bool) -> None:
    found = swept(12, heads, gold, reverse)
    lines = report(found, "sign").split("\n")
    assert max(map(len, lines)) <= WIDTH
    assert lines[-1] == "sign"
    assert lines[-2].startswith("best WITH gold: score=" if gold else "best without gold: score=")
    assert ("each head by itself: wide" in lines) == (heads > MAX_HEADS)
    assert any(f"head {heads}" in line for line in report(found, "sign", wide=True).split("\n"))


def test_what_is_not_defined_is_never_the_best() -> None:
    found = swept(2, 2, gold=True, reverse=False)
    assert found.counts is not None
    empty = replace(found, counts=np.zeros_like(found.counts))
    rows = cell_table(empty, complete=True, named=True).rows
    assert {row["best"] for row in rows} == {""}
    assert {row[f"head_{head}"] for row in rows for head in ("all", 1, 2)} == {None}
