"""Chooses layer and head where the settings leave them open: by lexical consistency, or by stored calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from align.core.backend import AttentionRecorder
from align.core.batching import BATCH_TOKENS, Encoded, cut
from align.core.consistency import CHOOSING_PAIRS, MIN_PAIRS, LinkedWords
from align.core.errors import ModelError, plural
from align.core.extraction import Reader, each_cell
from align.core.scores import best_words
from align.core.settings import Settings
from align.core.types import Cell, Choice, Head, Place, Position, Score

Calibration = Mapping[tuple[Score, Position], Cell]
"""Cells that a model's folder stores."""


def all_cells(recorder: AttentionRecorder) -> list[Cell]:
    """Return the cells of all layers, lowest first, with all heads together before single heads."""
    heads: tuple[Head, ...] = ("all", *range(1, recorder.heads + 1))
    return [Cell(*cell) for cell in product(range(1, recorder.layers + 1), heads)]


def candidates(recorder: AttentionRecorder, settings: Settings) -> dict[Position, list[Cell]]:
    """Return the cells that the settings allow in each position that is read, in the order of `all_cells`.

    Raises:
        ModelError: the model does not have the layer or head.
    """
    allowed = _allowed(recorder, settings.layer, settings.head)
    if settings.position == "both":
        return {"input": allowed, "output": _allowed(recorder, settings.output_layer, settings.output_head)}
    return {settings.position: allowed}


def _allowed(recorder: AttentionRecorder, layer: int | str, head: int | str) -> list[Cell]:
    for name, value, limit in (("layer", layer, recorder.layers), ("head", head, recorder.heads)):
        if isinstance(value, int) and value > limit:
            raise ModelError(f"{name} {value} is out of range: {recorder.name} has {plural(limit, name)}")
    return [cell for cell in all_cells(recorder) if layer in ("auto", cell.layer) and head in ("auto", cell.head)]


def only_choice(recorder: AttentionRecorder, settings: Settings) -> Choice | None:
    """Return the choice if the settings leave only one."""
    allowed = candidates(recorder, settings)
    if any(len(cells) > 1 for cells in allowed.values()):
        return None
    return Choice(_place({position: cell for position, (cell,) in allowed.items()}), "as asked")


def choose(
    reader: Reader,
    encoded: Sequence[Encoded],
    settings: Settings,
    stored: Calibration | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> Choice:
    """Choose layer and head for a text.

    Up to CHOOSING_PAIRS of its pairs decide, by lexical consistency. Below MIN_PAIRS the model's stored calibration
    decides, and without one the layer at a third of the depth is read.
    """
    only = only_choice(reader.recorder, settings)
    if only:
        return only
    pairs = [item for item in encoded if item.pieces][:CHOOSING_PAIRS]
    if len(pairs) < MIN_PAIRS:
        return _stored_choice(reader, settings, stored or {})
    allowed = candidates(reader.recorder, settings)
    consistency = consistency_of(reader, pairs, allowed, batch_tokens)
    place = _place({position: cells[int(np.argmax(consistency[position]))] for position, cells in allowed.items()})
    (first, *_) = consistency.values()
    return Choice(place, f"by lexical consistency over {len(pairs):,} pairs", float(first.max()))


def consistency_of(
    reader: Reader, pairs: Sequence[Encoded], cells: Mapping[Position, Sequence[Cell]], batch_tokens: int = BATCH_TOKENS
) -> dict[Position, NDArray[np.float64]]:
    """Return the lexical consistency of the links of some cells, in their order, for each position.

    Args:
        cells: cells of each position, in the order of `all_cells`.
    """
    linked = {position: LinkedWords((len(ways),)) for position, ways in cells.items()}
    for numbers, batch in cut(pairs, batch_tokens):
        words: dict[Position, list[NDArray[np.int64]]] = {position: [] for position in cells}  # [B, C, J] of each layer
        for part in each_cell(reader.recorder, batch, cells, [reader.score], reader.null):
            words[part.position].append(best_words(part.words, reader.null)[0].cpu().numpy())
        for position, layers in words.items():
            for n, best in zip(numbers, np.concatenate(layers, axis=1), strict=True):
                linked[position].add(pairs[n].pair, best)
    return {position: ways.consistency() for position, ways in linked.items()}


def _stored_choice(reader: Reader, settings: Settings, stored: Calibration) -> Choice:
    recorder, reason = reader.recorder, f"the default, under {MIN_PAIRS} pairs in the buffer to choose by"
    (position, allowed), *second = candidates(recorder, settings).items()
    cell = stored.get((reader.score, position))
    if cell in allowed:
        reason = f"the model's own calibration, under {MIN_PAIRS} pairs in the buffer to choose by"
    else:
        cell = _first_of_layer(max(1, round(recorder.layers / 3)), allowed)
    if not second:
        return Choice(_place({position: cell}), reason)
    ((_, outputs),) = second
    output = stored.get((reader.score, "output"))
    if output not in outputs:
        output = _first_of_layer(min(cell.layer + 1, recorder.layers), outputs)
    return Choice(Place(cell, output), reason)


def _first_of_layer(layer: int, cells: Sequence[Cell]) -> Cell:
    return next((cell for cell in cells if cell.layer == layer), cells[0])


def _place(cells: Mapping[Position, Cell]) -> Place:
    return Place(cells.get("input"), cells.get("output"))
