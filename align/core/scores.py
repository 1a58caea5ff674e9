"""Scores of attention cells, the rows that belong to a target piece, and the best source words.

Letters: B batch, H heads, C cells (heads, or all heads), T target pieces, S source pieces, J target words,
I source words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from align.core.norms import gram, head_norms, head_products, vector_norms
from align.core.settings import Null
from align.core.types import CrossAttention, Head, Position, Score

TINY = torch.finfo(torch.float32).tiny
"""Lower bound of a divisor, which also fits into bfloat16."""


def hide_eos(weights: Tensor, source_words: Tensor) -> Tensor:
    """Renormalise each head's weights without the source's `</s>`.

    This equals masking `</s>` before the softmax, as SHIFT-ATT does (Chen et al., EMNLP 2020).

    Args:
        weights: attention weights `[B, H, T, S]`.
        source_words: word of each source piece `[B, S]`, negative for `</s>` and pads.

    Returns:
        `[B, H, T, S]`.
    """
    of_words = weights * (source_words >= 0)[:, None, None, :]
    return of_words / of_words.sum(-1, keepdim=True).clamp_(min=TINY)


def weight_scores(attention: CrossAttention, heads: Sequence[Head]) -> Tensor:
    """Return attention weights a_h, and their mean for all heads together; see `cell_scores`."""
    weights = attention.weights.float()
    if "all" not in heads:
        return weights[:, [head - 1 for head in heads if head != "all"]]  # [B, C, T, S]
    return torch.stack([weights.mean(1) if head == "all" else weights[:, head - 1] for head in heads], dim=1)


def norm_scores(attention: CrossAttention, heads: Sequence[Head]) -> Tensor:
    """Return norms ||a_h f_h(x)||, and the norm of the sum for all heads together (Kobayashi et al. 2020, eq. 5)."""
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
"""Kinds of scores by name; `align.core.types.Score` lists the names, too."""


def cell_scores(attention: CrossAttention, heads: Sequence[Head], score: Score) -> Tensor:
    """Return the scores of some heads of a layer.

    Args:
        attention: attention of one layer, with any number T of rows.
        heads: C heads, from 1; "all" means all heads together.
        score: a key of CELL_SCORES.

    Returns:
        `[B, C, T, S]`, in float32.
    """
    return CELL_SCORES[score](attention, heads)


def target_rows(scores: Tensor, position: Position) -> Tensor:
    """Return the row of each target piece, from one row for each decoder step.

    Step t reads piece t-1 (step 0 reads `</s>`) and predicts piece t. In the output position a piece is aligned by the
    step that predicts it, in the input position by the step that reads it.

    Args:
        scores: `[..., T+1, S]`, one row for each step.
        position: "input" or "output".

    Returns:
        `[..., T, S]`, row t for piece t.
    """
    return scores[..., 1:, :] if position == "input" else scores[..., :-1, :]


def both_positions(read: Tensor, predicted: Tensor) -> Tensor:
    """Combine the word scores of both positions: `a b^0.5` of a row's shares.

    Attention when a word is predicted is a worse guide than when it is read, but errs in other places. The exponent was
    chosen on German–English gold; eval/results/bundled.variants.tsv has others.

    Args:
        read: word scores of the input position `[..., J, I+1]`, the last column being `</s>`.
        predicted: word scores of the output position, likewise.

    Returns:
        `[..., J, I+1]`.
    """
    a, b = (
        scores / scores.sum(-1, keepdim=True).clamp_(min=TINY) for scores in (read.clamp(min=0), predicted.clamp(min=0))
    )
    return a * b.sqrt_()


def best_words(scores: Tensor, null: Null) -> tuple[Tensor, Tensor]:
    """Return the best source word of every target word, and its share of the row.

    Args:
        scores: word scores `[..., J, I+1]`, the last column being `</s>`.
        null: with "eos" `</s>` may win, which leaves the target word unaligned; otherwise it may not.

    Returns:
        Index of the source word `[..., J]`, -1 for an unaligned target word, and its share of the row's total over all
        candidates, from 0 to 1 `[..., J]`.
    """
    eos = scores.shape[-1] - 1
    candidates = scores if null == "eos" else scores[..., :eos]
    top, index = candidates.max(-1)
    total = candidates.clamp(min=0).sum(-1)
    unaligned = (index == eos) | ~(total > 0)  # no score at all: a target word without pieces
    return index.masked_fill(unaligned, -1), top / total.clamp(min=TINY)


def shares(scores: Tensor, null: Null) -> Tensor:
    """Return each source word's share of its row's total, over the candidates of `best_words`.

    Args:
        scores: word scores `[..., J, I+1]`, the last column being `</s>`.
        null: with "eos" `</s>` has a share, otherwise it has none.

    Returns:
        `[..., J, I]`, from 0 to 1; 0 in a row without any score.
    """
    positive = scores.nan_to_num(nan=0.0).clamp_(min=0)
    words = positive[..., :-1]
    total = (positive if null == "eos" else words).sum(-1, keepdim=True)
    return words / total.clamp_(min=TINY)
