"""Word scores of a batch, and links read from them."""

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
"""Links of a pair, (source word, target word), with their scores."""


class CellScores(NamedTuple):
    """Word scores of a batch in C cells of a layer `[B, C, J, I+1]`; the last column is `</s>`."""

    score: Score
    position: Position
    cells: Sequence[Cell]
    words: Tensor


def each_cell(
    recorder: AttentionRecorder,
    batch: Sequence[Pieces],
    cells_by_position: Mapping[Position, Sequence[Cell]],
    scores: Sequence[Score],
    null: Null,
) -> Iterator[CellScores]:
    """Yield the word scores of a batch, layer by layer; everything that is read from a model passes here.

    Args:
        batch: B pairs with pieces on both sides.
        null: "mask" renormalises attention without `</s>`.

    Yields:
        For each layer, score and position, lowest layer first, the cells of that layer in the order given.
    """
    collated = collate(batch, recorder.pad)
    layers = sorted({cell.layer for cells in cells_by_position.values() for cell in cells})
    for attention in recorder.record(collated, layers):
        if attention.weights.shape[2] != collated.target.shape[1] + 1:
            raise ValueError(f"{recorder.name} gave {attention.weights.shape[2]} rows, where each step has one")
        here = {p: [cell for cell in cells if cell.layer == attention.layer] for p, cells in cells_by_position.items()}
        yield from _layer_scores(attention, collated, {p: cells for p, cells in here.items() if cells}, scores, null)


@torch.inference_mode()
def _layer_scores(
    attention: CrossAttention,
    batch: Batch,
    cells_by_position: Mapping[Position, Sequence[Cell]],
    scores: Sequence[Score],
    null: Null,
) -> list[CellScores]:
    device = attention.weights.device
    source_words, target_words = batch.source_words.to(device), batch.target_words.to(device)
    only = next(iter(cells_by_position)) if len(cells_by_position) == 1 else None
    weights = target_rows(attention.weights, only) if only else attention.weights  # [B, H, T, S], or T+1 rows for both
    if null == "mask":
        weights = hide_eos(weights, source_words)
    attention_rows = replace(attention, weights=weights)
    heads = list(dict.fromkeys(cell.head for cells in cells_by_position.values() for cell in cells))
    scored = [cell_scores(attention_rows, heads, score) for score in scores]
    pieces = scored[0] if len(scored) == 1 else torch.cat(scored, dim=1)  # [B, scores x heads, T or T+1, S]
    merged = merge_sources(pieces, source_words, batch.words[0])  # [B, scores x heads, T or T+1, I+1]
    parts = []
    for position, cells in cells_by_position.items():
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
    """Reads word scores and links from a model's attention.

    Attributes:
        null: "eos", "mask" or "none"; see `align.core.scores`.
        threshold: from 0 to 1, link words whose soft score exceeds it; None links each target word's best source word.
    """

    recorder: AttentionRecorder
    score: Score = "norm"
    null: Null = "eos"
    threshold: float | None = None

    def scores(self, batch: Sequence[Pieces], place: Place) -> Tensor:
        """Return the word scores of B pairs `[B, J, I+1]`; the last column is `</s>`."""
        cells = {position: [cell] for position, cell in place.cells().items()}
        words = {
            part.position: part.words[:, 0] for part in each_cell(self.recorder, batch, cells, [self.score], self.null)
        }
        if len(words) == 2:
            return both_positions(words["input"], words["output"])
        return next(iter(words.values()))

    def shares(self, batch: Sequence[Pieces], place: Place) -> Tensor:
        """Return each source word's share of its row, sharpened, of B pairs `[B, J, I]`."""
        return sharpen(self.scores(batch, place), self.null)

    def links(self, batch: Sequence[Pieces], place: Place) -> list[LinkScores]:
        """Return the links of each pair of a batch.

        The score of a link is its soft score, or without a threshold its share of the target word's row.
        """
        if self.threshold is not None:
            return links_above(soft_scores(self.shares(batch, place)), self.threshold)
        index, share = (best.tolist() for best in best_words(self.scores(batch, place), self.null))
        return [
            {(i, j): score for j, (i, score) in enumerate(zip(words, parts, strict=True)) if i >= 0}
            for words, parts in zip(index, share, strict=True)
        ]
