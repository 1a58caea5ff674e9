"""Models that say the same and attend elsewhere: what they are trained with, and how far they come.

An adversary learns to predict what a trained model predicts while its attention moves away from that model's (Wiegreffe
and Pinter 2019, section 4, after Jain and Wallace 2019). Where it gets far, attention is not the only explanation.

Letters: N words, H heads, S columns that a head attends to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata
from torch import Tensor

from align.analysis.similarity import js, tvd

Doubles = NDArray[np.float64]


def log_kl(new: Tensor, old: Tensor) -> Tensor:
    """KL of one distribution from another, of logarithms `[..., S]`, all finite: `[...]`; it has no upper end."""
    return (new.exp() * (new - old)).sum(-1)


def log_js(new: Tensor, old: Tensor) -> Tensor:
    """Jensen-Shannon divergence, of logarithms `[..., S]`, all finite: `[...]`, at most log 2."""
    middle = torch.logaddexp(new, old) - math.log(2)
    return (log_kl(new, middle) + log_kl(old, middle)) / 2


DIVERGENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"js": log_js, "kl": log_kl}


def adversarial_loss(
    said: Tensor, original: Tensor, attention: Tensor, original_attention: Tensor, weight: float, divergence: str
) -> Tensor:
    """What an adversary makes little: mean over words of NLL(original, said) - weight * mean over heads of divergence.

    NLL is the cross entropy with the whole distribution of the original, so that it is least where both are the same;
    the divergence is of the adversary's attention from the original's.

    Args:
        said: logarithmic probabilities of the adversary `[N, K]`.
        original: those of the original `[N, K]`.
        attention: logarithmic weights of the adversary `[N, H, S]`.
        original_attention: those of the original `[N, H, S]`.
        weight: lambda.
        divergence: a key of DIVERGENCES.
    """
    likelihood = -(original.exp() * said).sum(-1).mean()
    away = DIVERGENCES[divergence](attention, original_attention).mean()
    return likelihood - weight * away


@dataclass(frozen=True)
class Sentence:
    """What a model says of T words, probabilities `[T, K]`, and its attention `[H, T, S]`."""

    said: NDArray[Any]
    attention: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Distance:
    """How far a model is from the original, as means over words.

    Attributes:
        tvd: total variation distance of predictions.
        js: Jensen-Shannon divergence of attention, each head from the original's of the same number.
        matched: the same where each head is held against the one of the original that makes the mean least.
        ranks: Spearman's correlation of a row of attention with the original's; rows of one value are left out.
        heads: `js` of each head `[H]`.
    """

    tvd: float
    js: float
    matched: float
    ranks: float
    heads: Doubles


def distance(original: Iterable[Sentence], other: Iterable[Sentence]) -> Distance:
    """How far a model is from the original on the same sentences."""
    said = []
    apart: list[Doubles] = []
    ranks: list[Doubles] = []
    for a, b in zip(original, other, strict=True):
        said.append(tvd(a.said, b.said))
        apart.append(js(a.attention[:, None], b.attention[None]))  # [H, H, T]
        ranks.append(rank_correlation(a.attention, b.attention).ravel())
    between = np.concatenate(apart, -1).mean(-1)  # [H, H]
    matched = between[linear_sum_assignment(between)].mean()
    known = np.concatenate(ranks)
    known = known[np.isfinite(known)]
    mean = float(known.mean()) if len(known) else math.nan
    heads = np.diag(between)
    return Distance(float(np.concatenate(said).mean()), float(heads.mean()), float(matched), mean, heads)


def rank_correlation(a: NDArray[Any], b: NDArray[Any]) -> Doubles:
    """Spearman's correlation of rows `[..., S]`: `[...]`, NaN where one of both has one value only."""
    ranks = [rankdata(x, axis=-1) for x in (a, b)]
    first, second = (x - x.mean(-1, keepdims=True) for x in ranks)
    with np.errstate(invalid="ignore"):
        correlation: Doubles = (first * second).sum(-1) / np.sqrt((first**2).sum(-1) * (second**2).sum(-1))
    return correlation


def safe_point(points: Sequence[Distance], threshold: float) -> int | None:
    """The model whose attention is farthest from the original's while its predictions' TVD is no more than a threshold.

    Returns:
        Its place in `points`; None where there is no such model.
    """
    safe = [n for n, point in enumerate(points) if point.tvd <= threshold]
    return max(safe, key=lambda n: points[n].js, default=None)
