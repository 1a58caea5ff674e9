"""Both positions together: the two apart, made one by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from align import Aligner, Settings
from align.attention.scores import both_positions
from align.signature import describe, signature
from align.types import Cell
from tests.conftest import example_pairs


def shares(row: list[float]) -> list[float]:
    """Shares of a row that counts nothing below 0."""
    kept = [max(0.0, score) for score in row]
    return [score / sum(kept) if sum(kept) else 0.0 for score in kept]


@pytest.mark.parametrize("null", ["eos", "mask", "none"])
@pytest.mark.parametrize("score", ["norm", "weight"])
def test_scores_are_shares_of_both_positions_by_hand(toy_recorder: Callable[..., Any], null: Any, score: Any) -> None:
    recorder = toy_recorder()
    calibration = {(score, "input"): (1, 2), (score, "output"): (2, None)}
    aligner = Aligner(recorder, Settings(score, "both", null=null), calibration=calibration)
    apart = [
        Aligner(recorder, Settings(score, "input", 1, 2, null)),
        Aligner(recorder, Settings(score, "output", 2, "all", null)),
    ]
    for source, target in (("das haus ist alt", "the house is old"), ("und das", "and it is the")):
        expected = [
            [a * b**0.5 for a, b in zip(shares(read), shares(predicted), strict=True)]
            for read, predicted in zip(*(one.word_scores(source, target) for one in apart), strict=True)
        ]
        assert torch.tensor(aligner.word_scores(source, target)).tolist() == [
            pytest.approx(row, abs=1e-6) for row in expected
        ]
        links = set()
        for j, row in enumerate(expected):
            best = max(range(len(row) - (null != "eos")), key=row.__getitem__)
            if best < len(row) - 1:
                links.add((best, j))
        assert aligner.align(source, target).links == links
    assert aligner.cell == Cell(1, 2, Cell(2, None))
    assert str(aligner.cell) == "layer 1, head 2; output position: layer 2, all heads"


def test_rows_without_scores() -> None:
    read = torch.tensor([[0.0, 0.0, -1.0], [1.0, 3.0, -1.0]])
    assert torch.equal(both_positions(read, read), torch.tensor([[0.0, 0.0, 0.0], [0.125, 0.75**1.5, 0.0]]))


def test_each_position_is_calibrated_as_apart_and_batches_do_not_matter(recorder: Any) -> None:
    pairs = [pair for pair in example_pairs() if not pair.blank] * 3
    aligner = Aligner(recorder, Settings(position="both"))
    found = list(aligner(pairs))
    apart = [Aligner(recorder, Settings(position=position)) for position in ("input", "output")]  # type: ignore[arg-type]
    for one in apart:
        list(one(pairs))
    assert aligner.cell
    assert aligner.reason == apart[0].reason
    assert [Cell(aligner.cell.layer, aligner.cell.head), aligner.cell.output] == [one.cell for one in apart]
    one_by_one = Aligner(recorder, Settings(position="both"), batch_tokens=1)
    assert [alignment.links for alignment in one_by_one(pairs)] == [alignment.links for alignment in found]


def test_layer_and_head_are_the_input_positions_and_the_default_is_a_layer_above(
    toy_recorder: Callable[..., Any],
) -> None:
    for asked, expected in (
        (Settings(position="both"), Cell(1, None, Cell(2, None))),
        (Settings(position="both", layer=1, head=3), Cell(1, 3, Cell(2, None))),
        (Settings(position="both", layer=2, head="all"), Cell(2, None, Cell(2, None))),
    ):
        aligner = Aligner(toy_recorder(), asked)
        assert aligner.cell is None
        aligner.align("das haus", "the house")
        assert aligner.cell == expected
    calibration = {("norm", "output"): (7, None)}  # of a larger model
    aligner = Aligner(toy_recorder(), Settings(position="both"), calibration=calibration)
    aligner.align("das haus", "the house")
    assert aligner.cell == Cell(1, None, Cell(2, None))


def test_signature() -> None:
    cell = Cell(1, 3, Cell(2, None))
    line = signature(describe("m", Settings(position="both", threshold=0.4), cell, "1", "float32"))
    assert line == (
        "align|m|norm|layer:auto(1)|head:auto(3)|both|output-layer:auto(2)|output-head:auto(all)|sum/mean|null:eos"
        "|threshold:0.4|v:1"
    )
