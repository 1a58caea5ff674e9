"""Attention between words: what goes to a word's pieces is summed, what comes from them is averaged (Clark 2019).

Special pieces are part of no word: what goes to them is kept apart, and what comes from them is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.analysis.maps import SPECIAL, Numbers, Tokens


class WordMaps(NamedTuple):
    """Attention between words.

    Attributes:
        words: from J words to I words `[..., J, I]`; 0 from and to a word without a piece.
        special: from J words to all special pieces together `[..., J]`.
    """

    words: Numbers
    special: Numbers


def membership(words: Sequence[int], count: int) -> Numbers:
    """Which piece is part of which word: P pieces by `count` words and, in the last column, the special `[P, N+1]`."""
    columns = np.append(np.arange(count), SPECIAL)
    part_of: Numbers = (np.asarray(words)[:, None] == columns).astype(np.float32)
    return part_of


def between_words(values: NDArray[np.float32], rows: Tokens, columns: Tokens) -> WordMaps:
    """Merge attention between pieces.

    Args:
        values: weights or norms, `[..., T, S]`.
        rows: the T pieces that attend, of J words.
        columns: the S pieces that are attended to, of I words.
    """
    to = values @ membership(columns.words, len(columns.text))  # [..., T, I+1]
    of = membership(rows.words, len(rows.text))[:, :-1]  # [T, J]
    of /= np.maximum(of.sum(0), 1)
    merged = of.T @ to  # [..., J, I+1]
    return WordMaps(merged[..., :-1], merged[..., -1])


def has_piece(tokens: Tokens) -> NDArray[np.bool_]:
    """Which of the N words have a piece `[N]`."""
    return np.isin(np.arange(len(tokens.text)), tokens.words)
