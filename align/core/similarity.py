"""Scores of words from the states of an encoder, which reads both sides by themselves, and links from these scores.

Two words are as similar as the cosine of their mean states. Shares of words and links follow as they do from attention,
but in both directions from one model. Letters: B batch, S and T pieces of source and target, D model size, I source
words, J target words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from align.core.backend import StateRecorder
from align.core.consistency import LinkedWords
from align.core.scores import (
    LinkResult,
    agreements,
    best_links,
    collate,
    in_batches,
    merge_targets,
    sharpen,
    soft_links,
)
from align.core.stream import BATCH_TOKENS, Encoded, OnBatch, cut
from align.core.types import Batch, Cell, Pieces, Place

TEMPERATURE = 0.1
"""Difference of cosines that multiplies a score by e, before `sharpen` adapts the scores to each pair."""

CENTRED = 0.5
"""Part of the mean of a pair's words that is taken off each; all of it is worse for pairs of a few words."""


def word_scores(states: tuple[Tensor, Tensor], batch: Batch, centred: float = CENTRED) -> Tensor:
    """Return `exp((cos - 1) / TEMPERATURE)` of the mean states of words, from 0 to 1 `[B, J, I]`.

    A word's pieces are averaged before the cosine: that beats the largest cosine of two pieces, and the first piece
    (eval/results/encoder.pooling.tsv). All states of an encoder point in similar directions, so that a part of the mean
    of a pair's words is taken off first (eval/results/encoder.variants.tsv). A word without pieces has 0.
    """
    sides = zip(states, (batch.source_words, batch.target_words), batch.words, strict=True)
    vectors = torch.cat([merge_targets(x[:, None], words.to(x.device), count)[:, 0] for x, words, count in sides], 1)
    real = vectors.any(-1)  # [B, I+J]
    mean = vectors.sum(1) / real.sum(1, keepdim=True).clamp(min=1)  # [B, D]
    unit = functional.normalize(vectors - centred * mean[:, None], dim=-1)
    count = batch.words[0]
    scores = (unit[:, count:] @ unit[:, :count].mT).sub_(1).div_(TEMPERATURE).exp_()
    return scores.mul_(real[:, count:, None] & real[:, None, :count])


@dataclass(frozen=True)
class SimilarityReader:
    """Reads word scores and links from the states of an encoder, as `AttentionReader` does from attention."""

    recorder: StateRecorder
    threshold: float | None = None

    def scores(
        self, pairs: Sequence[Pieces], place: Place, tokens: int = BATCH_TOKENS, on_batch: OnBatch | None = None
    ) -> Tensor:
        """Return the word scores of B pairs `[B, J, I+1]`; the last column is 0. See `in_batches`."""
        layers = [cell.layer for cell in place.cells().values()]

        def read(batch: Sequence[Pieces]) -> Tensor:
            (scores,) = self._of_layers(batch, layers)
            return functional.pad(scores, (0, 1))

        return in_batches(read, pairs, tokens, on_batch)

    def shares(
        self, pairs: Sequence[Pieces], place: Place, tokens: int = BATCH_TOKENS, on_batch: OnBatch | None = None
    ) -> Tensor:
        """Return each source word's share of its row, sharpened, of B pairs `[B, J, I]`; see `in_batches`."""
        return sharpen(self.scores(pairs, place, tokens, on_batch), "mask")

    def links(
        self, pairs: Sequence[Pieces], place: Place, tokens: int = BATCH_TOKENS, on_batch: OnBatch | None = None
    ) -> list[LinkResult]:
        """Return the links of each pair, and the agreement of both directions if they are soft; see `in_batches`."""
        scores = self.scores(pairs, place, tokens, on_batch)
        if self.threshold is None:
            return best_links(scores, "mask")
        return soft_links(*shares_both_ways(scores[..., :-1]), self.threshold, pairs, None)

    def qualities(
        self, pairs: Sequence[Encoded], cells: Sequence[Cell], batch_tokens: int = BATCH_TOKENS
    ) -> NDArray[np.float64]:
        """Return for each layer the lexical consistency of mutually best words, times the mean agreement.

        Its rank correlation with error rates is -0.83 to -0.96 (eval/results/encoder.choice.tsv).
        """
        layers = sorted({cell.layer for cell in cells})
        linked, total = LinkedWords((len(layers),)), np.zeros(len(layers))
        for numbers, batch in cut(pairs, batch_tokens):
            mutual = []
            for n, scores in enumerate(self._of_layers(batch, layers)):
                total[n] += sum(sqrt(a * b) for a, b in agreements(*shares_both_ways(scores), batch))
                best, back = scores.max(2), scores.argmax(1)  # [B, J], [B, I]
                targets = torch.arange(scores.shape[1], device=scores.device)
                kept = (back.gather(1, best.indices) == targets) & (best.values > 0)
                mutual.append(best.indices.masked_fill(~kept, -1).cpu().numpy())
            for number, of_pair in zip(numbers, np.stack(mutual, 1), strict=True):
                linked.add(pairs[number].pair, of_pair)
        values = linked.consistency() * total / max(1, len(pairs))
        return values[[layers.index(cell.layer) for cell in cells]]

    def _of_layers(self, batch: Sequence[Pieces], layers: Sequence[int]) -> Iterator[Tensor]:
        collated = collate(batch, self.recorder.pad)
        for states in self.recorder.states(collated, layers):
            with torch.inference_mode():
                scores = word_scores(states, collated)
            yield scores


def shares_both_ways(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sharpened shares of both directions, `[B, J, I]` and `[B, I, J]`, for scores `[B, J, I]`."""
    forward, reverse = (sharpen(functional.pad(rows, (0, 1)), "mask") for rows in (scores, scores.mT))
    return forward, reverse
