"""From attention to links: scores of the cells, the row that speaks for a target piece, the argmax.

Letters: B batch, H heads, C cells (heads, or all of them), T target pieces, S source pieces,
J target words, I source words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from align.core.norms import gram, head_norms, head_products, vector_norms
from align.core.settings import Null
from align.core.types import CrossAttention, Head, Position, Score

TINY = torch.finfo(torch.float32).tiny
"""What keeps a sum of no score at all from being divided by; bfloat16 has room for it too."""


def hide_eos(weights: Tensor, source_words: Tensor) -> Tensor:
    """Attention as if the source's `</s>` were not there: each head's weights renormalised over the rest.

    This equals masking `</s>` before the softmax (as SHIFT-ATT does; Chen et al., EMNLP 2020).

    Args:
        weights: attention weights `[B, H, T, S]`.
        source_words: word of each source piece `[B, S]`, negative for `</s>` and pads.

    Returns:
        `[B, H, T, S]`.
    """
    kept = weights * (source_words >= 0)[:, None, None, :]
    return kept / kept.sum(-1, keepdim=True).clamp_(min=TINY)


def weight_scores(attention: CrossAttention, heads: Sequence[Head]) -> Tensor:
    """Attention weights a_h, and for all heads together their mean; see `cell_scores`."""
    weights = attention.weights.float()
    if "all" not in heads:
        return weights[:, [head - 1 for head in heads if head != "all"]]  # [B, C, T, S]
    return torch.stack([weights.mean(1) if head == "all" else weights[:, head - 1] for head in heads], dim=1)


def norm_scores(attention: CrossAttention, heads: Sequence[Head]) -> Tensor:
    """Norms ||a_h f_h(x)||, and for all heads together that of the sum (Kobayashi et al. 2020, eq. 5)."""
    weights, values, out_proj = (x.float() for x in (attention.weights, attention.values, attention.out_proj))
    if "all" not in heads:
        single = [head - 1 for head in heads if head != "all"]
        return head_norms(weights[:, single], gram(values[:, single], head_products(out_proj[single])))  # [B, C, T, S]
    inner = gram(values, attention.products or head_products(out_proj))  # [B, S, H, H]
    together = vector_norms(weights, inner)  # [B, T, S]
    by_head = head_norms(weights, inner) if len(heads) > 1 else weights  # [B, H, T, S]
    return torch.stack([together if head == "all" else by_head[:, head - 1] for head in heads], dim=1)


CELL_SCORES: dict[Score, Callable[[CrossAttention, Sequence[Head]], Tensor]] = {
    "norm": norm_scores,
    "weight": weight_scores,
}
"""The ways to score, by name; a new one is named in `align.core.types.Score` too."""


def cell_scores(attention: CrossAttention, heads: Sequence[Head], score: Score) -> Tensor:
    """Scores of a layer for some of its heads.

    Args:
        attention: one layer's attention, rows of any number of steps T.
        heads: C of them, counted from 1; "all" stands for all heads taken together.
        score: a key of CELL_SCORES.

    Returns:
        `[B, C, T, S]`, in float32.
    """
    return CELL_SCORES[score](attention, heads)


def target_rows(scores: Tensor, position: Position) -> Tensor:
    """The rows that speak for the target's pieces, out of one row for each decoder step.

    Step t reads piece t-1 (step 0 reads `</s>`) and predicts piece t. In the output position a piece is
    aligned by the step that predicts it, in the input position by the step that reads it.

    Args:
        scores: `[..., T+1, S]`, one row for each step.
        position: "input" or "output".

    Returns:
        `[..., T, S]`, row t for piece t.
    """
    return scores[..., 1:, :] if position == "input" else scores[..., :-1, :]


def both_positions(read: Tensor, predicted: Tensor) -> Tensor:
    """Word scores of the input and the output position combined: `a b^0.5` of a row's shares.

    What a model attends to when it predicts a word is a worse guide than what it attends to when it reads it, but errs
    in other places. The exponent was chosen on German–English gold; eval/results/bundled.variants.tsv has others.

    Args:
        read: the input position's word scores `[..., J, I+1]`, the last column being `</s>`.
        predicted: the output position's, likewise.

    Returns:
        `[..., J, I+1]`.
    """
    a, b = (
        scores / scores.sum(-1, keepdim=True).clamp_(min=TINY) for scores in (read.clamp(min=0), predicted.clamp(min=0))
    )
    return a * b.sqrt_()


def best_words(scores: Tensor, null: Null) -> tuple[Tensor, Tensor]:
    """The best source word for every target word, and the share of the row that it holds.

    Args:
        scores: word scores `[..., J, I+1]`, the last column being `</s>`.
        null: with "eos" `</s>` may win, which leaves the target word unaligned; otherwise it may not.

    Returns:
        Index of the source word `[..., J]`, -1 where the target word stays unaligned, and its share of
        the row's total over all that may win, between 0 and 1 `[..., J]`.
    """
    eos = scores.shape[-1] - 1
    candidates = scores if null == "eos" else scores[..., :eos]
    top, index = candidates.max(-1)
    total = candidates.clamp(min=0).sum(-1)
    unaligned = (index == eos) | ~(total > 0)  # no score at all: a target word without pieces
    return index.masked_fill(unaligned, -1), top / total.clamp(min=TINY)


def shares(scores: Tensor, null: Null) -> Tensor:
    """What each source word holds of its row's total, over all that may win as `best_words` has it.

    Args:
        scores: word scores `[..., J, I+1]`, the last column being `</s>`.
        null: with "eos" `</s>` has its share, otherwise it has none.

    Returns:
        `[..., J, I]`, between 0 and 1; 0 where a row has no score at all.
    """
    positive = scores.nan_to_num(nan=0.0).clamp_(min=0)
    words = positive[..., :-1]
    total = (positive if null == "eos" else words).sum(-1, keepdim=True)
    return words / total.clamp_(min=TINY)
