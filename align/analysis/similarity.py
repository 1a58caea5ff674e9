"""Similarity of heads: Jensen-Shannon divergence of each two, and a map of heads (Clark et al. 2019, 6).

Letters: C heads of all layers, T rows, S columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.analysis.maps import MEASURES, Inspected, measured
from align.core.errors import DataError
from align.core.types import Pair, Part
from align.evaluation.tables import Column, Value
from align.view.findings import Finding, Table

Doubles = NDArray[np.float64]


def kl(p: NDArray[Any], q: NDArray[Any]) -> Doubles:
    """Return the Kullback-Leibler divergence of p from q, `sum p log(p / q)`: 0 to infinity, `[..., S]` to `[...]`."""
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * (np.log(p) - np.log(q)), 0.0)
    divergence: Doubles = terms.sum(-1)
    return divergence


def js(p: NDArray[Any], q: NDArray[Any]) -> Doubles:
    """Return the Jensen-Shannon divergence, the mean KL of both from their mean: 0 to log 2, `[..., S]` to `[...]`."""
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    middle = (p + q) / 2
    divergence: Doubles = np.maximum(0.0, (kl(p, middle) + kl(q, middle)) / 2)
    return divergence


def tvd(p: NDArray[Any], q: NDArray[Any]) -> Doubles:
    """Return the total variation distance, half of the sum of absolute differences: 0 to 1, `[..., S]` to `[...]`."""
    distance: Doubles = np.abs(np.asarray(p, np.float64) - np.asarray(q, np.float64)).sum(-1) / 2
    return distance


if TYPE_CHECKING:
    from matplotlib.figure import Figure


def divergences(values: NDArray[np.float32]) -> Doubles:
    """Return the divergence of each two heads in one text, summed over rows, in bits: 0 to T.

    Args:
        values: weights or norms `[C, T, S]`; each row is normalised to sum to 1.

    Returns:
        `[C, C]`, symmetric.
    """
    rows = values / np.maximum(values.sum(2, keepdims=True), 1e-12)
    matrix = np.zeros((len(rows), len(rows)))
    for c in range(len(rows) - 1):
        matrix[c, c + 1 :] = matrix[c + 1 :, c] = js(rows[c], rows[c + 1 :]).sum(1) / log(2)
    return matrix


@dataclass
class Distances:
    """Mean divergences of a part's heads over all rows of a text.

    Attributes:
        shape: number of layers, and of heads per layer.
        total: sums over rows by measure `[C, C]`.
        rows: number of rows.
    """

    shape: tuple[int, int]
    total: dict[str, Doubles]
    rows: int = 0

    def mean(self, measure: str) -> Doubles:
        """Return the mean divergence of each two heads `[C, C]`, in bits."""
        return self.total[measure] / self.rows

    def name(self, head: int) -> str:
        """Return layer and head, e.g. `3-1`."""
        layer, number = divmod(head, self.shape[1])
        return f"{layer + 1}-{number + 1}"


class Neighbour(NamedTuple):
    """The head most similar to another head, and its divergence."""

    head: int
    distance: float


def nearest(distances: Doubles) -> list[Neighbour]:
    """Return the neighbour of each head; the first on ties.

    Args:
        distances: `[C, C]`.
    """
    distinct = np.where(np.eye(len(distances), dtype=bool), np.inf, distances)
    return [Neighbour(int(row.argmin()), float(row.min())) for row in distinct]


def embed(distances: Doubles, seed: int) -> Doubles:
    """Place heads in two dimensions, with distances close to their divergences `[C, 2]`.

    Uses metric multidimensional scaling (SMACOF) and keeps the best of four random starts. The axes are rotated to the
    directions of most and least variance, so that equal distances give equal pictures.

    Args:
        distances: `[C, C]`.
        seed: seed of the starts.
    """
    from sklearn.manifold import smacof

    draw = np.random.RandomState(seed)
    places, _ = smacof(distances, n_components=2, n_init=4, init=None, random_state=draw, normalized_stress=False)
    places = places - places.mean(0)
    _, _, axes = np.linalg.svd(places, full_matrices=False)
    turned: Doubles = places @ axes.T
    signs = np.sign(turned[np.abs(turned).argmax(0), [0, 1]])
    return turned * np.where(signs == 0, 1, signs)


def measure(model: Inspected, pairs: Iterable[Pair], parts: Sequence[Part]) -> dict[Part, Distances]:
    """Return mean divergences over a text.

    Args:
        pairs: the text.

    Raises:
        DataError: a part has only one head, or the text has no readable line.
    """
    for part in parts:
        if np.prod(model.shape[part]) < 2:
            raise DataError(f"the {part} of {model.name} has one head, which no other is like")
    distances = {}
    for part in parts:
        count = int(np.prod(model.shape[part]))
        distances[part] = Distances(model.shape[part], {name: np.zeros((count, count)) for name in MEASURES})
    for reading in model.read(pairs, parts):
        for part, maps in reading.maps.items():
            distances[part].rows += len(maps.rows)
            for name, values in measured(maps).items():
                distances[part].total[name] += divergences(values.reshape(-1, *values.shape[2:]))
    if not all(part_distances.rows for part_distances in distances.values()):
        raise DataError("there is no line that the model can read")
    return distances


def similarity(model: Inspected, pairs: Iterable[Pair], parts: Sequence[Part], seed: int = 1) -> Finding:
    """Return tables of the similarity of heads and of each head's nearest head, and a map of heads; see `measure`.

    Args:
        pairs: the text.
        seed: seed of the map.
    """
    by_part = measure(model, pairs, parts)
    places = {
        (part, name): embed(distances.mean(name), seed)
        for part, distances in by_part.items()
        for name in MEASURES
    }  # fmt: skip
    return Finding(
        {"layers": _layer_table(by_part), "heads": _head_table(by_part, places)},
        {f"{part}.{name}": _figure(by_part[part], places[part, name], part, name) for part, name in places},
    )


def _layer_table(by_part: Mapping[Part, Distances]) -> Table:
    """Return a table of the mean divergence within each layer and to other layers."""
    columns = [Column("part", "part"), Column("layer", "layer"), Column("measure", "measure")]
    columns += [Column("within", "within the layer", 3), Column("between", "to other layers", 3)]
    rows: list[dict[str, Value]] = []
    for part, heads in by_part.items():
        layers = np.repeat(np.arange(heads.shape[0]), heads.shape[1])
        for name, symbol in MEASURES.items():
            distances = heads.mean(name)
            for layer in range(heads.shape[0]):
                own = layers == layer
                within = distances[own][:, own][~np.eye(own.sum(), dtype=bool)]
                row: dict[str, Value] = {"part": part, "layer": layer + 1, "measure": symbol}
                row |= {"within": _mean(within), "between": _mean(distances[own][:, ~own])}
                rows.append(row)
    notes = ["Jensen-Shannon divergence in bits, from 0 to 1: the mean over all rows of the text and pairs of heads"]
    notes.append("; ".join(f"{part}: {heads.rows:,} rows" for part, heads in by_part.items()))
    return Table(columns, rows, notes)


def _mean(values: Doubles) -> float | None:
    return float(values.mean()) if values.size else None


def _head_table(by_part: Mapping[Part, Distances], places: Mapping[tuple[Part, str], Doubles]) -> Table:
    columns = [Column("part", "part"), Column("measure", "measure"), Column("head", "head")]
    columns += [Column("nearest", "nearest"), Column("distance", "its divergence", 3)]
    columns += [Column("mean", "mean of all", 3), Column("x", "x", 3), Column("y", "y", 3)]
    rows: list[dict[str, Value]] = []
    for (part, name), place in places.items():
        heads, distances = by_part[part], by_part[part].mean(name)
        for head, neighbour in enumerate(nearest(distances)):
            row: dict[str, Value] = {"part": part, "measure": MEASURES[name], "head": heads.name(head)}
            row |= {"nearest": heads.name(neighbour.head), "distance": neighbour.distance}
            row["mean"] = float(distances[head].sum()) / (len(distances) - 1)
            rows.append({**row, "x": float(place[head, 0]), "y": float(place[head, 1])})
    return Table(columns, rows, ["head: layer-head; x, y: its place in the map of heads"], wide=True)


def _figure(heads: Distances, places: Doubles, part: Part, name: str) -> Callable[[], Figure]:
    def draw() -> Figure:
        from align.analysis.plots import named_points

        layers = np.repeat(np.arange(heads.shape[0]), heads.shape[1])
        points = {f"layer {layer + 1}": places[layers == layer] for layer in range(heads.shape[0])}
        names = {
            f"layer {layer + 1}": [heads.name(int(head)) for head in np.flatnonzero(layers == layer)]
            for layer in range(heads.shape[0])
        }
        return named_points(points, names, f"{part}: heads by {MEASURES[name]}")

    return draw
