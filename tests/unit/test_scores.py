"""Cells, rows, NULL and the argmax."""

import pytest
import torch

from align.core.scores import CELL_SCORES, best_words, hide_eos, target_rows
from align.core.types import CrossAttention, Head, Score


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


def test_hidden_eos_equals_a_mask_before_the_softmax() -> None:
    torch.manual_seed(0)
    logits = torch.randn(1, 2, 3, 4) * 5
    source_words = torch.tensor([[0, 1, 1, -1]])
    masked = logits.masked_fill(source_words[:, None, None, :] < 0, float("-inf")).softmax(-1)
    torch.testing.assert_close(hide_eos(logits.softmax(-1), source_words), masked)
