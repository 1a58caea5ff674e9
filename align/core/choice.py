"""Choose layer and head where the settings leave them open.

A model with a stored calibration keeps it, whatever the text; otherwise lexical consistency chooses.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from align.core.backend import AttentionRecorder
from align.core.consistency import CHOOSING_PAIRS, MIN_PAIRS, LinkedWords
from align.core.errors import ModelError, plural
from align.core.scores import AttentionReader, best_words, each_cell
from align.core.similarity import SimilarityReader
from align.core.stream import BATCH_TOKENS, Encoded, OnBatch, cut
from align.core.types import Cell, Choice, Head, Place, Position, Score, Settings

Calibration = Mapping[tuple[Score, Position], Cell]  # cells that a model's folder stores

_log = logging.getLogger("align")

AHEAD = 1.2
"""Multiple of a position's lexical consistency from which the other position is read alone, if that is open."""


def all_cells(recorder: AttentionRecorder) -> list[Cell]:
    """Return the cells of all layers, lowest first, with all heads together before single heads."""
    heads: tuple[Head, ...] = ("all", *range(1, recorder.heads + 1))
    return [Cell(*cell) for cell in product(range(1, recorder.layers + 1), heads)]


def candidates(recorder: AttentionRecorder, settings: Settings) -> dict[Position, list[Cell]]:
    """Return the cells that the settings allow in each position that is read, in the order of `all_cells`."""
    allowed = _allowed(recorder, settings.layer, settings.head)
    if settings.position == "both":
        return {"input": allowed, "output": _allowed(recorder, settings.output_layer, settings.output_head)}
    return {"input": allowed, "output": allowed} if settings.position == "auto" else {settings.position: allowed}


def _allowed(recorder: AttentionRecorder, layer: int | str, head: int | str) -> list[Cell]:
    for name, value, limit in (("layer", layer, recorder.layers), ("head", head, recorder.heads)):
        if isinstance(value, int) and value > limit:
            had = plural(limit, name) if limit else f"no {name}s to choose"
            raise ModelError(f"{name} {value} is out of range: {recorder.name} has {had}")
    return [cell for cell in all_cells(recorder) if layer in ("auto", cell.layer) and head in ("auto", cell.head)]


def choose(
    reader: AttentionReader | SimilarityReader,
    encoded: Sequence[Encoded],
    settings: Settings,
    stored: Calibration | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> Choice:
    """Choose layer and head for a text, and the position if it is open.

    What the model stores is kept, where the settings allow it. What is open then up to CHOOSING_PAIRS pairs of the text
    decide, by lexical consistency. Below MIN_PAIRS the layer at a third of the depth is read, in encoders at 0.6
    of it: published ones align best at layers 6 to 8 of 12.
    """
    recorder = reader.recorder
    allowed = _open(recorder, settings, stored or {})
    pairs = [item for item in encoded if item.pieces][:CHOOSING_PAIRS]
    if len(pairs) < MIN_PAIRS:
        depth = 0.6 if isinstance(reader, SimilarityReader) else 1 / 3
        layers, default_layer = recorder.layers, max(1, round(recorder.layers * depth))
        default: dict[Position, Cell] = {}
        for position, cells in allowed.items():
            default[position] = next((cell for cell in cells if cell.layer == default_layer), cells[0])
            default_layer = min(default[position].layer + 1, layers)  # the output position is read a layer above
        return Choice(Place(**default), f"the default, under {MIN_PAIRS} pairs in the buffer to choose by")
    _log.info("choosing layer and head of %s on %s", recorder.name, plural(len(pairs), "pair"))
    consistency = consistency_of(reader, pairs, allowed, batch_tokens)
    best = {position: float(values.max()) for position, values in consistency.items()}
    if settings.position == "auto":
        best = {position: best[position] for position in leading(best)}
    place = Place(**{position: allowed[position][int(consistency[position].argmax())] for position in best})
    measure = "lexical consistency" + " and agreement" * isinstance(reader, SimilarityReader)
    return Choice(place, f"by {measure} over {len(pairs):,} pairs", next(iter(best.values())))


def known_choice(recorder: AttentionRecorder, settings: Settings, stored: Calibration) -> Choice | None:
    """Return the choice that depends on no text: as asked, or as the model stores it; or else None."""
    candidate_cells, allowed = candidates(recorder, settings), _open(recorder, settings, stored)
    is_stored = any(stored.get((settings.score, position)) in cells for position, cells in candidate_cells.items())
    if (settings.position == "auto" and not is_stored) or any(len(cells) > 1 for cells in allowed.values()):
        return None
    place = Place(**{position: cell for position, (cell,) in allowed.items()})
    fixed = [position for position, cells in candidate_cells.items() if len(cells) == 1]
    if len(fixed) == len(candidate_cells) and settings.position != "auto":
        return Choice(place, "as asked")
    reason = f"the {fixed[0]} position as asked, otherwise " if fixed else ""
    return Choice(place, f"{reason}the model's own calibration")


def _open(recorder: AttentionRecorder, settings: Settings, stored: Calibration) -> dict[Position, list[Cell]]:
    """Return the cells of each position that the settings and the stored calibration leave open."""
    allowed = candidates(recorder, settings)
    kept = {p: [cell] for p, cells in allowed.items() if (cell := stored.get((settings.score, p))) in cells}
    if settings.position == "auto" and kept:  # a calibration has the positions that lead
        return kept
    return {**allowed, **kept}


def leading(consistency: Mapping[Position, float]) -> list[Position]:
    """Return the position whose links are at least AHEAD times as consistent as the other's, or else both."""
    low, high = sorted(consistency, key=lambda position: consistency[position])
    return [high] if consistency[high] >= AHEAD * consistency[low] else list(consistency)


def consistency_of(
    reader: AttentionReader | SimilarityReader,
    pairs: Sequence[Encoded],
    cells: Mapping[Position, Sequence[Cell]],
    batch_tokens: int = BATCH_TOKENS,
    on_batch: OnBatch | None = None,
) -> dict[Position, NDArray[np.float64]]:
    """Return the lexical consistency of the links of the cells of each position, in their order.

    Of an encoder it is multiplied by the agreement of both directions, and `on_batch` is not called; see
    `SimilarityReader.qualities`.
    """
    if isinstance(reader, SimilarityReader):
        return {position: reader.qualities(pairs, ways, batch_tokens) for position, ways in cells.items()}
    linked = {position: LinkedWords((len(ways),)) for position, ways in cells.items()}
    for numbers, batch in cut(pairs, batch_tokens):
        words: dict[Position, list[NDArray[np.int64]]] = {position: [] for position in cells}  # [B, C, J] of each layer
        for part in each_cell(reader.recorder, batch, cells, [reader.score], reader.null):
            words[part.position].append(best_words(part.words, reader.null)[0].cpu().numpy())
        for position, layers in words.items():
            for n, best in zip(numbers, np.concatenate(layers, axis=1), strict=True):
                linked[position].add(pairs[n].pair, best)
        if on_batch:
            on_batch(len(numbers))
    return {position: ways.consistency() for position, ways in linked.items()}
