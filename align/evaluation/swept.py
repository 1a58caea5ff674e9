"""Counts of a sweep over all settings.

Letters: C cells (each layer's heads, and all of them together); arrays over all settings are `[2, 2, C]`: score (as in
SCORES), position (as in POSITIONS), cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

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
