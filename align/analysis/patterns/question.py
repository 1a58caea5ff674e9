"""How often each pattern of attention is met, by part, layer and head, and the most typical map of each.

Letters: L layers, H heads, N texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.analysis.maps import MEASURES, SPECIAL, Inspected, Maps, Reading, Tokens, measured
from align.analysis.patterns.rule import PATTERNS, SHORTEST, THRESHOLD, name, score, typical
from align.analysis.resampling import Doubles, Draws
from align.core.errors import DataError, plural
from align.core.types import Pair, Part
from align.evaluation.tables import Column, Value, interval, percent
from align.view.findings import Finding, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST_SHOWN = 25
"""Rows and columns of maps that are drawn."""


class Example(NamedTuple):
    """A map to be drawn: how typical it is, its layer and head, the map, and its pieces."""

    typical: float
    place: tuple[int, int]
    values: Doubles
    rows: Tokens
    columns: Tokens


@dataclass
class PartPatterns:
    """The patterns of one part of a model.

    Attributes:
        part: of the model.
        names: numbers of PATTERNS of each text, by measure, N times `[L, H]`.
        examples: the most typical map by weights of each pattern that was met, and how typical it is.
        short: texts that were left out.
    """

    part: Part
    threshold: float
    names: dict[str, list[NDArray[np.int64]]] = field(default_factory=lambda: {measure: [] for measure in MEASURES})
    examples: dict[int, Example] = field(default_factory=dict)
    short: int = 0

    def add(self, reading: Reading) -> None:
        """Name the maps of a text."""
        maps = reading.maps[self.part]
        t, s = len(maps.rows), len(maps.columns)
        if min(t, s) < SHORTEST:
            self.short += 1
            return
        seen = np.tri(t, s) > 0 if self.part == "decoder" else np.ones((t, s), bool)
        segments = segments_of(maps.columns, reading.pair) if self.part == "encoder" else None
        for measure, values in measured(maps).items():
            scores = score(values, seen, segments)
            names = name(scores, self.threshold)
            self.names[measure].append(names)
            if measure == "weight" and max(t, s) <= LONGEST_SHOWN:
                self._keep(maps, names, typical(scores))

    def _keep(self, maps: Maps, names: NDArray[np.int64], how: Doubles) -> None:
        """Keep maps that are more typical than those so far."""
        for pattern in range(len(PATTERNS)):
            there = np.where(names == pattern, how[pattern], -np.inf)
            layer, head = np.unravel_index(there.argmax(), there.shape)
            best = self.examples.get(pattern)
            if there[layer, head] > (best.typical if best else -np.inf):
                place = int(layer) + 1, int(head) + 1
                values = maps.weights[layer, head].astype(np.float64)
                self.examples[pattern] = Example(float(there[layer, head]), place, values, maps.rows, maps.columns)

    def shares(self, measure: str) -> Doubles:
        """The share of each pattern in each text `[N, 5, L, H]`: 1 for the one that it is."""
        names = np.array(self.names[measure])[:, None]  # [N, 1, L, H]
        shares: Doubles = (names == np.arange(len(PATTERNS))[:, None, None]).astype(np.float64)
        return shares


def segments_of(tokens: Tokens, pair: Pair) -> NDArray[np.int64] | None:
    """The segment of each piece, if the encoder reads both sides of a pair; None if it reads one.

    A special piece is of the segment that it stands behind, or before which there is none.
    """
    if not pair.target or len(tokens.text) != len(pair.source) + len(pair.target):
        return None
    segment, found = 0, []
    for word in tokens.words:
        segment = segment if word == SPECIAL else int(word >= len(pair.source))
        found.append(segment)
    return np.array(found)


def patterns(
    model: Inspected, pairs: Iterable[Pair], parts: Sequence[Part], threshold: float = THRESHOLD, seed: int = 1
) -> Finding:
    """Name the maps of a text.

    Args:
        model: whose attention.
        pairs: the text.
        parts: of the model.
        threshold: see above.
        seed: of the bootstrap.

    Raises:
        DataError: there is no text of SHORTEST pieces or more that the model can read.
    """
    found = {part: PartPatterns(part, threshold) for part in parts}
    for reading in model.read(pairs, parts):
        for part in reading.maps:
            found[part].add(reading)
    if not all(one.names["weight"] for one in found.values()):
        raise DataError(f"there is no line of {SHORTEST} pieces or more that the model can read")
    tables = {"parts": _part_table(found, seed), "layers": _layer_table(found), "heads": _head_table(found)}
    figures = {f"{part}.shares": _share_figure(one) for part, one in found.items()}
    return Finding(
        tables, figures | {f"{part}.examples": _example_figure(one) for part, one in found.items() if one.examples}
    )


def _columns(*first: str) -> list[Column]:
    heads = ("vertical", "diagonal", "both", "block", "other")
    columns = [Column(key, key) for key in (*first, "measure")]
    return columns + [Column(key, f"{head}, %", 1) for key, head in zip(PATTERNS, heads, strict=True)]


def _part_table(found: Mapping[Part, PartPatterns], seed: int) -> Table:
    """All heads of a part together, with intervals in wide tables."""
    columns = _columns("part") + [Column(f"{key} interval", f"{key}, interval", 1, wide=True) for key in PATTERNS]
    columns.append(Column("texts", "texts"))
    rows: list[dict[str, Value]] = []
    for part, one in found.items():
        draws = Draws(len(one.names["weight"]), seed)
        for measure in MEASURES:
            shares = one.shares(measure)
            row: dict[str, Value] = {"part": part, "measure": MEASURES[measure], "texts": len(shares)}
            for key, share in zip(PATTERNS, shares.mean((2, 3)).T, strict=True):
                value, low, high = draws.share(share, np.ones_like(share))
                row |= {key: percent(value), f"{key} interval": interval(percent(low), percent(high))}
            rows.append(row)
    notes = ["shares of the maps of all heads in all texts; intervals: 95 %, bootstrap over texts"]
    if not all(one.examples for one in found.values()):
        notes.append(f"no map is drawn of texts of more than {LONGEST_SHOWN} pieces")
    if short := sum(one.short for one in found.values()):
        notes.append(
            f"{plural(short, 'text')} left out that a part has fewer than {SHORTEST} pieces of, counted by part"
        )
    return Table(columns, rows, notes)


def _layer_table(found: Mapping[Part, PartPatterns]) -> Table:
    rows: list[dict[str, Value]] = [
        {"part": part, "layer": layer, "measure": MEASURES[measure], **_named(shares)}
        for part, one in found.items()
        for measure in MEASURES
        for layer, shares in enumerate(one.shares(measure).mean((0, 3)).T, 1)
    ]
    return Table(_columns("part", "layer"), rows)


def _head_table(found: Mapping[Part, PartPatterns]) -> Table:
    rows: list[dict[str, Value]] = []
    for part, one in found.items():
        for measure in MEASURES:
            shares = one.shares(measure).mean(0)  # [5, L, H]
            for layer, head in np.ndindex(shares.shape[1:]):
                row: dict[str, Value] = {"part": part, "layer": layer + 1, "head": head + 1}
                rows.append({**row, "measure": MEASURES[measure], **_named(shares[:, layer, head])})
    return Table(_columns("part", "layer", "head"), rows, wide=True)


def _named(shares: Doubles) -> dict[str, Value]:
    return {key: percent(share) for key, share in zip(PATTERNS, shares, strict=True)}


def _share_figure(one: PartPatterns) -> Callable[[], Figure]:
    def draw() -> Figure:
        from align.analysis.plots import bars

        by_layer = np.stack([one.shares(measure).mean((0, 3)) for measure in MEASURES], -1)  # [5, L, 2]
        names = [f"{layer + 1} {MEASURES[measure]}" for layer in range(by_layer.shape[1]) for measure in MEASURES]
        heights = {key: [100 * float(share) for share in by_layer[n].ravel()] for n, key in enumerate(PATTERNS)}
        return bars(names, heights, {}, "maps of a layer, %", one.part)

    return draw


def _example_figure(one: PartPatterns) -> Callable[[], Figure]:
    def draw() -> Figure:
        from align.analysis.plots import attention_maps

        panels = {
            f"{PATTERNS[pattern]} ({example.place[0]}-{example.place[1]})": (
                example.values,
                example.rows.pieces,
                example.columns.pieces,
            )
            for pattern, example in sorted(one.examples.items())
        }
        return attention_maps(panels, f"{one.part}: the most typical maps (layer-head)")

    return draw
