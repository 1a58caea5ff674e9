"""What a sweep has counted: numbers for every layer, head, score and position. Does without torch.

Letters: C cells (each layer's heads, and all of them together); arrays over all settings are `[2, 2, C]`: score (as in
SCORES), position (as in POSITIONS), cell.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from align.links.metrics import Counts, aer
from align.types import Cell, Position, Score

SCORES: tuple[Score, ...] = ("weight", "norm")
POSITIONS: tuple[Position, ...] = ("input", "output")


@dataclass
class Sweep:
    """Sums over a text, for all settings.

    Attributes:
        cells: C of them, by layer, all heads first.
        counts: per sentence, |A∩S|, |A∩P|, |A|, |S| `[N, 2, 2, C, 4]`; None without gold.
        target_words: of the pairs that have links.
        null: of these, the words without a link, for which `</s>` has won `[2, 2, C]`.
        norm: mean norm over all pairs of pieces `[2, C]`, by position.
        consistency: lexical consistency over the first pairs, in nats per target word `[2, 2, C]`.
        reverse_cells: those of the reverse model, C' of them; none without one.
        dice: agreement with the reverse model's links, 2|F∩R| / (|F|+|R|) `[2, 2, C, C']`.
        pairs: sentence pairs.
        skipped: pairs that were too long for the model, and have no links.
    """

    cells: list[Cell]
    reverse_cells: list[Cell] = field(default_factory=list)
    counts: Counts | None = None
    target_words: int = 0
    null: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    norm: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    consistency: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    dice: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    pairs: int = 0
    skipped: int = 0

    def rates(self) -> NDArray[np.float64]:
        """AER of every setting over the whole text `[2, 2, C]`, as shares; NaN where it is not defined.

        Raises:
            ValueError: the sweep was made without gold.
        """
        if self.counts is None:
            raise ValueError("no error rates: the sweep was made without gold")
        return aer(self.counts.sum(0))
