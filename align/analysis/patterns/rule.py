"""Patterns of attention maps: vertical, diagonal, both, block, or heterogeneous (Kovaleva et al. 2019).

In the paper, annotators labelled 400 maps and a network trained on them labelled the rest. This module uses a rule
instead, based on how much of the attention goes to certain cells:

- stripes: the tenth of the columns, at least one, with the most attention in total;
- band: three neighbouring diagonals, whose middle one is at most two pieces before or after a row's own piece, chosen
  to get the most attention; cells in stripes are excluded. In cross-attention, where rows and columns differ, a row's
  own piece is at the same relative position in the other text;
- blocks: the cells whose row and column are in the same segment, only for texts with two segments, as BERT reads them.

Each is a share p of all attention, and is compared with q, the share that the same cells would get if every piece
attended equally to all that it may attend to: `score = (p - q) / (1 - q)` is 0 for such uniform attention, and 1 if
nothing else gets attention. With a threshold t, 0.5 by default, a map is

1. vertical + diagonal, if stripes and band both have at least t/2;
2. vertical, if stripes have at least t;
3. diagonal, if the band has at least t;
4. block, if blocks have at least t;
5. heterogeneous otherwise.

Letters: L layers, H heads, T rows, S columns, N texts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.analysis.resampling import Doubles

Mask = NDArray[np.bool_]

PATTERNS = ("vertical", "diagonal", "vertical + diagonal", "block", "heterogeneous")
VERTICAL, DIAGONAL, BOTH, BLOCK, HETEROGENEOUS = range(len(PATTERNS))

THRESHOLD = 0.5

SHORTEST = 8
"""Minimum rows and columns of a map; in smaller maps most cells are in the band."""

CENTRES = (0, -1, 1, -2, 2)
"""Offsets in pieces of the band's middle from a row's own piece; the first wins on ties."""

STRIPE = 10
"""Columns per stripe."""


class Scores(NamedTuple):
    """Attention to some cells above chance; at most 1, for each head `[L, H]`.

    Attributes:
        stripes: the columns with the most attention.
        band: the diagonal.
        blocks: within segments; 0 if there is only one segment.
    """

    stripes: Doubles
    band: Doubles
    blocks: Doubles


def score(values: NDArray[np.float32], seen: Mask, segments: NDArray[np.int64] | None = None) -> Scores:
    """Return the three scores of the maps of one text.

    Args:
        values: weights or norms `[L, H, T, S]`.
        seen: which columns each row may attend to `[T, S]`.
        segments: the segment of each piece of self-attention `[S]`; None if there is only one.
    """
    shares = values.astype(np.float64) * seen
    shares /= np.maximum(shares.sum(3, keepdims=True), 1e-12)  # norms do not sum to 1
    chance = seen / seen.sum(1, keepdims=True)  # [T, S]
    rows, columns = seen.shape
    count = -(-columns // STRIPE)
    ranks = np.argsort(-shares.mean(2), axis=2, kind="stable").argsort(axis=2)  # [L, H, S]
    stripes = (ranks < count)[:, :, None]  # [L, H, 1, S]
    bands = np.stack([band(rows, columns, centre) for centre in CENTRES])  # [5, T, S]
    near = bands[np.einsum("lhts,cts->lhc", shares, bands).argmax(2)]  # [L, H, T, S]
    blocks = np.zeros(shares.shape[:2])
    if segments is not None:
        blocks = _above_chance(shares, chance, segments == segments[:, None])
    return Scores(_above_chance(shares, chance, stripes), _above_chance(shares, chance, near & ~stripes), blocks)


def _above_chance(shares: Doubles, chance: Doubles, cells: Mask) -> Doubles:
    """Return the score of some cells `[..., T, S]` for each head `[L, H]`."""
    p = (shares * cells).sum(3).mean(2)
    q = (chance * cells).sum(-1).mean(-1)
    above: Doubles = (p - q) / np.maximum(1 - q, 1e-12)
    return above


def band(rows: int, columns: int, centre: int) -> Mask:
    """Return the cells near a diagonal `[T, S]`, `centre` columns after the main one."""
    places = np.arange(rows) * ((columns - 1) / max(1, rows - 1)) + centre
    near: Mask = np.abs(places[:, None] - np.arange(columns)) <= 1
    return near


def name(scores: Scores, threshold: float = THRESHOLD) -> NDArray[np.int64]:
    """Return the index into PATTERNS of each head's pattern `[L, H]`."""
    stripes, near, blocks = scores
    conditions = [
        (stripes >= threshold / 2) & (near >= threshold / 2),
        stripes >= threshold,
        near >= threshold,
        blocks >= threshold,
    ]
    return np.select(conditions, [BOTH, VERTICAL, DIAGONAL, BLOCK], HETEROGENEOUS)


def typical(scores: Scores) -> Doubles:
    """Return how typical each head's map is of each pattern `[5, L, H]`."""
    stripes, near, blocks = scores
    return np.stack([
        stripes - np.maximum(near, 0),
        near - np.maximum(stripes, 0),
        np.minimum(stripes, near),
        blocks - np.maximum(np.maximum(stripes, near), 0),
        -np.maximum(np.maximum(stripes, near), blocks),
    ])  # fmt: skip
