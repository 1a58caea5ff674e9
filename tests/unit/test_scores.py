"""Cells, rows, NULL and the argmax."""

from dataclasses import replace
from typing import get_args

import pytest
import torch

from align.core.scores import CELL_SCORES, best_words, head_products, hide_eos, target_rows
from align.core.types import CrossAttention, Head, Score
from align.evaluation.swept import SCORES


def attention() -> CrossAttention:
    torch.manual_seed(0)
    weights = torch.randn(2, 3, 4, 5).softmax(-1)
    return CrossAttention(1, weights, torch.randn(2, 3, 5, 2), torch.randn(3, 2, 6))


@pytest.mark.parametrize("score", ["weight", "norm"])
@pytest.mark.parametrize("heads", [["all"], [2], [3, 1], ["all", 1, 2, 3], [2, "all"]])
def test_cells_come_as_asked_whatever_is_asked_beside_them(score: Score, heads: list[Head]) -> None:
    recorded = attention()
    scores = CELL_SCORES[score](recorded, heads)
    assert scores.shape == (2, len(heads), 4, 5)
    for c, head in enumerate(heads):
        torch.testing.assert_close(scores[:, c], CELL_SCORES[score](recorded, [head])[:, 0])


def test_products_that_a_model_keeps_change_no_digit() -> None:
    recorded = attention()
    kept = replace(recorded, products=head_products(recorded.out_proj))
    assert torch.equal(CELL_SCORES["norm"](kept, ["all", 2]), CELL_SCORES["norm"](recorded, ["all", 2]))


def test_every_score_has_a_function() -> None:
    assert set(CELL_SCORES) == set(get_args(Score)) == set(SCORES)
    assert SCORES[:2] == ("weight", "norm")  # the order of what extract-align sweep prints


def test_weight_of_all_heads_is_their_mean() -> None:
    recorded = attention()
    torch.testing.assert_close(CELL_SCORES["weight"](recorded, ["all"])[:, 0], recorded.weights.mean(1))
    torch.testing.assert_close(CELL_SCORES["weight"](recorded, [2])[:, 0], recorded.weights[:, 1])


def test_rows_of_a_position() -> None:
    steps = torch.arange(4).unsqueeze(1)  # step 0 reads </s> and predicts piece 0
    assert target_rows(steps, "output").flatten().tolist() == [0, 1, 2]
    assert target_rows(steps, "input").flatten().tolist() == [1, 2, 3]


def test_eos_column_is_null_or_no_choice() -> None:
    scores = torch.tensor([[0.2, 0.3, 0.5], [0.4, 0.35, 0.25]])
    index, share = best_words(scores, "eos")
    assert index.tolist() == [-1, 0]
    assert share[1].item() == pytest.approx(0.4)
    for null in ("none", "mask"):
        index, share = best_words(scores, null)
        assert index.tolist() == [1, 0]
        assert share.tolist() == pytest.approx([0.3 / 0.5, 0.4 / 0.75])


def test_words_without_pieces_win_nothing_and_get_nothing() -> None:
    scores = torch.tensor([[-1.0, 0.0, 0.0], [-1.0, 0.1, 0.0], [-1.0, -1.0, 0.0]])
    assert best_words(scores, "eos")[0].tolist() == [-1, 1, -1]
    assert best_words(scores, "none")[0].tolist() == [-1, 1, -1]
    assert torch.isfinite(best_words(scores, "none")[1]).all()


def test_scores_that_are_no_numbers_link_nothing() -> None:
    assert best_words(torch.tensor([[float("nan"), 0.5, 0.1]]), "eos")[0].tolist() == [-1]


def test_of_equals_the_first_word_wins() -> None:
    assert best_words(torch.tensor([[0.3, 0.3, 0.3]]), "eos")[0].tolist() == [0]


def test_hidden_eos_equals_a_mask_before_the_softmax() -> None:
    torch.manual_seed(0)
    logits = torch.randn(1, 2, 3, 4) * 5
    source_words = torch.tensor([[0, 1, 1, -1]])
    masked = logits.masked_fill(source_words[:, None, None, :] < 0, float("-inf")).softmax(-1)
    torch.testing.assert_close(hide_eos(logits.softmax(-1), source_words), masked)


def test_hidden_eos_that_had_everything_leaves_zeros() -> None:
    weights = torch.tensor([[[[0.0, 0.0, 1.0]]]])
    assert hide_eos(weights, torch.tensor([[0, 1, -1]])).tolist() == [[[[0.0, 0.0, 0.0]]]]
