"""Soft symmetrisation: links out of the scores of two directions, where heuristics have only their best words.

Letters: B batch, J target words, I source words.
"""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from align.core.scores import TINY, shares
from align.core.settings import Null

SHARPNESS = 0.5
"""What the best source word of a target word holds of its row, in the mean over a pair. docs/choices.md says how it was
chosen."""

POWERS = 0.5, 4.0
"""The powers that rows may be raised to: a pair of a few words says too little for more."""

ALONE = 0.1
"""What a link without linked neighbours weighs, where a neighbour weighs its score. docs/choices.md has others."""

_LEAST = 1e-6
"""Nearer to 0 and 1 a mean has no log odds worth the name."""

_STEPS = 5
"""Newton's, from 1: what is left to the power that is looked for is then below what float32 can tell, unless the
largest scores of a row tie."""


def sharpen(scores: Tensor, null: Null, sharpness: float = SHARPNESS) -> Tensor:
    """Shares of rows that are as sharp in one pair as in another: each pair's rows to the power that does this.

    One head puts nearly all of its attention on one word, another spreads it out, and so do the norm and the weight of
    the same head, and the same head in a short sentence and in a long one. What is a large share then differs, and no
    threshold suits them all. The rows of a pair are raised to the one power, within POWERS, at which the largest share
    of a row has a given mean. The best word of each row stays the best. This is ours; figures are in
    eval/results/bundled.defaults.tsv.

    Args:
        scores: word scores `[B, J, I+1]`, the last column being `</s>`; rows without a score count for nothing.
        null: with "eos" `</s>` has its share, otherwise it has none.
        sharpness: that mean, between 0 and 1.

    Returns:
        `[B, J, I]`, between 0 and 1; 0 where a row has no score at all.
    """
    rows = scores.nan_to_num(nan=0.0).clamp_(min=0)
    if null != "eos":
        rows[..., -1] = 0
    top = rows.amax(-1, keepdim=True)
    scored = top >= TINY
    logs = (rows / top.clamp(min=TINY)).clamp_(min=TINY).log_().masked_fill_(~scored, 0)  # parts of a row's largest
    raised = logs.mul_(_powers(logs, scored[..., 0], sharpness)[:, None, None]).exp_() * ((rows > 0) & scored)
    return shares(raised, null)


def _powers(logs: Tensor, scored: Tensor, sharpness: float) -> Tensor:
    """The power of each pair `[B]`.

    Args:
        logs: of each score's part of its row's largest `[B, J, I]`.
        scored: the rows that count `[B, J]`.
        sharpness: what their largest shares are to have for a mean.
    """
    wanted = log(sharpness / (1 - sharpness))
    count = scored.sum(1).clamp_(min=1)
    power = torch.ones_like(count, dtype=logs.dtype)
    for _ in range(_STEPS):  # on the mean's log odds, which are nearly a straight line
        raised = (logs * power[:, None, None]).exp_()
        total = raised.sum(-1)  # the largest share of a row is one part of this
        mean = ((scored / total).sum(1) / count).clamp_(_LEAST, 1 - _LEAST)
        growth = -(scored * raised.mul_(logs).sum(-1) / total**2).sum(1) / count
        step = (mean.logit() - wanted) * mean * (1 - mean) / growth.clamp_(min=TINY)
        power = (power - step).clamp_(*POWERS)
    return power


def soft_scores(forward: Tensor, reverse: Tensor | None = None) -> Tensor:
    """How much two words are each other's match, by what both directions say and by the words beside them.

    The product of both directions, `p = f r`, asks them to agree; `c(p)` asks what else either word has a claim to, so
    that a link of two words that have nothing but each other scores 1 however unsure the models are:

        c(p)[j,i] = p[j,i] / sqrt(sum_i' p[j,i'] sum_j' p[j',i])

    Words that are linked have neighbours that are linked. So the claims are weighed again with
    `p sqrt(ALONE + n)`, where n is the sum of `c(p)` over the up to eight cells around a link. This is ours; figures
    are in eval/results/bundled.variants.tsv.

    One model speaks for both directions: `p = f f`.

    Args:
        forward: f, for each target word the shares of the source words `[B, J, I]`.
        reverse: r, for each source word the shares of the target words `[B, I, J]`.

    Returns:
        `[B, J, I]`, between 0 and 1.
    """
    first = forward.double()  # claims multiply four shares, which float32 may not have room for
    product = first * (first if reverse is None else reverse.double().transpose(1, 2))
    weights = around(claims(product).to(forward)).add_(ALONE).sqrt_()
    return claims(product.mul_(weights)).to(forward)


def claims(products: Tensor) -> Tensor:
    """What each product holds of its row and of its column, in the geometric mean `[B, J, I]`; of nothing, 0."""
    both = products.sum(2, keepdim=True) * products.sum(1, keepdim=True)
    return products / both.sqrt_().clamp_(min=torch.finfo(products.dtype).tiny)


def around(scores: Tensor) -> Tensor:
    """For each cell of `[B, J, I]` the sum of the up to eight cells that touch it."""
    return _three(_three(scores).mT).mT.sub_(scores).clamp_(min=0)


def _three(scores: Tensor) -> Tensor:
    """The sum of each cell and of the two next to it in its row, which is faster than pooling."""
    sums = scores.clone()
    sums[..., 1:] += scores[..., :-1]
    sums[..., :-1] += scores[..., 1:]
    return sums


def links_above(scores: Tensor, threshold: float) -> list[dict[tuple[int, int], float]]:
    """Links of each pair of a batch `[B, J, I]`, (source, target), with the scores that are above the threshold."""
    links: list[dict[tuple[int, int], float]] = [{} for _ in range(len(scores))]
    chosen = (scores > threshold).nonzero(as_tuple=True)
    for b, j, i, score in zip(*(part.tolist() for part in (*chosen, scores[chosen])), strict=True):
        links[b][i, j] = score
    return links
