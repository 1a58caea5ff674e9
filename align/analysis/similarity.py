"""Similarity of heads: Jensen-Shannon divergence of each two, and a map of heads (Clark et al. 2019, 6).

Letters: C heads of all layers, T rows, S columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from align.analysis.maps import MEASURES, Inspected, measured
from align.analysis.plots import named_points
from align.core.errors import DataError
from align.core.types import Pair, Part
from align.view.findings import Finding, make_table

Doubles = NDArray[np.float64]


def kl(p: NDArray[Any], q: NDArray[Any]) -> Doubles:
    """Return the Kullback-Leibler divergence of p from q, `sum p log(p / q)`: 0 to infinity, `[..., S]` to `[...]`."""
    divergence: Doubles = rel_entr(np.asarray(p, np.float64), np.asarray(q, np.float64)).sum(-1)
    return divergence


def js(p: NDArray[Any], q: NDArray[Any]) -> Doubles:
    """Return the Jensen-Shannon divergence, the mean KL of both from their mean: 0 to log 2, `[..., S]` to `[...]`."""
    middle = (np.asarray(p, np.float64) + q) / 2
    divergence: Doubles = np.maximum(0.0, (kl(p, middle) + kl(q, middle)) / 2)
    return divergence


def tvd(p: NDArray[Any], q: NDArray[Any]) -> Doubles:
    """Return the total variation distance, half of the sum of absolute differences: 0 to 1, `[..., S]` to `[...]`."""
    distance: Doubles = np.abs(np.asarray(p, np.float64) - q).sum(-1) / 2
    return distance


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
    """Mean divergences of a part's heads over all rows of a text."""

    shape: tuple[int, int]  # number of layers, and of heads per layer
    total: dict[str, Doubles]  # sums over rows by measure `[C, C]`
    rows: int = 0  # number of rows

    def mean(self, measure: str) -> Doubles:
        """Return the mean divergence of each two heads `[C, C]`, in bits."""
        return self.total[measure] / self.rows

    def name(self, head: int) -> str:
        """Return layer and head, e.g. `3-1`."""
        layer, number = divmod(head, self.shape[1])
        return f"{layer + 1}-{number + 1}"


def nearest(distances: Doubles) -> list[tuple[int, float]]:
    """Return the head that is nearest to each head, the first on ties, and its divergence, from those `[C, C]`."""
    distinct = np.where(np.eye(len(distances), dtype=bool), np.inf, distances)
    return [(int(row.argmin()), float(row.min())) for row in distinct]


def embed(distances: Doubles, seed: int) -> Doubles:
    """Place heads in two dimensions, with distances close to their divergences `[C, 2]`.

    Uses metric multidimensional scaling (SMACOF) and keeps the best of four random starts. The axes are rotated to the
    directions of most and least variance, so that equal distances `[C, C]` give equal pictures.
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
    """Return mean divergences over a text."""
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
    """Return tables of how similar heads are and of the nearest of each, and a map of heads; see `measure`."""
    by_layer, by_head, figures = [], [], {}
    sizes = []
    for part, heads in measure(model, pairs, parts).items():
        sizes.append(f"{part}: {heads.rows:,} rows")
        layers = np.repeat(np.arange(heads.shape[0]), heads.shape[1])
        of_layer = {f"layer {n + 1}": np.flatnonzero(layers == n) for n in range(heads.shape[0])}
        for measure_name, symbol in MEASURES.items():
            distances = heads.mean(measure_name)
            for layer in range(heads.shape[0]):
                own = layers == layer
                groups = distances[own][:, own][~np.eye(own.sum(), dtype=bool)], distances[own][:, ~own]
                by_layer.append([part, layer + 1, symbol, *(group.mean() if group.size else None for group in groups)])
            places = embed(distances, seed)
            means = distances.sum(1) / (len(distances) - 1)
            for head, (other, distance) in enumerate(nearest(distances)):
                names = heads.name(head), heads.name(other)
                by_head.append([part, symbol, *names, distance, means[head], *places[head]])
            points = {name: places[members] for name, members in of_layer.items()}
            labels = {name: [heads.name(int(head)) for head in members] for name, members in of_layer.items()}
            figures[f"{part}.{measure_name}"] = named_points(points, labels, f"{part}: heads by {symbol}")
    tables = {
        "layers": make_table(
            "part | layer | measure | within: within the layer .3 | between: to other layers .3",
            by_layer,
            "Jensen-Shannon divergence in bits, from 0 to 1: the mean over all rows of the text and pairs of heads",
            "; ".join(sizes),
        ),
        "heads": make_table(
            "part | measure | head | nearest | distance: its divergence .3 | mean: mean of all .3 | x .3 | y .3",
            by_head,
            "head: layer-head; x, y: its place in the map of heads",
            wide=True,
        ),
    }
    return Finding(tables, figures)
