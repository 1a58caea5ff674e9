"""Word scores and links from an encoder's states, compared with plain lists and loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import exp, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from align.core.consistency import lexical_consistency
from align.core.scores import NULL
from align.core.similarity import SimilarityReader
from align.core.stream import Encoded
from align.core.types import Batch, Cell, Pair, Pieces, Place
from tests import naive

LAYERS, ROWS, WIDTH = 3, 12, 4
SPECIAL = ROWS - 1
Rows = list[list[float]]


class Toy:
    """An encoder whose states are rows of a table for each layer, whatever the sentence."""

    pad, layers = 0, LAYERS

    def __init__(self, seed: int) -> None:
        self.tables = torch.randn(LAYERS, ROWS, WIDTH, generator=torch.Generator().manual_seed(seed)) + 0.5

    def states(self, batch: Batch, layers: Sequence[int]) -> Iterator[tuple[Tensor, Tensor]]:
        for layer in sorted(layers):
            yield self.tables[layer - 1, batch.source], self.tables[layer - 1, batch.target]


def reader_of(toy: Toy, threshold: float | None = None) -> SimilarityReader:
    recorder: Any = toy
    return SimilarityReader(recorder, threshold)


def place(layer: int) -> Place:
    return Place(Cell(layer, "all"))


@st.composite
def pieces(draw: st.DrawFn) -> Pieces:
    """Pieces of up to five words on either side; some words have none, but not all."""
    sides = []
    for special in ([SPECIAL], []):
        words = draw(st.lists(st.lists(st.integers(1, SPECIAL - 1), max_size=3), min_size=1, max_size=5).filter(any))
        ids = [n for word in words for n in word]
        words_of = [k for k, word in enumerate(words) for _ in word]
        around = [NULL] * len(special)
        sides.append(([*special, *ids, *special], [*around, *words_of, *around], len(words)))
    (source, source_words, first), (target, target_words, second) = sides
    return Pieces(source, source_words, target, target_words, (first, second))


def mean(rows: Rows) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def cosine(one: list[float], other: list[float]) -> float:
    lengths = [sqrt(sum(x * x for x in vector)) for vector in (one, other)]
    return sum(a * b for a, b in zip(one, other, strict=True)) / (lengths[0] * lengths[1])


def naive_scores(toy: Toy, layer: int, of: Pieces) -> Rows:
    """Scores of source words in a row for each target word."""
    table: Rows = toy.tables[layer - 1].tolist()

    def states(ids: Sequence[int], words: Sequence[int], count: int) -> list[Rows]:
        return [[table[n] for n, word in zip(ids, words, strict=True) if word == k] for k in range(count)]

    sides = states(of.source, of.source_words, of.words[0]), states(of.target, of.target_words, of.words[1])
    words = [mean(pieces) for side in sides for pieces in side if pieces]
    middle = mean(words) if words else []

    def vector(pieces: Rows) -> list[float]:
        return [x - 0.5 * m for x, m in zip(mean(pieces), middle, strict=True)]

    return [
        [exp((cosine(vector(target), vector(source)) - 1) / 0.1) if source and target else 0.0 for source in sides[0]]
        for target in sides[1]
    ]


def transposed(rows: Rows) -> Rows:
    return [list(column) for column in zip(*rows, strict=True)]


def naive_shares(scores: Rows) -> tuple[Rows, Rows]:
    """Sharpened shares of source words for each target word, and of target words for each source word."""
    forward, reverse = (naive.sharpen([[*row, 0.0] for row in rows], "mask") for rows in (scores, transposed(scores)))
    return forward, reverse


def argmax(numbers: Sequence[float]) -> int:
    return max(range(len(numbers)), key=numbers.__getitem__)


def is_clear(rows: Rows, least: float = 1e-5) -> bool:
    """Tell whether the best of each row leads by more than rounding changes."""
    ordered = [sorted(row, reverse=True) for row in rows if max(row) > 0]
    return all(one - other > least * one for row in ordered for one, other in pairwise(row[:2]))


@given(st.lists(pieces(), min_size=1, max_size=4), st.integers(1, LAYERS), st.integers(0, 20))
def test_word_scores(batch: list[Pieces], layer: int, seed: int) -> None:
    toy = Toy(seed)
    found = reader_of(toy).scores(batch, place(layer))
    assert found.shape == (len(batch), max(p.words[1] for p in batch), max(p.words[0] for p in batch) + 1)
    for of, scores in zip(batch, found, strict=True):
        expected = torch.tensor(naive_scores(toy, layer, of))
        torch.testing.assert_close(scores[: of.words[1], : of.words[0]], expected, atol=1e-6, rtol=1e-4)
        assert not scores[of.words[1] :].any()
        assert not scores[:, of.words[0] :].any()
        assert 0 <= scores.min() <= scores.max() <= 1 + 1e-5


@given(st.lists(pieces(), min_size=1, max_size=4), st.integers(1, LAYERS), st.integers(0, 20))
def test_without_a_threshold_each_target_word_has_its_best_source_word(
    batch: list[Pieces], layer: int, seed: int
) -> None:
    toy = Toy(seed)
    for of, (links, agreement) in zip(batch, reader_of(toy).links(batch, place(layer)), strict=True):
        rows = naive_scores(toy, layer, of)
        assert agreement is None
        assert {j for _, j in links} == {j for j in range(of.words[1]) if j in of.target_words}
        for (i, j), share in links.items():
            assert rows[j][i] == pytest.approx(max(rows[j]), rel=1e-4)
            assert share == pytest.approx(rows[j][i] / sum(rows[j]), rel=1e-3)


@given(st.lists(pieces(), min_size=1, max_size=4), st.integers(1, LAYERS), st.integers(0, 20))
def test_soft_links_and_agreement(batch: list[Pieces], layer: int, seed: int) -> None:
    toy, threshold = Toy(seed), 0.3
    reader = reader_of(toy, threshold)
    shares = reader.shares(batch, place(layer))
    for n, (of, (links, agreement)) in enumerate(zip(batch, reader.links(batch, place(layer)), strict=True)):
        rows = naive_scores(toy, layer, of)
        if not (is_clear(rows) and is_clear(transposed(rows))):
            continue  # where two words score the same, rounding decides which power has the mean that is wanted
        forward, reverse = naive_shares(rows)
        torch.testing.assert_close(shares[n, : of.words[1], : of.words[0]], torch.tensor(forward), atol=2e-3, rtol=1e-3)
        expected = naive.soft_scores(forward, reverse)
        for j, row in enumerate(expected):
            for i, score in enumerate(row):
                if (i, j) in links or score > threshold + 5e-3:
                    assert links[i, j] == pytest.approx(score, abs=5e-3)
        assert agreement == pytest.approx(naive.agreement(forward, reverse), abs=5e-3)


@given(st.lists(pieces(), min_size=2, max_size=5), st.integers(1, LAYERS), st.sampled_from([None, 0.0, 0.5]))
def test_a_batch_does_not_change_links(batch: list[Pieces], layer: int, threshold: float | None) -> None:
    reader = reader_of(Toy(1), threshold)
    together = reader.links(batch, place(layer))
    for of, (links, agreement) in zip(batch, together, strict=True):
        ((alone, own),) = reader.links([of], place(layer))
        clear = {link: score for link, score in alone.items() if score > (threshold or 0) + 1e-4}
        if threshold is None and not is_clear(naive_scores(Toy(1), layer, of)):
            continue  # either of two words that score the same
        assert {link: links[link] for link in clear} == pytest.approx(clear, abs=1e-4)
        assert all(link in alone or score < (threshold or 0) + 1e-4 for link, score in links.items())
        assert (own is None) == (agreement is None)
        if own is not None:
            assert agreement == pytest.approx(own, abs=1e-4)


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_one_word_on_each_side_is_linked(threshold: float | None) -> None:
    """However unlike they are: neither has another partner."""
    toy = Toy(1)
    toy.tables[:, 2] = -toy.tables[:, 1]
    one = Pieces([SPECIAL, 1, SPECIAL], [NULL, 0, NULL], [2], [0], (1, 1))
    ((links, _),) = reader_of(toy, threshold).links([one], place(1))
    assert links == {(0, 0): pytest.approx(1)}


@pytest.mark.parametrize("threshold", [None, 0.0])
def test_words_without_pieces_are_not_linked(threshold: float | None) -> None:
    of = Pieces([SPECIAL, 1, 2, SPECIAL], [NULL, 1, 3, NULL], [3, 4], [0, 2], (5, 4))
    ((links, _),) = reader_of(Toy(1), threshold).links([of], place(2))
    assert links
    assert all(i in (1, 3) and j in (0, 2) for i, j in links)


@given(st.lists(pieces(), max_size=5), st.sampled_from([1, 20, 10_000]), st.integers(0, 20))
def test_qualities(batch: list[Pieces], tokens: int, seed: int) -> None:
    toy, alphabet = Toy(seed), "abcd"
    pairs = []
    for n, of in enumerate(batch, 1):
        source, target = (tuple(alphabet[k % 4] for k in range(count)) for count in of.words)
        pairs.append(Encoded(Pair(source, target, n), of))
    pairs.append(Encoded(Pair(("a",), (), 99), None))
    cells = [Cell(layer, "all") for layer in (3, 1, 2)]
    found = reader_of(toy).qualities(pairs, cells, tokens)
    assert found.shape == (3,)
    for cell, quality in zip(cells, found, strict=True):
        sources, targets, count, total = list[int](), list[int](), 0, 0.0
        for of, pair in zip(batch, pairs, strict=False):
            rows = naive_scores(toy, cell.layer, of)
            if not (is_clear(rows) and is_clear(transposed(rows))):
                return  # either of two words that score the same
            for j, row in enumerate(rows):
                i = argmax(row)
                if row[i] > 0 and argmax(transposed(rows)[i]) == j:
                    sources.append(alphabet.index(pair.pair.source[i]))
                    targets.append(alphabet.index(pair.pair.target[j]))
            count += of.words[1]
            one, other = naive.agreement(*naive_shares(rows))
            total += sqrt(one * other)
        consistency = lexical_consistency(np.array(sources, int), np.array(targets, int), count) if batch else 0.0
        assert quality == pytest.approx(consistency * total / len(pairs), abs=5e-3)
