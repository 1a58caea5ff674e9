"""Soft symmetrisation: links from the word scores of two directions, where heuristics only use their best words.

Letters: B batch, J target words, I source words.
"""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from align.core.scores import TINY, shares
from align.core.settings import Null

SHARPNESS = 0.5
"""Mean share of a target word's best source word in its row, over a pair; chosen on German–English gold."""

POWERS = 0.5, 4.0
"""Limits of the power that rows are raised to: a pair of a few words does not justify more."""

ALONE = 0.1
"""Weight of a link without linked neighbours, where a neighbour weighs its score."""

_LEAST = 1e-6
"""Distance to 0 and 1 that a mean keeps, so that its log odds are finite."""

_STEPS = 5
"""Newton steps, from 1: the remaining error of the power is below float32's precision, except in ties."""


def sharpen(scores: Tensor, null: Null, sharpness: float = SHARPNESS) -> Tensor:
    """Return shares of rows that are as sharp in one pair as in another.

    One head puts nearly all of its attention on one word, another spreads it out; norm and weight of the same head
    differ, and short sentences differ from long ones. No threshold suits all of them. So the rows of a pair are raised
    to one power, within POWERS, at which the largest share of a row has a given mean. The best word of each row stays
    the best. Introduced here; eval/results/bundled.defaults.tsv has figures.

    Args:
        scores: word scores `[B, J, I+1]`, the last column being `</s>`; rows without scores are ignored.
        null: with "eos" `</s>` has a share, otherwise it has none.
        sharpness: the mean, between 0 and 1.

    Returns:
        `[B, J, I]`, from 0 to 1; 0 in a row without any score.
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
    """Return the power of each pair `[B]`.

    Args:
        logs: logarithm of each score's part of its row's largest score `[B, J, I]`.
        scored: rows that count `[B, J]`.
        sharpness: mean of the largest shares.
    """
    goal = log(sharpness / (1 - sharpness))
    count = scored.sum(1).clamp_(min=1)
    power = torch.ones_like(count, dtype=logs.dtype)
    for _ in range(_STEPS):  # on the mean's log odds, which are nearly a straight line
        raised = (logs * power[:, None, None]).exp_()
        total = raised.sum(-1)  # the largest share of a row is one part of this
        mean = ((scored / total).sum(1) / count).clamp_(_LEAST, 1 - _LEAST)
        growth = -(scored * raised.mul_(logs).sum(-1) / total**2).sum(1) / count
        step = (mean.logit() - goal) * mean * (1 - mean) / growth.clamp_(min=TINY)
        power = (power - step).clamp_(*POWERS)
    return power


def soft_scores(forward: Tensor, reverse: Tensor | None = None) -> Tensor:
    """Return how well two words match each other, by both directions and by their neighbours.

    The product of both directions, `p = f r`, requires them to agree. `c(p)` normalises it by the competing words of
    either side, so that a link of two words without competitors scores 1 however unsure the models are:

        c(p)[j,i] = p[j,i] / sqrt(sum_i' p[j,i'] sum_j' p[j',i])

    Neighbours of linked words are likely to be linked. So the result is `c` of `p sqrt(ALONE + n)`, where n is the sum
    of `c(p)` over the up to eight cells around a link. Introduced here; eval/results/bundled.variants.tsv has figures.

    With one model `p = f f`.

    Args:
        forward: f, the shares of the source words for each target word `[B, J, I]`.
        reverse: r, the shares of the target words for each source word `[B, I, J]`.

    Returns:
        `[B, J, I]`, from 0 to 1.
    """
    first = forward.double()  # claims multiply four shares, which float32 may not have room for
    product = first * (first if reverse is None else reverse.double().transpose(1, 2))
    weights = around(claims(product).to(forward)).add_(ALONE).sqrt_()
    return claims(product.mul_(weights)).to(forward)


def claims(products: Tensor) -> Tensor:
    """Return the geometric mean of each product's shares of its row and of its column `[B, J, I]`."""
    both = products.sum(2, keepdim=True) * products.sum(1, keepdim=True)
    return products / both.sqrt_().clamp_(min=torch.finfo(products.dtype).tiny)


def around(scores: Tensor) -> Tensor:
    """Return for each cell of `[B, J, I]` the sum of the up to eight cells that touch it."""
    return _three(_three(scores).mT).mT.sub_(scores).clamp_(min=0)


def _three(scores: Tensor) -> Tensor:
    """Return the sum of each cell and its two neighbours in the row, which is faster than pooling."""
    sums = scores.clone()
    sums[..., 1:] += scores[..., :-1]
    sums[..., :-1] += scores[..., 1:]
    return sums


def links_above(scores: Tensor, threshold: float) -> list[dict[tuple[int, int], float]]:
    """Return the links of each pair of a batch `[B, J, I]`, (source, target), whose scores exceed the threshold."""
    links: list[dict[tuple[int, int], float]] = [{} for _ in range(len(scores))]
    chosen = (scores > threshold).nonzero(as_tuple=True)
    for b, j, i, score in zip(*(part.tolist() for part in (*chosen, scores[chosen])), strict=True):
        links[b][i, j] = score
    return links
