"""Links of the package against those of a deliberately naive implementation: identical."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from align import Aligner, Cell, Pair
from align.attention.merging import collate
from align.types import Head
from tests import naive
from tests.conftest import TIE, example_pairs, plain, shared_pairs


def compare(recorder: Any, pairs: list[Pair]) -> tuple[int, int]:
    """Number of sentence alignments compared, and of those that were too close to call."""
    layers = range(1, recorder.layers + 1)
    heads: list[Head] = ["all", *range(1, recorder.heads + 1)]
    found = {}
    for score, position, layer, head in product(("weight", "norm"), ("input", "output"), layers, heads):
        aligner = Aligner(recorder, plain(score, position, layer, head))
        found[score, position, Cell(layer, head)] = [alignment.links for alignment in aligner(pairs)]
    compared = close = 0
    for number, pair in enumerate(pairs):
        if pair.blank:
            continue
        single = collate([recorder.encode(pair)], recorder.pad)
        recorded = {attention.layer: attention for attention in recorder.record(single, layers)}
        for (score, position, cell), links in found.items():
            index = None if cell.head == "all" else cell.head - 1
            expected, lead = naive.align(recorder, pair, recorded[cell.layer], score, position, index)
            compared += 1
            if lead < TIE:
                close += 1
            else:
                assert links[number] == expected, f"{score}, {position}, {cell}, line {pair.id}"
    return compared, close


def test_same_links_in_every_cell_on_the_examples(recorder: Any) -> None:
    compared, close = compare(recorder, example_pairs())
    assert compared == 20 * 60
    assert close <= 1


def test_same_links_in_every_cell_on_500_real_pairs(recorder: Any) -> None:
    compared, close = compare(recorder, shared_pairs(500))
    assert compared == 500 * 60
    assert close <= 10


@pytest.mark.parametrize("score", ["weight", "norm"])
@pytest.mark.parametrize("head", [None, 2])
def test_the_naive_shortcut_equals_plain_loops(recorder: Any, score: str, head: int | None) -> None:
    single = collate([recorder.encode(example_pairs()[2])], recorder.pad)
    (attention,) = recorder.record(single, [1])
    loops = naive.piece_scores(attention, score, head)
    for row, fast in zip(loops, naive.fast_piece_scores(attention, score, head), strict=True):
        assert row == pytest.approx(fast, abs=1e-9)
