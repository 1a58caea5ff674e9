"""Links of the package against those of a deliberately naive implementation: identical."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest

from align import Aligner, Cell, Direction, Pair
from align.core.scores import collate
from align.core.types import Batch, CrossAttention, Head
from tests import naive
from tests.conftest import TIE, example_pairs, plain, shared_pairs


class Remembering:
    """A recorder that gives again what it recorded when it is asked for the same batch and layers."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.recorded: dict[tuple[bytes, bytes, tuple[int, ...]], list[CrossAttention]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recorder, name)

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        key = batch.source.numpy().tobytes(), batch.target.numpy().tobytes(), tuple(layers)
        if key not in self.recorded:
            self.recorded[key] = list(self.recorder.record(batch, layers))
        return iter(self.recorded[key])


def compare(recorder: Any, pairs: list[Pair]) -> tuple[int, int]:
    """Number of sentence alignments compared, and of those that were too close to call."""
    layers = range(1, recorder.layers + 1)
    heads: list[Head] = ["all", *range(1, recorder.heads + 1)]
    scores, positions = ("weight", "norm"), ("input", "output")
    found = {}
    remembering = Remembering(recorder)  # the cells of a layer are read off one pass
    for score, position, layer, head in product(scores, positions, layers, heads):
        aligner = Aligner(Direction(remembering, plain(score, position, layer, head)))
        found[score, position, layer, head] = [alignment.links for alignment in aligner(pairs)]
    compared = close = 0
    for number, pair in enumerate(pairs):
        if pair.blank:
            continue
        pieces = recorder.encode(pair)
        single = collate([pieces], recorder.pad)
        recorded = {attention.layer: attention for attention in recorder.record(single, layers)}
        for score, layer, head in product(scores, layers, heads):
            rows = naive.fast_piece_scores(recorded[layer], score, None if head == "all" else head - 1)
            for position in positions:
                words = naive.word_scores(rows, pieces, position, (len(pair.source), len(pair.target)))
                expected, lead = naive.links(words)
                compared += 1
                if lead < TIE:
                    close += 1
                else:
                    links = found[score, position, layer, head][number]
                    assert links == expected, f"{score}, {position}, {Cell(layer, head)}, line {pair.id}"
    return compared, close


def test_same_links_in_every_cell_on_the_examples(recorder: Any) -> None:
    compared, close = compare(recorder, example_pairs())
    assert compared == 20 * 60
    assert close <= 1


def test_same_links_in_every_cell_on_real_pairs(recorder: Any) -> None:
    compared, close = compare(recorder, shared_pairs(60))
    assert compared == 60 * 60
    assert close <= 2


@pytest.mark.parametrize("score", ["weight", "norm"])
@pytest.mark.parametrize("head", [None, 2])
def test_the_naive_shortcut_equals_plain_loops(recorder: Any, score: str, head: int | None) -> None:
    single = collate([recorder.encode(example_pairs()[2])], recorder.pad)
    (attention,) = recorder.record(single, [1])
    loops = naive.piece_scores(attention, score, head)
    for row, fast in zip(loops, naive.fast_piece_scores(attention, score, head), strict=True):
        assert row == pytest.approx(fast, abs=1e-9)
