"""Merges scores of pieces into scores of words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from align.core.types import Batch, Pieces

NULL = -1
PAD = -2


def _pad(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    padded = np.full((len(rows), lengths.max()), fill, dtype=np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    return torch.from_numpy(padded)


def collate(pairs: Sequence[Pieces], pad: int) -> Batch:
    """Return a batch of pairs, on the CPU.

    Args:
        pairs: B pairs with at least one piece on either side.
    """
    return Batch(
        source=_pad([p.source for p in pairs], pad),
        source_words=_pad([p.source_words for p in pairs], PAD),
        target=_pad([p.target for p in pairs], pad),
        target_words=_pad([p.target_words for p in pairs], PAD),
        words=(max(p.words[0] for p in pairs), max(p.words[1] for p in pairs)),
    )


def _membership(words: Tensor, columns: Tensor) -> Tensor:
    return (words.unsqueeze(-1) == columns).float()


def merge_sources(scores: Tensor, source_words: Tensor, count: int) -> Tensor:
    """Sum scores over the pieces of each source word.

    Args:
        scores: `[B, C, T, S]`, of C cells.
        source_words: word of each source piece `[B, S]`, -1 for `</s>`, -2 for a pad.
        count: I, the number of source words.

    Returns:
        `[B, C, T, I+1]`; the last column is `</s>`. A source word without pieces has -1, below every score, so that it
        never wins.
    """
    columns = torch.cat((torch.arange(count), torch.tensor([NULL]))).to(source_words.device)
    into_source = _membership(source_words, columns)  # [B, S, I+1]
    merged = scores @ into_source.unsqueeze(1)  # [B, C, T, I+1]
    return merged.masked_fill_((into_source.sum(1) == 0)[:, None, None, :], -1)


def merge_targets(scores: Tensor, target_words: Tensor, count: int) -> Tensor:
    """Average scores over the pieces of each target word.

    Args:
        scores: `[B, C, T, N]`, of C cells and N columns of any kind.
        target_words: word of each target piece `[B, T]`, -2 for a pad.
        count: J, the number of target words.

    Returns:
        `[B, C, J, N]`; a target word without pieces has 0.
    """
    into_target = _membership(target_words, torch.arange(count, device=target_words.device))  # [B, T, J]
    merged = into_target.transpose(1, 2).unsqueeze(1) @ scores  # [B, C, J, N]
    merged /= into_target.sum(1).clamp_(min=1)[:, None, :, None]
    return merged
