"""Shares and soft scores: naive loops, properties, and cases that can be worked out by hand."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from align.core.scores import (
    SHARPNESS,
    best_words,
    links_above,
    shares,
    sharpen,
    soft_scores,
)
from tests import naive

# unlikely words have shares that underflow where they are multiplied
some_shares = st.one_of(st.just(0.0), st.floats(0, 1, width=32), st.sampled_from([1e-5, 1e-12, 1e-18]))


@st.composite
def two_directions(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Shares of a batch of pairs in both directions, `[B, J, I]` and `[B, I, J]`."""
    size, targets, sources = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    count = size * targets * sources
    forward, reverse = (torch.tensor(draw(st.lists(some_shares, min_size=count, max_size=count))) for _ in "fr")
    return forward.view(size, targets, sources), reverse.view(size, sources, targets)


# Shares as sharp in one pair as in another


@st.composite
def word_scores(draw: st.DrawFn, least: float = 0.0) -> Tensor:
    """Word scores of a batch of pairs `[B, J, I+1]`."""
    size, targets, sources = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    count = size * targets * (sources + 1)
    some = st.floats(least, 1, width=32, allow_subnormal=False)
    drawn = draw(st.lists(st.one_of(some, st.just(least)), min_size=count, max_size=count))
    return torch.tensor(drawn).view(size, targets, sources + 1)


@given(word_scores(2**-10), st.sampled_from(["eos", "mask", "none"]), st.sampled_from([0.45, SHARPNESS, 0.6]))
def test_sharpened_shares_equal_naive_bisection(scores: Tensor, null: Any, sharpness: float) -> None:
    off = 1e-3 if sharpness == 0.5 else 2e-5  # at any power two scores that are the same have about half of a row each
    for one, ours in zip(scores, sharpen(scores, null, sharpness), strict=True):
        expected = torch.tensor(naive.sharpen(one.tolist(), null, sharpness))
        torch.testing.assert_close(ours, expected, atol=off, rtol=1e-4)


@given(word_scores(), st.sampled_from(["eos", "none"]), st.integers(0, 3), st.integers(0, 3))
def test_padding_changes_no_sharpened_share(scores: Tensor, null: Any, rows: int, columns: int) -> None:
    words, eos = scores[..., :-1], scores[..., -1:]
    wide = torch.cat([torch.nn.functional.pad(words, (0, columns)), eos], -1)
    padded = sharpen(torch.nn.functional.pad(wide, (0, 0, 0, rows)), null)
    targets, sources = words.shape[1:]
    torch.testing.assert_close(padded[:, :targets, :sources], sharpen(scores, null), atol=1e-5, rtol=1e-4)
    assert not padded[:, targets:].any()
    assert not padded[:, :, sources:].any()


def test_rows_without_any_score_count_for_nothing() -> None:
    scores = torch.tensor([[0.9, 0.05, 0.05], [0.0, 0.0, 0.0], [-1.0, nan, 0.0], [0.2, 0.3, 0.5]])
    found = sharpen(scores[None], "eos")[0]
    torch.testing.assert_close(found[[0, 3]], sharpen(scores[None, [0, 3]], "eos")[0])
    assert not found[1:3].any()
    assert not sharpen(torch.zeros(2, 3, 4), "eos").any()
    assert not sharpen(torch.tensor([[[inf, inf, 1.0]]]), "eos").isnan().any()
    least = torch.tensor([[[1e-40, 1e-41, 0.0], [0.6, 0.3, 0.1]]])  # smaller than float32 can tell well
    torch.testing.assert_close(sharpen(least, "eos")[:, 1:], sharpen(least[:, 1:], "eos"))


# Soft scores


@given(two_directions())
def test_soft_scores_equal_naive_loops(both: tuple[Tensor, Tensor]) -> None:
    forward, reverse = both
    for one, other, ours in zip(forward, reverse, soft_scores(forward, reverse), strict=True):
        torch.testing.assert_close(ours, torch.tensor(naive.soft_scores(one.tolist(), other.tolist())))
    for one, ours in zip(forward, soft_scores(forward), strict=True):
        torch.testing.assert_close(ours, torch.tensor(naive.soft_scores(one.tolist())))


@given(two_directions(), st.integers(0, 3), st.integers(0, 3))
def test_padding_changes_nothing(both: tuple[Tensor, Tensor], rows: int, columns: int) -> None:
    forward, reverse = both
    targets, sources = forward.shape[1:]
    wide = (
        torch.nn.functional.pad(forward, (0, columns, 0, rows)),
        torch.nn.functional.pad(reverse, (0, rows, 0, columns)),
    )
    for padded, scores in (
        (soft_scores(*wide), soft_scores(forward, reverse)),
        (soft_scores(wide[0]), soft_scores(forward)),
    ):
        torch.testing.assert_close(padded[:, :targets, :sources], scores)
        assert not padded[:, targets:].any()
        assert not padded[:, :, sources:].any()


@pytest.mark.parametrize("share", [1.0, 0.3, 1e-8, 1e-12, 1e-18])
def test_words_that_have_only_each_other_score_1(share: float) -> None:
    order = torch.tensor([2, 0, 3, 1])
    forward = share * torch.eye(4)[order].unsqueeze(0)
    for scores in (soft_scores(forward, forward.transpose(1, 2)), soft_scores(forward)):
        assert torch.equal(scores, torch.eye(4)[order].unsqueeze(0))
    # one sure direction is enough
    scores = soft_scores(forward, torch.full((1, 4, 4), 0.25))
    assert torch.equal(scores, torch.eye(4)[order].unsqueeze(0))


# Links


def test_links_are_source_and_target_with_their_scores() -> None:
    scores = torch.tensor([[[0.25, 0.75, 0.0], [0.5, 1.0, 0.5]], [[0.0, 0.0, 0.625], [0.0, 0.0, 0.0]]])
    assert links_above(scores, 0.5) == [{(1, 0): 0.75, (1, 1): 1.0}, {(2, 0): 0.625}]
    assert links_above(scores, 0.625) == [{(1, 0): 0.75, (1, 1): 1.0}, {}]
    assert links_above(scores, 1) == [{}, {}]
    ascending = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1)]
    assert [[*links] for links in links_above(scores, 0)] == [ascending, [(2, 0)]]
    assert links_above(scores[:0], 0.5) == []


# Shares


@given(st.data(), st.sampled_from(["eos", "none", "mask"]))
def test_shares_equal_naive_loops_and_those_of_the_best_words(data: st.DataObject, null: str) -> None:
    targets, sources = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    values = st.one_of(st.sampled_from([0.0, -1.0]), st.floats(2**-20, 8, width=32))
    cells = data.draw(st.lists(values, min_size=targets * (sources + 1), max_size=targets * (sources + 1)))
    scores = torch.tensor(cells).view(targets, sources + 1)
    found = shares(scores, null)  # type: ignore[arg-type]
    torch.testing.assert_close(found, torch.tensor(naive.shares(scores.tolist(), null)))
    assert (found >= 0).all()
    assert (found.sum(-1) <= 1 + 1e-6).all()
    for row, index, share in zip(found, *best_words(scores, null), strict=True):  # type: ignore[arg-type]
        if index >= 0:
            assert row[index] == row.max()
            torch.testing.assert_close(row[index], share)
