"""Neither batches, nor buffers, nor the order of lines change a link; and how layer and head are chosen."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from align import Aligner, Alignment, Cell, Direction, Pair, PairError, Settings
from align.core.choice import Calibration
from tests.conftest import align_and_choose, assert_same_links, example_pairs, plain, shared_pairs

FIXED = plain(layer=1, head=1)


def aligned(recorder: Any, pairs: list[Pair], **options: Any) -> list[Alignment]:
    return list(Aligner(Direction(recorder, FIXED), **options)(pairs))


def test_real_pairs_in_any_batches_buffers_and_order(recorder: Any) -> None:
    pairs = shared_pairs(200)
    aligner, expected = Aligner(Direction(recorder, FIXED)), aligned(recorder, pairs)
    assert_same_links(aligner, aligned(recorder, pairs, batch_tokens=300), expected)
    assert_same_links(aligner, aligned(recorder, pairs, buffer=37), expected)
    order = list(range(len(pairs)))
    random.Random(0).shuffle(order)
    assert_same_links(aligner, aligned(recorder, [pairs[n] for n in order]), [expected[n] for n in order])


def test_too_long_stops_with_the_line_after_what_came_before(toy_recorder: Callable[..., Any]) -> None:
    recorder = toy_recorder()
    pairs = [("das haus", "the house"), ("das " * 39, "the"), ("das " * 40, "the")]
    found = []
    with pytest.raises(PairError, match="line 3: source has 41 pieces with </s>, the model takes 40"):
        found.extend(Aligner(Direction(recorder, FIXED))(pairs))
    assert len(found) == 2
    with pytest.raises(PairError, match="line 1: target has 41 pieces"):
        Aligner(Direction(recorder, FIXED)).align("das", "the " * 40)


@pytest.mark.parametrize(("settings", "message"), [
    (plain(layer=4), "layer 4 is out of range: .* has 3 layers"),
    (plain(head=5), "head 5 is out of range: .* has 4 heads"),
])  # fmt: skip
def test_layers_and_heads_out_of_range_are_refused(recorder: Any, settings: Settings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Aligner(Direction(recorder, settings))


def test_auto_with_few_pairs_takes_what_is_stored_else_a_third_of_the_depth(recorder: Any) -> None:
    stored: Calibration = {("norm", "input"): Cell(2, 4), ("weight", "output"): Cell(9, "all")}
    for settings, expected in [
        (plain(), Cell(2, 4)),
        (plain(layer=3), Cell(3, "all")),  # what is stored is of another layer
        (plain(head=2), Cell(1, 2)),
        (plain(score="weight", position="output"), Cell(1, "all")),  # what is stored is out of range
    ]:
        aligner = Aligner(Direction(recorder, settings, calibration=stored))
        _, (choice,) = align_and_choose(aligner, example_pairs())
        assert list(choice.place.cells().values()) == [expected]


@pytest.mark.parametrize(("position", "layer"), [("input", 1), ("output", 2)])
def test_auto_takes_the_layer_that_is_right_for_the_position(recorder: Any, position: str, layer: int) -> None:
    aligner = Aligner(Direction(recorder, plain(position=position)), buffer=150)
    pairs = shared_pairs(200)
    found, (choice,) = align_and_choose(aligner, pairs)
    (cell,) = choice.place.cells().values()
    assert cell.layer == layer  # as measured with gold
    assert "150 pairs" in choice.reason
    # the first buffer's links are those of the cell that was taken, as if it had been asked for
    asked = Aligner(Direction(recorder, plain(position=position, layer=layer, head=cell.head)), buffer=150)
    assert_same_links(asked, found, asked(pairs))
