"""Similarity of heads: Jensen-Shannon divergence of each two, and a map of heads (Clark et al. 2019, 6).

Letters: C heads of all layers, T rows, S columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from align.analysis.commands.common import Answer
from align.analysis.commands.questions import Similarity
from align.analysis.maps import MEASURES, Doubles, Inspected, measured
from align.analysis.plots import named_points
from align.cli.loading import Request
from align.cli.sweep import need
from align.core.errors import DataError
from align.core.types import Pair, Part
from align.view.findings import Finding, make_table


def js(p: NDArray[Any], q: NDArray[Any]) -> Doubles:
    """Return the Jensen-Shannon divergence, the mean KL of both from their mean: 0 to log 2, `[..., S]` to `[...]`."""
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    mean = (p + q) / 2
    divergence: Doubles = np.maximum(0.0, (rel_entr(p, mean).sum(-1) + rel_entr(q, mean).sum(-1)) / 2)
    return divergence


def divergences(values: NDArray[np.float32]) -> Doubles:
    """Return the divergence of each two heads in one text, summed over rows, in bits: `[C, T, S]` to `[C, C]`."""
    rows = values / np.maximum(values.sum(2, keepdims=True), 1e-12)
    matrix = np.zeros((len(rows), len(rows)))
    for c in range(len(rows) - 1):
        matrix[c, c + 1 :] = matrix[c + 1 :, c] = js(rows[c], rows[c + 1 :]).sum(1) / log(2)
    return matrix


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


def measure(
    model: Inspected, pairs: Iterable[Pair], parts: Sequence[Part]
) -> tuple[dict[Part, dict[str, Doubles]], dict[Part, int]]:
    """Return the mean divergences `[C, C]` of the heads of each part by each measure, and the number of rows."""
    sizes = {part: int(np.prod(model.shape[part])) for part in parts}
    for part, size in sizes.items():
        if size < 2:
            raise DataError(f"the {part} of {model.name} has one head, which no other is like")
    totals = {part: {name: np.zeros((size, size)) for name in MEASURES} for part, size in sizes.items()}
    rows = dict.fromkeys(parts, 0)
    for by_part in model.read(pairs, parts):
        for part, maps in by_part.items():
            rows[part] += len(maps.rows)
            for name, values in measured(maps).items():
                totals[part][name] += divergences(values.reshape(-1, *values.shape[2:]))
    if not all(rows.values()):
        raise DataError("there is no line that the model can read")
    return {part: {name: total / rows[part] for name, total in by.items()} for part, by in totals.items()}, rows


def similarity(model: Inspected, pairs: Iterable[Pair], parts: Sequence[Part], seed: int = 1) -> Finding:
    """Return tables of how similar heads are and of the nearest of each, and a map of heads; see `measure`."""
    by_layer: list[list[Any]] = []
    by_head: list[list[Any]] = []
    figures = {}
    means, rows = measure(model, pairs, parts)
    for part, by_measure in means.items():
        names = [f"{layer + 1}-{head + 1}" for layer, head in np.ndindex(model.shape[part])]
        layers = np.repeat(np.arange(model.shape[part][0]), model.shape[part][1])  # of each head
        for measure_name, distances in by_measure.items():
            symbol = MEASURES[measure_name]
            other = ~np.eye(len(distances), dtype=bool)
            for layer in range(model.shape[part][0]):
                own = layers == layer
                groups = distances[np.outer(own, own) & other], distances[np.outer(own, ~own)]
                by_layer.append([part, layer + 1, symbol, *(group.mean() if group.size else None for group in groups)])
            places = embed(distances, seed)
            nearest = np.where(other, distances, np.inf).argmin(1)  # the first on ties
            mean = distances.sum(1) / (len(distances) - 1)
            for head, (name, near) in enumerate(zip(names, nearest, strict=True)):
                row = distances[head, near], mean[head], *places[head]
                by_head.append([part, symbol, name, names[near], *row])
            members = {f"layer {n + 1}": np.flatnonzero(layers == n) for n in range(model.shape[part][0])}
            points = {key: places[heads] for key, heads in members.items()}
            labels = {key: [names[head] for head in heads] for key, heads in members.items()}
            figures[f"{part}.{measure_name}"] = partial(named_points, points, labels, f"{part}: heads by {symbol}")
    tables = {
        "layers": make_table(
            "part | layer | measure | within: within the layer .3 | between: to other layers .3",
            by_layer,
            "Jensen-Shannon divergence in bits, from 0 to 1: the mean over all rows of the text and pairs of heads",
            "; ".join(f"{part}: {count:,} rows" for part, count in rows.items()),
        ),
        "heads": make_table(
            "part | measure | head | nearest | distance: its divergence .3 | mean: mean of all .3 | x .3 | y .3",
            by_head,
            "head: layer-head; x, y: its place in the map of heads",
            wide=True,
        ),
    }
    return Finding(tables, figures)


def answer(question: Similarity, request: Request) -> Answer:
    """Answer the question of `extract-align analyse similarity`."""
    need("sklearn", "maps of heads")
    return question.ask(request, partial(similarity, seed=question.seed))
