"""Counts of a sweep over all settings.

Letters: C cells (each layer's heads, and all of them together); arrays over all settings are `[2, 2, C]`: score (as in
SCORES), position (as in POSITIONS), cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from align.core.types import Cell, Position, Score
from align.evaluation.metrics import Counts, aer

SCORES: tuple[Score, ...] = tuple(dict.fromkeys(("weight", *get_args(Score))))  # weight before norm, new ones last
POSITIONS: tuple[Position, ...] = get_args(Position)


@dataclass(frozen=True, eq=False)
class Sweep:
    """Sums over a text, for all settings.

    Attributes:
        cells: C of them, by layer, all heads first.
        reverse_cells: those of the reverse model, C' of them; empty without one.
        counts: per sentence, |A∩S|, |A∩P|, |A|, |S| `[N, 2, 2, C, 4]`; None without gold.
        target_words: number of target words in pairs that have links.
        null: number of these words without a link, for which `</s>` has won `[2, 2, C]`.
        norm: mean norm over all pairs of pieces `[2, C]`, by position.
        consistency: lexical consistency, in nats per target word `[2, 2, C]`, over the first pairs of the text, as
            many as an `Aligner` chooses by, which takes them from its first buffer.
        dice: agreement with the reverse model's links, 2|F∩R| / (|F|+|R|) `[2, 2, C, C']`.
        pairs: number of sentence pairs.
        skipped: number of pairs that were too long for the model, and have no links.
    """

    cells: Sequence[Cell]
    reverse_cells: Sequence[Cell]
    counts: Counts | None
    target_words: int
    null: NDArray[np.int64]
    norm: NDArray[np.float64]
    consistency: NDArray[np.float64]
    dice: NDArray[np.float64]
    pairs: int
    skipped: int

    def rates(self) -> NDArray[np.float64]:
        """Return the AER of every setting over the whole text `[2, 2, C]`, as shares of 1; NaN if undefined.

        Raises:
            ValueError: the sweep was made without gold.
        """
        if self.counts is None:
            raise ValueError("no error rates: the sweep was made without gold")
        return aer(self.counts.sum(0))


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
