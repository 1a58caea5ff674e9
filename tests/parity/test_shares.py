"""What pictures of attention show is what an `Aligner` for each cell reads."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from align import Aligner, Direction
from align.core.choice import all_cells
from align.core.types import Position
from align.evaluation.sweep import SCORES, shares_of_cells
from tests.conftest import example_pairs, plain

PAIRS = example_pairs()[::4]


@pytest.mark.parametrize("position", ["input", "output"])
def test_shares_are_those_of_each_cell_alone(recorder: Any, position: Position) -> None:
    cells = all_cells(recorder)
    found = shares_of_cells(Aligner(Direction(recorder), batch_tokens=200), PAIRS, position)
    for pair, packed in zip(PAIRS, found, strict=True):
        shape = (len(SCORES), len(cells), len(pair.target), len(pair.source) + 1)
        shares = np.frombuffer(packed, dtype=np.uint8).reshape(shape)
        for (s, score), (c, cell) in itertools.product(enumerate(SCORES), enumerate(cells)):
            aligner = Aligner(Direction(recorder, plain(score, position, cell.layer, cell.head)))
            rows = np.array(aligner.word_scores(pair.source, pair.target)).clip(min=0)
            expected = 100 * rows / rows.sum(-1, keepdims=True)
            assert np.abs(shares[s, c] - expected).max() <= 0.501
