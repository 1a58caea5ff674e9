"""Word scores of a batch, and links read off them at one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from align.core.backend import AttentionRecorder
from align.core.merging import collate, merge_sources, merge_targets
from align.core.scores import best_words, both_positions, cell_scores, hide_eos, target_rows
from align.core.settings import Null
from align.core.soft import links_above, sharpen, soft_scores
from align.core.types import Batch, Cell, CrossAttention, Pieces, Place, Position, Score

LinkScores = dict[tuple[int, int], float]
"""The links of a pair, (source word, target word), each with its score."""


class CellScores(NamedTuple):
    """Word scores of a batch in C cells of one layer, `[B, C, J, I+1]`, the last column being `</s>`."""

    score: Score
    position: Position
    cells: Sequence[Cell]
    words: Tensor


def each_cell(
    recorder: AttentionRecorder,
    batch: Sequence[Pieces],
    wanted: Mapping[Position, Sequence[Cell]],
    scores: Sequence[Score],
    null: Null,
) -> Iterator[CellScores]:
    """Word scores of a batch, a layer at a time: all that is read off a model comes from here.

    Args:
        recorder: the model.
        batch: B pairs with pieces on either side.
        wanted: the cells of each position.
        scores: in which ways to score.
        null: with "mask" attention is as if `</s>` were not there.

    Yields:
        For each layer, score and position, lowest layer first, the cells that are wanted there, in the order given.
    """
    collated = collate(batch, recorder.pad)
    layers = sorted({cell.layer for cells in wanted.values() for cell in cells})
    for attention in recorder.record(collated, layers):
        if attention.weights.shape[2] != collated.target.shape[1] + 1:
            raise ValueError(f"{recorder.name} gave {attention.weights.shape[2]} rows, where each step has one")
        here = {p: [cell for cell in cells if cell.layer == attention.layer] for p, cells in wanted.items()}
        yield from _layer_scores(attention, collated, {p: cells for p, cells in here.items() if cells}, scores, null)


@torch.inference_mode()
def _layer_scores(
    attention: CrossAttention,
    batch: Batch,
    wanted: Mapping[Position, Sequence[Cell]],
    scores: Sequence[Score],
    null: Null,
) -> list[CellScores]:
    device = attention.weights.device
    source_words, target_words = batch.source_words.to(device), batch.target_words.to(device)
    only = next(iter(wanted)) if len(wanted) == 1 else None
    weights = target_rows(attention.weights, only) if only else attention.weights  # [B, H, T, S], or T+1 rows for both
    if null == "mask":
        weights = hide_eos(weights, source_words)
    kept = replace(attention, weights=weights)
    heads = list(dict.fromkeys(cell.head for cells in wanted.values() for cell in cells))
    scored = [cell_scores(kept, heads, score) for score in scores]
    pieces = scored[0] if len(scored) == 1 else torch.cat(scored, dim=1)  # [B, scores x heads, T or T+1, S]
    merged = merge_sources(pieces, source_words, batch.words[0])  # [B, scores x heads, T or T+1, I+1]
    parts = []
    for position, cells in wanted.items():
        rows = merged if only else target_rows(merged, position)
        words = merge_targets(rows, target_words, batch.words[1])  # [B, scores x heads, J, I+1]
        for n, score in enumerate(scores):
            of_score = words[:, n * len(heads) : (n + 1) * len(heads)]
            chosen = [heads.index(cell.head) for cell in cells]
            of_cells = of_score if chosen == list(range(len(heads))) else of_score[:, chosen]
            parts.append(CellScores(score, position, cells, of_cells))
    return parts


@dataclass(frozen=True)
class Reader:
    """Reads word scores and links off a model's attention.

    Attributes:
        recorder: the model.
        score: "norm" or "weight".
        null: "eos", "mask" or "none"; see `align.core.scores`.
        threshold: from 0 to 1, link all words whose soft score is above it; None for each target word's best.
    """

    recorder: AttentionRecorder
    score: Score = "norm"
    null: Null = "eos"
    threshold: float | None = None

    def scores(self, batch: Sequence[Pieces], place: Place) -> Tensor:
        """The word scores that links are read off, of B pairs `[B, J, I+1]`, the last column being `</s>`."""
        wanted = {position: [cell] for position, cell in place.cells().items()}
        words = {
            part.position: part.words[:, 0] for part in each_cell(self.recorder, batch, wanted, [self.score], self.null)
        }
        if len(words) == 2:
            return both_positions(words["input"], words["output"])
        return next(iter(words.values()))

    def shares(self, batch: Sequence[Pieces], place: Place) -> Tensor:
        """What each source word holds of its row's scores, sharpened, of B pairs `[B, J, I]`."""
        return sharpen(self.scores(batch, place), self.null)

    def links(self, batch: Sequence[Pieces], place: Place) -> list[LinkScores]:
        """The links of each pair of a batch.

        A link's score is the soft one where there is a threshold, and else its share of the target word's row.
        """
        if self.threshold is not None:
            return links_above(soft_scores(self.shares(batch, place)), self.threshold)
        index, share = (best.tolist() for best in best_words(self.scores(batch, place), self.null))
        return [
            {(i, j): score for j, (i, score) in enumerate(zip(words, parts, strict=True)) if i >= 0}
            for words, parts in zip(index, share, strict=True)
        ]
