"""Both positions together: the two apart, merged by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from align import Aligner, Direction, Settings
from align.core.choice import Calibration
from align.core.types import Cell, Choice, Place
from tests.conftest import align_and_choose, example_pairs, plain


def shares(row: list[float]) -> list[float]:
    """Shares of a row that counts nothing below 0."""
    kept = [max(0.0, score) for score in row]
    return [score / sum(kept) if sum(kept) else 0.0 for score in kept]


@pytest.mark.parametrize("null", ["eos", "mask", "none"])
@pytest.mark.parametrize("score", ["norm", "weight"])
def test_scores_are_shares_of_both_positions_by_hand(toy_recorder: Callable[..., Any], null: Any, score: Any) -> None:
    recorder = toy_recorder()
    calibration: Calibration = {(score, "input"): Cell(1, 2), (score, "output"): Cell(2, "all")}
    aligner = Aligner(Direction(recorder, plain(score, "both", null=null), calibration=calibration))
    apart = [
        Aligner(Direction(recorder, plain(score, "input", 1, 2, null))),
        Aligner(Direction(recorder, plain(score, "output", 2, "all", null))),
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
    _, (choice,) = align_and_choose(aligner, [("das haus", "the house")])
    assert choice.place == Place(Cell(1, 2), Cell(2, "all"))
    assert str(choice.place) == "layer 1, head 2; output position: layer 2, all heads"


def test_each_position_is_calibrated_as_apart_and_batches_do_not_matter(recorder: Any) -> None:
    pairs = [pair for pair in example_pairs() if not pair.blank] * 3
    aligner = Aligner(Direction(recorder, Settings(position="both")))
    found, (choice,) = align_and_choose(aligner, pairs)
    _, (at_input,) = align_and_choose(Aligner(Direction(recorder, Settings(position="input"))), pairs)
    _, (at_output,) = align_and_choose(Aligner(Direction(recorder, Settings(position="output"))), pairs)
    assert choice == Choice(Place(at_input.place.input, at_output.place.output), at_input.reason)
    one_by_one = Aligner(Direction(recorder, Settings(position="both")), batch_tokens=1)
    assert [alignment.links for alignment in one_by_one(pairs)] == [alignment.links for alignment in found]


def test_layer_and_head_are_the_input_positions_and_the_default_is_a_layer_above(
    toy_recorder: Callable[..., Any],
) -> None:
    for asked, expected in (
        (Settings(position="both"), Cell(1, "all")),
        (Settings(position="both", layer=1, head=3), Cell(1, 3)),
        (Settings(position="both", layer=2, head="all"), Cell(2, "all")),
    ):
        _, (choice,) = align_and_choose(Aligner(Direction(toy_recorder(), asked)), [("das haus", "the house")])
        assert choice.place == Place(expected, Cell(2, "all"))
    calibration: Calibration = {("norm", "output"): Cell(7, "all")}  # of a larger model
    aligner = Aligner(Direction(toy_recorder(), Settings(position="both"), calibration=calibration))
    _, (choice,) = align_and_choose(aligner, [("das haus", "the house")])
    assert choice.place == Place(Cell(1, "all"), Cell(2, "all"))
