"""What a map of attention looks like: vertical, diagonal, both, in blocks, or none of these (Kovaleva et al. 2019).

The paper let people name the patterns of 400 maps, and trained a network to name the rest. Here a rule names them,
which asks how much of the attention goes to certain cells:

- stripes: the tenth of the columns, at least one, that gets most attention in all;
- band: three neighbouring diagonals, of which the middle one is at most two pieces before or behind a row's own, and
  which get most attention; but for cells in stripes. In cross-attention, which has other rows than columns, a row's own
  piece is where it would stand if both texts ran side by side;
- blocks: the cells whose row and column are of the same segment; of texts with two segments only, as BERT reads them.

Each is a share of all attention, p, and is compared with the share that the same cells would get if every piece
attended equally to all that it may attend to, q: `score = (p - q) / (1 - q)` is 0 for such a map, and 1 where nothing
else gets attention. With a threshold t, 0.5 unless another is asked for, a map is

1. vertical + diagonal, if stripes and band have t/2 or more each;
2. vertical, if stripes have t or more;
3. diagonal, if the band has t or more;
4. block, if blocks have t or more;
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
"""Rows and columns of a map, with fewer of which most cells are in the band."""

CENTRES = (0, -1, 1, -2, 2)
"""How far behind a row's own piece the middle of its band may be; the first of equal ones counts."""

STRIPE = 10
"""One column of so many is a stripe."""


class Scores(NamedTuple):
    """How much more attention goes to some cells than by chance; at most 1, for each head `[L, H]`.

    Attributes:
        stripes: the columns that get most.
        band: the diagonal.
        blocks: within segments; 0 where there is one segment only.
    """

    stripes: Doubles
    band: Doubles
    blocks: Doubles


def score(values: NDArray[np.float32], seen: Mask, segments: NDArray[np.int64] | None = None) -> Scores:
    """The three scores of the maps of one text.

    Args:
        values: weights or norms `[L, H, T, S]`.
        seen: which columns each row may attend to `[T, S]`.
        segments: the segment of each piece of self-attention `[S]`; None where there is one only.
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
    """The score of some cells `[..., T, S]` for each head `[L, H]`."""
    p = (shares * cells).sum(3).mean(2)
    q = (chance * cells).sum(-1).mean(-1)
    above: Doubles = (p - q) / np.maximum(1 - q, 1e-12)
    return above


def band(rows: int, columns: int, centre: int) -> Mask:
    """The cells near a diagonal `[T, S]`, `centre` columns behind the main one."""
    places = np.arange(rows) * ((columns - 1) / max(1, rows - 1)) + centre
    near: Mask = np.abs(places[:, None] - np.arange(columns)) <= 1
    return near


def name(scores: Scores, threshold: float = THRESHOLD) -> NDArray[np.int64]:
    """The number of each head's pattern in PATTERNS `[L, H]`."""
    stripes, near, blocks = scores
    conditions = [
        (stripes >= threshold / 2) & (near >= threshold / 2),
        stripes >= threshold,
        near >= threshold,
        blocks >= threshold,
    ]
    return np.select(conditions, [BOTH, VERTICAL, DIAGONAL, BLOCK], HETEROGENEOUS)


def typical(scores: Scores) -> Doubles:
    """How typical each head's map would be of each pattern `[5, L, H]`."""
    stripes, near, blocks = scores
    return np.stack([
        stripes - np.maximum(near, 0),
        near - np.maximum(stripes, 0),
        np.minimum(stripes, near),
        blocks - np.maximum(np.maximum(stripes, near), 0),
        -np.maximum(np.maximum(stripes, near), blocks),
    ])  # fmt: skip
