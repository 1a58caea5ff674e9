"""Pieces into batches, and their scores into those of words."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from align.core.scores import PAD, collate, merge_sources, merge_targets
from align.core.types import Pieces
from tests import naive


@st.composite
def pieces(draw: st.DrawFn) -> Pieces:
    """A pair whose words have 0 to 3 pieces each, at least one on either side."""
    owners, words = [], []
    for _ in range(2):
        counts = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5).filter(any))
        words.append(len(counts))
        owners.append([word for word, count in enumerate(counts) for _ in range(count)])
    ids = list(range(10, 11 + len(owners[0]))), list(range(20, 20 + len(owners[1])))
    return Pieces(ids[0], [*owners[0], -1], ids[1], owners[1], (words[0], words[1]))


@given(st.lists(pieces(), min_size=1, max_size=4))
def test_merge_equals_plain_loops_for_every_pair_of_a_batch(pairs: list[Pieces]) -> None:
    batch = collate(pairs, pad=1)
    torch.manual_seed(len(pairs))
    scores = torch.rand(len(pairs), 2, *batch.target.shape[1:], batch.source.shape[1])
    merged = merge_sources(scores, batch.source_words, batch.words[0])
    merged = merge_targets(merged, batch.target_words, batch.words[1])
    assert merged.shape == (len(pairs), 2, batch.words[1], batch.words[0] + 1)
    for b, pair in enumerate(pairs):
        words = pair.words
        for c in range(2):
            rows = scores[b, c, : len(pair.target), : len(pair.source)].tolist()
            expected = naive.word_scores(rows, pair, "output", words)
            for j, row in enumerate(expected):
                for i in range(words[0]):
                    value = merged[b, c, j, i].item()
                    without = -1 if j in pair.target_words else 0  # a source word without pieces
                    assert abs(value - (row[i] if i in pair.source_words else without)) < 1e-5
                assert abs(merged[b, c, j, -1].item() - row[-1]) < 1e-5  # </s> is last, however short the pair


def test_collate_pads_at_the_end() -> None:
    batch = collate(
        [Pieces([5, 2], [0, -1], [6, 7], [0, 0], (1, 1)), Pieces([5, 6, 2], [0, 1, -1], [8], [0], (2, 3))], pad=1
    )
    assert batch.source.tolist() == [[5, 2, 1], [5, 6, 2]]
    assert batch.source_words.tolist() == [[0, -1, PAD], [0, 1, -1]]
    assert batch.target.tolist() == [[6, 7], [8, 1]]
    assert batch.target_words.tolist() == [[0, 0], [0, PAD]]
    assert batch.words == (2, 3)  # the pairs' own words, whether or not the last have pieces
