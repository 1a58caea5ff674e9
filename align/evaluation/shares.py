"""Compute the attention of every head of every layer for pictures: shares in hundredths."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from align.core.aligner import Aligner
from align.core.choice import all_cells, doubts_about_text
from align.core.scores import each_cell
from align.core.stream import cut, encode
from align.core.types import Pair, Position, TextWarning
from align.evaluation.swept import SCORES


def shares_of_cells(aligner: Aligner, pairs: Sequence[Pair], position: Position) -> list[bytes]:
    """Return the share of each source word in its target word's scores, in every cell, for weight and norm.

    Args:
        aligner: aligner of the model; of its settings only `null` and the batch size matter.
        pairs: all of which are held in memory.
        position: decoder step that a target word's attention is read from.

    Returns:
        For each pair unsigned bytes, hundredths `[2, C, J, I+1]`: score (as in SCORES), cell (as in `all_cells`),
        target word, source word with `</s>` last; empty for one that is blank, or too long for the model.

    Warns:
        TextWarning: the text does not look like what the model was trained on.
    """
    recorder, null = aligner.forward.recorder, aligner.forward.settings.null
    cells = all_cells(recorder)
    encoded = [encode(recorder, pair, "blank") for pair in pairs]
    for doubt in doubts_about_text(recorder, encoded):
        warnings.warn(doubt, TextWarning, stacklevel=2)
    results = [b""] * len(pairs)
    for numbers, batch in cut(encoded, aligner.batch_tokens):
        longest_source, longest_target = (max(pieces.words[side] for pieces in batch) for side in (0, 1))
        shape = (len(batch), len(SCORES), len(cells), longest_target, longest_source + 1)
        shares = np.zeros(shape, dtype=np.uint8)
        for part in each_cell(recorder, batch, {position: cells}, SCORES, null):
            first = cells.index(part.cells[0])
            shares[:, SCORES.index(part.score), first : first + len(part.cells)] = _hundredths(part.words).cpu().numpy()
        for n, pieces, of_pair in zip(numbers, batch, shares, strict=True):
            source, target = pieces.words
            of_words = [*range(source), longest_source]  # the last column of the batch is </s>
            results[n] = of_pair[:, :, :target, of_words].tobytes()
    return results


def _hundredths(words: Tensor) -> Tensor:
    """Return word scores as hundredths of their row's sum `[..., I+1]`; a row without scores is 0."""
    known = words.float().clamp(min=0)  # words of no piece have -1
    return (100 * known / known.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)).round().byte()
