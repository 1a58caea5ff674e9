"""Adversarial training loss, and distances between models with similar predictions and different attention.

An adversary learns to predict what a trained model predicts while its attention moves away from that model's (Wiegreffe
and Pinter 2019, section 4, after Jain and Wallace 2019). Where it moves far, attention is not the only explanation.

Letters: N words, H heads, S columns that a head attends to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata
from torch import Tensor

from align.analysis.similarity import js, tvd

Doubles = NDArray[np.float64]


def log_kl(new: Tensor, old: Tensor) -> Tensor:
    """Return the KL divergence of `new` from `old`, finite logarithms `[..., S]`: `[...]`; it has no upper bound."""
    return (new.exp() * (new - old)).sum(-1)


def log_js(new: Tensor, old: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence of distributions, finite logarithms `[..., S]`: `[...]`, at most log 2."""
    middle = torch.logaddexp(new, old) - math.log(2)
    return (log_kl(new, middle) + log_kl(old, middle)) / 2


DIVERGENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"js": log_js, "kl": log_kl}


def adversarial_loss(
    logits: Tensor, original: Tensor, attention: Tensor, original_attention: Tensor, weight: float, divergence: str
) -> Tensor:
    """Return the loss of an adversary: mean over words of NLL(original, said) - weight * mean over heads of divergence.

    NLL is the cross-entropy with the whole distribution of the original, so that it is lowest where both are the same;
    the divergence is that of the adversary's attention from the original's.

    Args:
        logits: log-probabilities of the adversary `[N, K]`; `original`: those of the original.
        attention: logarithms of the adversary's weights `[N, H, S]`; `original_attention`: those of the original.
        divergence: a key of DIVERGENCES.
    """
    likelihood = -(original.exp() * logits).sum(-1).mean()
    away = DIVERGENCES[divergence](attention, original_attention).mean()
    return likelihood - weight * away


class Sentence(NamedTuple):
    """A model's predictions for T words, probabilities `[T, K]`, and its attention `[H, T, S]`."""

    logits: NDArray[Any]
    attention: NDArray[Any]


class Distance(NamedTuple):
    """Distance of a model from the original, as means over words."""

    tvd: float  # total variation distance of predictions
    # Jensen-Shannon divergence of attention, each head compared with the original's head of the same number
    js: float
    # Jensen-Shannon divergence with heads matched to the original's so that the mean is lowest
    matched: float
    # Spearman's correlation of a row of attention with the original's; constant rows are left out
    ranks: float
    heads: Doubles  # `js` of each head `[H]`


def distance(original: Iterable[Sentence], adversary: Iterable[Sentence]) -> Distance:
    """Return the distance of a model from the original on the same sentences."""
    predictions = []
    head_distances: list[Doubles] = []
    ranks: list[Doubles] = []
    for a, b in zip(original, adversary, strict=True):
        predictions.append(tvd(a.logits, b.logits))
        head_distances.append(js(a.attention[:, None], b.attention[None]))  # [H, H, T]
        ranks.append(rank_correlation(a.attention, b.attention).ravel())
    between = np.concatenate(head_distances, -1).mean(-1)  # [H, H]
    matched = between[linear_sum_assignment(between)].mean()
    known = np.concatenate(ranks)
    known = known[np.isfinite(known)]
    mean = float(known.mean()) if len(known) else math.nan
    heads = np.diag(between)
    return Distance(float(np.concatenate(predictions).mean()), float(heads.mean()), float(matched), mean, heads)


def rank_correlation(a: NDArray[Any], b: NDArray[Any]) -> Doubles:
    """Return Spearman's correlation of rows `[..., S]`: `[...]`, NaN where either row is constant."""
    ranks = [rankdata(x, axis=-1) for x in (a, b)]
    first, second = (x - x.mean(-1, keepdims=True) for x in ranks)
    with np.errstate(invalid="ignore"):
        correlation: Doubles = (first * second).sum(-1) / np.sqrt((first**2).sum(-1) * (second**2).sum(-1))
    return correlation


def safe_point(points: Sequence[Distance], threshold: float) -> int | None:
    """Return the index of the point of the largest JSD among those with a TVD of at most `threshold`, if any."""
    safe = [n for n, point in enumerate(points) if point.tvd <= threshold]
    return max(safe, key=lambda n: points[n].js, default=None)
