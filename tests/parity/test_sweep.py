"""One pass over all settings gives what one `Aligner` for each setting gives."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from align import Aligner, Direction, Pair
from align.core.choice import all_cells
from align.core.consistency import lexical_consistency, number_words
from align.core.scores import CELL_SCORES, collate, target_rows
from align.core.types import Cell, Links, Position
from align.evaluation.link_formats import make_gold
from align.evaluation.metrics import aer, count
from align.evaluation.sweep import POSITIONS, SCORES, Sweep, apply_rules, shares_of_cells, sweep
from tests.conftest import example_pairs, plain

PAIRS = example_pairs()[::3]


def links_of(recorder: Any, pairs: list[Pair], null: str = "eos") -> dict[tuple[int, int, int], list[Links]]:
    """Links of every setting by an aligner of its own, by score, position and cell."""
    found = {}
    cells = product(range(1, recorder.layers + 1), (None, *range(1, recorder.heads + 1)))
    for c, (layer, head) in enumerate(cells):
        for (s, score), (p, position) in product(enumerate(SCORES), enumerate(POSITIONS)):
            aligner = Aligner(Direction(recorder, plain(score, position, layer, head or "all", null)))
            found[s, p, c] = [alignment.links for alignment in aligner(pairs)]
    return found


@pytest.fixture(scope="module")
def links(recorder: Any) -> dict[tuple[int, int, int], list[Links]]:
    return links_of(recorder, PAIRS)


@pytest.fixture(scope="module")
def found(recorder: Any, links: dict[tuple[int, int, int], list[Links]]) -> Sweep:
    """A sweep whose gold is one setting's links (norm, input, layer 1, head 3), every third only possible."""
    gold = [make_gold((link for link in some if sum(link) % 3), some) for some in links[1, 0, 3]]
    return sweep(Aligner(Direction(recorder), buffer=3), PAIRS, gold)


def test_counts_are_those_of_an_aligner_for_each_setting(
    found: Sweep, links: dict[tuple[int, int, int], list[Links]]
) -> None:
    assert found.counts is not None
    assert found.counts.shape == (7, len(SCORES), 2, 15, 4)
    for (s, p, c), some in links.items():
        expected = [
            count(one, make_gold((link for link in gold if sum(link) % 3), gold))
            for one, gold in zip(some, links[1, 0, 3], strict=True)
        ]
        assert found.counts[:, s, p, c].tolist() == [list(row) for row in expected]
    rates = aer(found.counts.sum(0))
    assert np.unravel_index(rates.argmin(), rates.shape) == (1, 0, 3)
    assert rates.min() == 0


def test_unaligned_words_and_consistency(found: Sweep, links: dict[tuple[int, int, int], list[Links]]) -> None:
    words = sum(len(pair.target) for pair in PAIRS)
    assert (found.pairs, found.target_words, found.skipped) == (7, words, 0)
    for (s, p, c), some in links.items():
        assert found.null[s, p, c] == words - sum(map(len, some))
        known: tuple[dict[str, int], dict[str, int]] = {}, {}
        pairs = [(pair.source[i], pair.target[j]) for pair, one in zip(PAIRS, some, strict=True) for i, j in one]
        source, target = (number_words((pair[side] for pair in pairs), known[side]) for side in (0, 1))
        assert found.consistency[s, p, c] == pytest.approx(lexical_consistency(source, target, words))


def test_mean_norm_is_over_all_pairs_of_pieces(recorder: Any, found: Sweep) -> None:
    total, pieces = np.zeros((2, 15)), 0
    for pair in PAIRS:
        encoded = recorder.encode(pair)
        pieces += len(encoded.source) * len(encoded.target)
        for layer in recorder.record(collate([encoded], recorder.pad), [1, 2, 3]):
            scores = CELL_SCORES["norm"](layer, ["all", 1, 2, 3, 4])
            for p, position in enumerate(POSITIONS):
                total[p, 5 * (layer.layer - 1) :][:5] += target_rows(scores, position).sum((0, 2, 3)).numpy()
    np.testing.assert_allclose(found.norm, total / pieces, rtol=1e-4)


def test_agreement_is_the_dice_of_two_directions(recorder: Any, links: dict[tuple[int, int, int], list[Links]]) -> None:
    """The model itself, with its sides exchanged, stands in for a reverse model: any model does for counting."""
    turned = [Pair(pair.target, pair.source, pair.id) for pair in PAIRS]
    found = sweep(Aligner(Direction(recorder), buffer=4), PAIRS, reverse=Aligner(Direction(recorder)))
    assert found.reverse_cells == found.cells
    reverse_links = links_of(recorder, turned)
    for s, p, c, reverse_cell in ((0, 0, 3, 3), (1, 0, 3, 0), (1, 1, 5, 8), (0, 1, 14, 14)):
        forward = [{(n, *link) for link in of_pair} for n, of_pair in enumerate(links[s, p, c])]
        reverse = [{(n, i, j) for j, i in of_pair} for n, of_pair in enumerate(reverse_links[s, p, reverse_cell])]
        same = sum(len(a & b) for a, b in zip(forward, reverse, strict=True))
        total = sum(map(len, forward)) + sum(map(len, reverse))
        assert found.dice[s, p, c, reverse_cell] == pytest.approx(2 * same / total)


def test_rules_take_what_their_numbers_say(found: Sweep) -> None:
    chosen = {(choice.position, choice.score, choice.rule): choice for choice in apply_rules(found)}
    assert len(chosen) == 2 * len(SCORES) * 5
    oracle = chosen["input", "norm", "lowest AER, heads"]
    assert (found.cells[oracle.cell], oracle.gold) == (Cell(1, 3), True)
    norm = chosen["output", "weight", "largest mean norm, layers"]
    assert found.cells[norm.cell].head == "all"
    assert found.norm[1, norm.cell] == max(found.norm[1, c] for c in (0, 5, 10))
    best = chosen["input", "weight", "lexical consistency, heads"]
    assert found.consistency[0, 0, best.cell] == found.consistency[0, 0].max()
    assert not best.gold


@pytest.mark.parametrize("position", ["input", "output"])
def test_shares_are_those_of_each_cell_alone(recorder: Any, position: Position) -> None:
    cells, pairs = all_cells(recorder), example_pairs()[::4]
    found = shares_of_cells(Aligner(Direction(recorder), batch_tokens=200), pairs, position)
    for pair, packed in zip(pairs, found, strict=True):
        shape = (len(SCORES), len(cells), len(pair.target), len(pair.source) + 1)
        shares = np.frombuffer(packed, dtype=np.uint8).reshape(shape)
        for (s, score), (c, cell) in product(enumerate(SCORES), enumerate(cells)):
            aligner = Aligner(Direction(recorder, plain(score, position, cell.layer, cell.head)))
            rows = np.array(aligner.word_scores(pair.source, pair.target)).clip(min=0)
            expected = 100 * rows / rows.sum(-1, keepdims=True)
            assert np.abs(shares[s, c] - expected).max() <= 0.501
