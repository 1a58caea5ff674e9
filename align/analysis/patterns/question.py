"""Frequency of each attention pattern by part, layer and head, and the most typical map of each pattern.

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
"""Maximum rows and columns of maps to draw."""


class Example(NamedTuple):
    """A map to draw: how typical it is, its layer and head, the map, and its pieces."""

    typical: float
    place: tuple[int, int]
    values: Doubles
    rows: Tokens
    columns: Tokens


@dataclass
class PartPatterns:
    """Patterns of one part of a model.

    Attributes:
        part: part of the model.
        names: indices into PATTERNS for each text, by measure, N arrays `[L, H]`.
        examples: by pattern, the most typical map by weights.
        short: number of texts that were skipped as too short.
    """

    part: Part
    threshold: float
    names: dict[str, list[NDArray[np.int64]]] = field(default_factory=lambda: {measure: [] for measure in MEASURES})
    examples: dict[int, Example] = field(default_factory=dict)
    short: int = 0

    def add(self, reading: Reading) -> None:
        """Classify the maps of a text."""
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

    def _keep(self, maps: Maps, names: NDArray[np.int64], scores: Doubles) -> None:
        """Store maps that are more typical than those stored so far."""
        for pattern in range(len(PATTERNS)):
            candidates = np.where(names == pattern, scores[pattern], -np.inf)
            layer, head = np.unravel_index(candidates.argmax(), candidates.shape)
            best = self.examples.get(pattern)
            if candidates[layer, head] > (best.typical if best else -np.inf):
                place = int(layer) + 1, int(head) + 1
                values = maps.weights[layer, head].astype(np.float64)
                self.examples[pattern] = Example(float(candidates[layer, head]), place, values, maps.rows, maps.columns)

    def shares(self, measure: str) -> Doubles:
        """Return one-hot patterns of each text `[N, 5, L, H]`."""
        names = np.array(self.names[measure])[:, None]  # [N, 1, L, H]
        shares: Doubles = (names == np.arange(len(PATTERNS))[:, None, None]).astype(np.float64)
        return shares


def segments_of(tokens: Tokens, pair: Pair) -> NDArray[np.int64] | None:
    """Return the segment of each piece if the encoder reads both sides of a pair, else None.

    A special piece belongs to the segment that it follows; the first special piece to the first segment.
    """
    if not pair.target or len(tokens.text) != len(pair.source) + len(pair.target):
        return None
    segment, segments = 0, []
    for word in tokens.words:
        segment = segment if word == SPECIAL else int(word >= len(pair.source))
        segments.append(segment)
    return np.array(segments)


def patterns(
    model: Inspected, pairs: Iterable[Pair], parts: Sequence[Part], threshold: float = THRESHOLD, seed: int = 1
) -> Finding:
    """Classify the attention maps of a text.

    Args:
        pairs: the text.
        threshold: see `align.analysis.patterns.rule`.
        seed: seed of the bootstrap.

    Raises:
        DataError: no text has at least SHORTEST pieces and is readable for the model.
    """
    by_part = {part: PartPatterns(part, threshold) for part in parts}
    for reading in model.read(pairs, parts):
        for part in reading.maps:
            by_part[part].add(reading)
    if not all(part_patterns.names["weight"] for part_patterns in by_part.values()):
        raise DataError(f"there is no line of {SHORTEST} pieces or more that the model can read")
    tables = {"parts": _part_table(by_part, seed), "layers": _layer_table(by_part), "heads": _head_table(by_part)}
    figures = {f"{part}.shares": _share_figure(part_patterns) for part, part_patterns in by_part.items()}
    return Finding(
        tables,
        figures
        | {
            f"{part}.examples": _example_figure(part_patterns)
            for part, part_patterns in by_part.items()
            if part_patterns.examples
        },
    )


def _columns(*first: str) -> list[Column]:
    heads = ("vertical", "diagonal", "both", "block", "other")
    columns = [Column(key, key) for key in (*first, "measure")]
    return columns + [Column(key, f"{head}, %", 1) for key, head in zip(PATTERNS, heads, strict=True)]


def _part_table(by_part: Mapping[Part, PartPatterns], seed: int) -> Table:
    """Return a table of all heads of a part together, with intervals in wide tables."""
    columns = _columns("part") + [Column(f"{key} interval", f"{key}, interval", 1, wide=True) for key in PATTERNS]
    columns.append(Column("texts", "texts"))
    rows: list[dict[str, Value]] = []
    for part, part_patterns in by_part.items():
        draws = Draws(len(part_patterns.names["weight"]), seed)
        for measure in MEASURES:
            shares = part_patterns.shares(measure)
            row: dict[str, Value] = {"part": part, "measure": MEASURES[measure], "texts": len(shares)}
            for key, share in zip(PATTERNS, shares.mean((2, 3)).T, strict=True):
                value, low, high = draws.share(share, np.ones_like(share))
                row |= {key: percent(value), f"{key} interval": interval(percent(low), percent(high))}
            rows.append(row)
    notes = ["shares of the maps of all heads in all texts; intervals: 95 %, bootstrap over texts"]
    if not all(part_patterns.examples for part_patterns in by_part.values()):
        notes.append(f"no map is drawn of texts of more than {LONGEST_SHOWN} pieces")
    if short := sum(part_patterns.short for part_patterns in by_part.values()):
        notes.append(
            f"{plural(short, 'text')} left out that a part has fewer than {SHORTEST} pieces of, counted by part"
        )
    return Table(columns, rows, notes)


def _layer_table(by_part: Mapping[Part, PartPatterns]) -> Table:
    rows: list[dict[str, Value]] = [
        {"part": part, "layer": layer, "measure": MEASURES[measure], **_named(shares)}
        for part, part_patterns in by_part.items()
        for measure in MEASURES
        for layer, shares in enumerate(part_patterns.shares(measure).mean((0, 3)).T, 1)
    ]
    return Table(_columns("part", "layer"), rows)


def _head_table(by_part: Mapping[Part, PartPatterns]) -> Table:
    rows: list[dict[str, Value]] = []
    for part, part_patterns in by_part.items():
        for measure in MEASURES:
            shares = part_patterns.shares(measure).mean(0)  # [5, L, H]
            for layer, head in np.ndindex(shares.shape[1:]):
                row: dict[str, Value] = {"part": part, "layer": layer + 1, "head": head + 1}
                rows.append({**row, "measure": MEASURES[measure], **_named(shares[:, layer, head])})
    return Table(_columns("part", "layer", "head"), rows, wide=True)


def _named(shares: Doubles) -> dict[str, Value]:
    return {key: percent(share) for key, share in zip(PATTERNS, shares, strict=True)}


def _share_figure(part_patterns: PartPatterns) -> Callable[[], Figure]:
    def draw() -> Figure:
        from align.analysis.plots import bars

        by_layer = np.stack([part_patterns.shares(measure).mean((0, 3)) for measure in MEASURES], -1)  # [5, L, 2]
        names = [f"{layer + 1} {MEASURES[measure]}" for layer in range(by_layer.shape[1]) for measure in MEASURES]
        heights = {key: [100 * float(share) for share in by_layer[n].ravel()] for n, key in enumerate(PATTERNS)}
        return bars(names, heights, {}, "maps of a layer, %", part_patterns.part)

    return draw


def _example_figure(part_patterns: PartPatterns) -> Callable[[], Figure]:
    def draw() -> Figure:
        from align.analysis.plots import attention_maps

        panels = {
            f"{PATTERNS[pattern]} ({example.place[0]}-{example.place[1]})": (
                example.values,
                example.rows.pieces,
                example.columns.pieces,
            )
            for pattern, example in sorted(part_patterns.examples.items())
        }
        return attention_maps(panels, f"{part_patterns.part}: the most typical maps (layer-head)")

    return draw
