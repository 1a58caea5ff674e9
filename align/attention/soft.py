"""Soft symmetrisation: links out of the scores of two directions, where heuristics have only their best words.

Letters: B batch, J target words, I source words.
"""

from __future__ import annotations

import torch
from torch import Tensor


def soft_scores(forward: Tensor, reverse: Tensor | None = None) -> Tensor:
    """How much two words are each other's match, `p[j,i] / sqrt(sum_i' p[j,i'] sum_j' p[j',i])` with `p = f r`.

    The product asks both directions to agree; what it is divided by asks what else either word has a claim to, so
    that a link of two words that have nothing but each other scores 1 however unsure the models are. This is ours.

    One model speaks for both directions: `p = f f`. By f itself, which is less sharp, a threshold that suits a head
    that is sure of its word leaves hardly a link where attention is spread out (eval/results/bundled.defaults.tsv).

    Args:
        forward: f, for each target word the shares of the source words `[B, J, I]`.
        reverse: r, for each source word the shares of the target words `[B, I, J]`.

    Returns:
        `[B, J, I]`, between 0 and 1.
    """
    first = forward.double()  # claims multiply four shares, which float32 may not have room for
    product = first * (first if reverse is None else reverse.double().transpose(1, 2))
    claims = product.sum(2, keepdim=True) * product.sum(1, keepdim=True)
    return (product / claims.sqrt_().clamp_(min=torch.finfo(product.dtype).tiny)).to(forward)


def links_above(scores: Tensor, threshold: float) -> list[dict[tuple[int, int], float]]:
    """Links of each pair of a batch `[B, J, I]`, (source, target), with the scores that are above the threshold."""
    links: list[dict[tuple[int, int], float]] = [{} for _ in range(len(scores))]
    chosen = (scores > threshold).nonzero(as_tuple=True)
    for b, j, i, score in zip(*(part.tolist() for part in (*chosen, scores[chosen])), strict=True):
        links[b][i, j] = score
    return links
