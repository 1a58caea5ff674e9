"""From pieces to the user's words: whose part is each piece, and what is a word's score."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from align.types import Batch, Pieces

NULL = -1
PAD = -2


def _pad(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    """Rows of different length as one tensor, `fill` at their ends."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    padded = np.full((len(rows), lengths.max()), fill, dtype=np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    return torch.from_numpy(padded)


def collate(pairs: Sequence[Pieces], pad: int) -> Batch:
    """Put pairs into one batch.

    Args:
        pairs: B pairs with at least one piece on either side.
        pad: the dictionary id that means "nothing here".

    Returns:
        The batch, on the CPU.
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


def merge_words(scores: Tensor, source_words: Tensor, target_words: Tensor, words: tuple[int, int]) -> Tensor:
    """Merge piece scores to word scores: sum over a source word's pieces, mean over a target word's.

    Args:
        scores: `[B, C, T, S]`, C ways to score at once.
        source_words: word of each source piece `[B, S]`, -1 for `</s>`, -2 for a pad.
        target_words: word of each target piece `[B, T]`, -2 for a pad.
        words: (I, J), the number of source and target words to make room for.

    Returns:
        `[B, C, J, I+1]`; the last column is the source's `</s>`. A source word without any piece has -1
        throughout, below every score, so that it never wins; a target word without any piece has 0.
    """
    source_count, target_count = words
    columns = torch.cat((torch.arange(source_count), torch.tensor([NULL]))).to(source_words.device)
    into_source = _membership(source_words, columns)  # [B, S, I+1]
    into_target = _membership(target_words, torch.arange(target_count, device=target_words.device))  # [B, T, J]
    merged = into_target.transpose(1, 2).unsqueeze(1) @ (scores @ into_source.unsqueeze(1))  # [B, C, J, I+1]
    merged /= into_target.sum(1).clamp_(min=1)[:, None, :, None]
    return merged.masked_fill_((into_source.sum(1) == 0)[:, None, None, :], -1)
