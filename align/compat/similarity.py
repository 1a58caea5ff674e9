"""Links from similarities that were computed elsewhere."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike

from align.core.scores import links_above, sharpen, soft_scores
from align.core.types import THRESHOLD, LinkScores


def soft_links(
    forward_similarity: ArrayLike, reverse_similarity: ArrayLike | None = None, *, threshold: float = THRESHOLD
) -> LinkScores:
    """Link words by a similarity matrix of your own, as attention links them.

        soft_links([[0.9, 0.1], [0.2, 0.7]])   # {(0, 0): 0.82, (1, 1): 0.81}

    Similarities are shares of a column in the forward direction and of a row in the reverse one, sharpened alike, and
    combined by `align.core.scores.soft_scores`. Multiplying a matrix by a number changes nothing.

    Args:
        forward_similarity: of each source word to each target word `[I, J]`; below 0 counts as 0.
        reverse_similarity: of the other direction `[I, J]`; None for the same matrix.
        threshold: from 0 to 1: words are linked if their soft score exceeds it.

    Returns:
        The score of each link, (source word, target word), from 0.

    Raises:
        ValueError: a matrix is not `[I, J]` or holds NaN, or the threshold is outside 0 to 1.
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be a number from 0 to 1; got {threshold!r}")
    forward = np.asarray(forward_similarity, dtype=np.float32)
    reverse = forward if reverse_similarity is None else np.asarray(reverse_similarity, dtype=np.float32)
    if forward.ndim != 2 or forward.shape != reverse.shape:
        raise ValueError(f"similarities must be matrices [I, J] of one shape; got {forward.shape} and {reverse.shape}")
    if not np.isfinite(forward).all() or not np.isfinite(reverse).all():
        raise ValueError("similarities are finite numbers")
    if not forward.size:
        return {}
    return links_above(soft_scores(_shares(forward.T), _shares(reverse)), threshold)[0]


def _shares(rows: np.ndarray) -> torch.Tensor:
    """Return the sharpened shares of each row `[1, N, M]`, which has no NULL."""
    return sharpen(torch.from_numpy(np.pad(rows, ((0, 0), (0, 1))))[None], "mask")
