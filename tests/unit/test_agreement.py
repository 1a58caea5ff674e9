"""Agreement of pairs: naive loops, bounds on random scores, and cases that can be worked out by hand."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from align.core.scores import MIN_AGREEMENT, agreements, sharpen
from align.core.types import Pieces
from tests import naive

NULLS = st.sampled_from(["eos", "mask", "none"])


class Words(NamedTuple):
    """Word scores of a batch `[B, J, I+1]` and `[B, I, J+1]`, and how many words (I, J) each pair has."""

    forward: Tensor
    reverse: Tensor
    sizes: list[tuple[int, int]]


@st.composite
def batches(draw: st.DrawFn, score: st.SearchStrategy[float]) -> Words:
    """Pairs of different lengths; words without pieces have no score in either direction."""
    sizes = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=3))
    sources, targets = (max(size[side] for size in sizes) for side in (0, 1))
    forward = torch.zeros(len(sizes), targets, sources + 1)
    reverse = torch.zeros(len(sizes), sources, targets + 1)
    for b, (i, j) in enumerate(sizes):
        without_pieces = [draw(st.lists(st.booleans(), min_size=count, max_size=count)) for count in (i, j)]
        for scores, side, count in ((forward, (1, 0), (j, i)), (reverse, (0, 1), (i, j))):
            size = count[0] * (count[1] + 1)
            rows = torch.tensor(draw(st.lists(score, min_size=size, max_size=size))).view(count[0], -1)
            rows[torch.tensor(without_pieces[side[0]])] = 0
            rows[:, :-1][:, torch.tensor(without_pieces[side[1]])] = -1  # as merge_sources has it
            scores[b, : count[0], : count[1]], scores[b, : count[0], -1] = rows[:, :-1], rows[:, -1]
    return Words(forward, reverse, sizes)


def agreements_of(forward: Tensor, reverse: Tensor | None, sizes: list[tuple[int, int]]) -> list[tuple[float, float]]:
    return agreements(forward, reverse, [Pieces((), (), (), (), size) for size in sizes])


@given(batches(st.floats(0, 1, width=32)), NULLS, st.booleans())
def test_agreement_equals_naive_loops(words: Words, null: Any, two_models: bool) -> None:
    forward = sharpen(words.forward, null)
    reverse = sharpen(words.reverse, null) if two_models else None
    found = agreements_of(forward, reverse, words.sizes)
    for b, (sources, targets) in enumerate(words.sizes):
        f = forward[b, :targets, :sources].tolist()
        expected = naive.agreement(f, None if reverse is None else reverse[b, :sources, :targets].tolist())
        assert found[b] == pytest.approx(expected, rel=1e-4)
        assert max(expected) <= 1 + 1e-5  # the loops cut nothing off: only rounding exceeds 1


def test_words_with_only_each_other_agree_and_words_without_partner_do_not() -> None:
    partners = torch.eye(4)
    assert agreements_of(partners[None], None, [(4, 4)]) == [(1, 1)]
    assert agreements_of(partners[None], partners[None], [(4, 4)]) == [(1, 1)]
    more = torch.cat((partners, torch.zeros(1, 4)))  # a fifth target word is NULL's
    assert agreements_of(more[None], None, [(4, 5)]) == [(pytest.approx(MIN_AGREEMENT**0.2), 1)]
    assert agreements_of(more.T[None], None, [(5, 4)]) == [(1, pytest.approx(MIN_AGREEMENT**0.2))]
