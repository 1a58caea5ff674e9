"""Adversarial training loss, and distances between models with similar predictions and different attention.

An adversary learns to predict what a trained model predicts while its attention moves away from that model's (Wiegreffe
and Pinter 2019, section 4, after Jain and Wallace 2019). Where it moves far, attention is not the only explanation.

Letters: N words, H heads, S columns that a head attends to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata
from torch import Tensor

from align.analysis.similarity import js

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


Output = tuple[NDArray[Any], NDArray[Any]]
"""A model's predictions for T words, probabilities `[T, K]`, and its attention `[H, T, S]`."""


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


def distance(original: Iterable[Output], adversary: Iterable[Output]) -> Distance:
    """Return the distance of a model from the original, from their outputs for the same sentences."""
    tvd, between, correlations = [], [], []
    for (predicted, attention), (other_predicted, other_attention) in zip(original, adversary, strict=True):
        tvd.append(np.abs(np.asarray(predicted, np.float64) - other_predicted).sum(-1) / 2)  # [T]
        between.append(js(attention[:, None], other_attention[None]))  # [H, H, T]
        first, second = (rankdata(x, axis=-1) - (x.shape[-1] + 1) / 2 for x in (attention, other_attention))
        with np.errstate(invalid="ignore"):
            correlation = (first * second).sum(-1) / np.sqrt((first**2).sum(-1) * (second**2).sum(-1))  # [H, T]
        correlations.append(correlation[np.isfinite(correlation)])
    heads = np.concatenate(between, -1).mean(-1)  # [H, H]
    matched = heads[linear_sum_assignment(heads)].mean()
    known = np.concatenate(correlations)
    ranks = float(known.mean()) if len(known) else math.nan
    own = np.diag(heads)
    return Distance(float(np.concatenate(tvd).mean()), float(own.mean()), float(matched), ranks, own)
