"""Norms of attention-weighted vectors, ||a f(x)||, without ever forming the vectors.

Kobayashi et al. (EMNLP 2020) write the output of multi-head attention at target step t as
`y_t = sum_s sum_h a_h[t,s] f_h(x_s) + b_O` with `f_h(x) = (x W_V + b_V)_h W_O[h]`, and score the
source piece s by the norm of its own term. All those norms follow from the inner products
`G_s[h,g] = f_h(x_s) . f_g(x_s)`: H*H numbers a source piece in place of T*D.

Letters: B batch, H heads, T target steps, S source pieces, d head size, D model size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def head_products(out_proj: Tensor) -> list[Tensor]:
    """Return the products of a layer's output projections that `gram` needs, which do not depend on the text.

    Args:
        out_proj: output projection of each head, without bias `[H, d, D]`.

    Returns:
        For each head h `[d, (h+1)*d]`: `W_O[h] W_O[g]^T` of the heads g up to h, side by side.
    """
    return [out_proj[h] @ out_proj[: h + 1].flatten(0, 1).T for h in range(len(out_proj))]


def gram(values: Tensor, products: Sequence[Tensor]) -> Tensor:
    """Return the inner products of a source piece's transformed vectors, for every pair of heads.

    Args:
        values: value vectors with their bias `[B, H, S, d]`.
        products: products of the output projections, see `head_products`.

    Returns:
        `[B, S, H, H]`, symmetric, with `G[b,s,h,g] = f_h(x_s) . f_g(x_s)`.
    """
    batch, heads, length, size = values.shape
    vectors = values.transpose(1, 2).reshape(batch * length, heads, size)  # [B*S, H, d]
    inner = torch.empty((batch * length, heads, heads), dtype=values.dtype, device=values.device)
    for h, between in enumerate(products):  # with this head and those before it; G is symmetric
        row = (vectors[:, h] @ between).view(-1, h + 1, size).mul_(vectors[:, : h + 1]).sum(2)  # [B*S, h+1]
        inner[:, h, : h + 1] = row
        inner[:, : h + 1, h] = row
    return inner.view(batch, length, heads, heads)


def vector_norms(weights: Tensor, gram: Tensor) -> Tensor:
    """Return the norm of the sum over heads, `||sum_h a_h f_h(x_s)|| = sqrt(a^T G_s a)` (Kobayashi et al. 2020, eq. 5).

    Args:
        weights: attention weights `[B, H, T, S]`.
        gram: inner products `[B, S, H, H]`.

    Returns:
        `[B, T, S]`. Squares that are negative by rounding count as 0.
    """
    inner = gram.permute(2, 3, 0, 1).unsqueeze(3)  # [H, H, B, 1, S]
    squares = torch.zeros_like(weights[:, 0])  # [B, T, S]
    for h in range(weights.shape[1]):
        row = weights[:, h] * inner[h, h]  # [B, T, S]
        for g in range(h):
            row.addcmul_(weights[:, g], inner[h, g], value=2)  # G is symmetric: each pair of heads once
        squares.addcmul_(weights[:, h], row)
    return squares.clamp_(min=0).sqrt_()


def head_norms(weights: Tensor, gram: Tensor) -> Tensor:
    """Return the norm of each head by itself, `||a_h f_h(x_s)|| = a_h sqrt(G_s[h,h])`.

    Args:
        weights: attention weights `[B, H, T, S]`.
        gram: inner products `[B, S, H, H]`.

    Returns:
        `[B, H, T, S]`.
    """
    return weights * source_norms(gram).unsqueeze(2)


def source_norms(gram: Tensor) -> Tensor:
    """Return the norm of each transformed vector, `||f_h(x_s)||`, which does not depend on attention.

    Args:
        gram: inner products `[B, S, H, H]`.

    Returns:
        `[B, H, S]`.
    """
    return gram.diagonal(dim1=2, dim2=3).clamp(min=0).sqrt().transpose(1, 2)
