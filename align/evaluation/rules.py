"""Compare rules that choose the cell to read without gold, and the choice by gold.

The rules: the layer with the largest mean norm (Kobayashi et al. 2020); lexical consistency
(`align.core.consistency`); and, with a model of the reverse direction, the pair of cells whose links agree most
(Dice), as SHIFT-ATT chooses its layer (Chen et al., EMNLP 2020).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.core.types import Position, Score
from align.evaluation.swept import POSITIONS, SCORES, Sweep


class RuleChoice(NamedTuple):
    """The choice of one rule for a score and a position: an index of `Sweep.cells`, and one of its `reverse_cells`."""

    score: Score
    position: Position
    rule: str
    gold: bool
    cell: int
    reverse_cell: int | None = None


def _best(values: NDArray[np.float64], allowed: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the index of the largest allowed value; the first among equals."""
    return tuple(int(n) for n in np.unravel_index(np.argmax(np.where(allowed, values, -np.inf)), values.shape))


def apply_rules(sweep: Sweep) -> Iterator[RuleChoice]:
    """Yield the choice of each rule for each score and position, among layers (all heads together) and among heads."""
    layers = np.array([cell.head == "all" for cell in sweep.cells])
    reverse_layers = np.array([cell.head == "all" for cell in sweep.reverse_cells], dtype=bool)
    rates = None if sweep.counts is None else sweep.rates()  # [2, 2, C]
    for p, position in enumerate(POSITIONS):
        for s, score in enumerate(SCORES):
            yield RuleChoice(score, position, "largest mean norm, layers", False, *_best(sweep.norm[p], layers))
            for among, allowed, reverse_allowed in (
                ("layers", layers, reverse_layers),
                ("heads", layers | True, reverse_layers | True),
            ):
                best = _best(sweep.consistency[s, p], allowed)
                yield RuleChoice(score, position, f"lexical consistency, {among}", False, *best)
                if sweep.reverse_cells:
                    best = _best(sweep.dice[s, p], allowed[:, None] & reverse_allowed)
                    yield RuleChoice(score, position, f"agreement of directions, {among}", False, *best)
                if rates is not None and np.isfinite(rates[s, p]).any():
                    best = _best(-np.nan_to_num(rates[s, p], nan=2.0), allowed)
                    yield RuleChoice(score, position, f"lowest AER, {among}", True, *best)
