"""Tables of a translation model and its adversaries: losses, distances, and error rates of links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from align.analysis.adversary.losses import Distance
from align.core.types import Score
from align.evaluation.metrics import estimate
from align.evaluation.swept import POSITIONS, SCORES, Sweep
from align.evaluation.tables import Column, Value, interval, percent
from align.view.findings import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Measured:
    """Measurements of a model, the original or an adversary.

    Attributes:
        name: name in tables.
        weight: lambda; None for the original.
        loss: loss on held-out text.
        distances: distances from the original, by the score that attention is measured by; empty for the original.
        sweep: links at every layer and head.
    """

    name: str
    weight: float | None
    loss: float
    distances: Mapping[Score, Distance]
    sweep: Sweep


def chosen(swept: Sweep, score: int) -> tuple[int, int]:
    """Return the position and the layer, as an index in `cells`, whose links are most consistent; gold is not used."""
    layers = np.array([cell.head == "all" for cell in swept.cells])
    values = np.where(layers, swept.consistency[score], -np.inf)  # [2, C]
    position, cell = np.unravel_index(np.argmax(values), values.shape)
    return int(position), int(cell)


def model_table(models: Sequence[Measured]) -> Table:
    """Return a table with a row per model: loss, distances, and error rates."""
    columns = [Column("model", "model"), Column("lambda", "lambda", wide=True), Column("loss", "loss", 3)]
    columns += [Column("tvd", "TVD", 3)]
    columns += [Column(f"js_{score}", f"JSD, {score}", 3) for score in SCORES]
    columns.append(Column("ranks", "rank corr.", 2, wide=True))
    for score in SCORES:
        columns += [Column(score, f"AER, {score}", 1), Column(f"{score}_interval", f"interval, {score}", 1, wide=True)]
        columns += [
            Column(f"{score}_place", f"read at, {score}", wide=True),
            Column(f"{score}_lowest", f"lowest, {score}", 1, wide=True),
        ]
    rows = []
    for model in models:
        row: dict[str, Value] = {"model": model.name, "lambda": model.weight, "loss": model.loss}
        by_weight = model.distances.get("weight")
        row |= {key: getattr(by_weight, key) if by_weight else None for key in ("tvd", "ranks")}
        row |= {f"js_{score}": distance.js if (distance := model.distances.get(score)) else None for score in SCORES}
        for number, score in enumerate(SCORES):
            row |= _links(model.sweep, number, score)
        rows.append(row)
    notes = [
        "loss: nats a piece, of text held out; TVD of predictions, JSD and rank correlation of attention: "
        "from the original; JSD by norm: of shares of a row's weighted norms",
        "AER, %, of the layer and position whose links are most consistent (without gold); lowest: of all layers",
    ]
    return Table(columns, rows, notes)


def _links(swept: Sweep, number: int, score: str) -> dict[str, Value]:
    """Return the error rates of a score."""
    position, cell = chosen(swept, number)
    assert swept.counts is not None
    rate = estimate(swept.counts[:, number, position, cell], "aer")
    layers = [n for n, candidate in enumerate(swept.cells) if candidate.head == "all"]
    return {
        score: percent(rate.value),
        f"{score}_interval": interval(percent(rate.low), percent(rate.high)),
        f"{score}_place": f"{POSITIONS[position]}, layer {swept.cells[cell].layer}",
        f"{score}_lowest": percent(float(np.nanmin(swept.rates()[number][:, layers]))),
    }


def layer_table(models: Sequence[Measured], heads: int) -> Table:
    """Return a table with a row per model and layer."""
    columns = [Column("model", "model"), Column("layer", "layer")]
    columns += [Column(f"js_{score}", f"JSD, {score}", 3) for score in SCORES]
    columns += [
        Column(f"{score}_{position}", f"AER, {score}, {position}", 1) for score in SCORES for position in POSITIONS
    ]
    columns += [Column(f"{score}_null", f"no link, {score}, input", 1) for score in SCORES]
    note = "AER, %, of all heads of a layer together; no link: of target words, %, because </s> has the largest score"
    rows: list[dict[str, Value]] = []
    for model in models:
        by_layer = {score: distance.heads.reshape(-1, heads).mean(1) for score, distance in model.distances.items()}
        rates = model.sweep.rates()  # [2, 2, C]
        for n, cell in enumerate(model.sweep.cells):
            if cell.head == "all":
                row: dict[str, Value] = {"model": model.name, "layer": cell.layer}
                row |= {f"js_{score}": float(by_layer[score][cell.layer - 1]) if by_layer else None for score in SCORES}
                for s, score in enumerate(SCORES):
                    row |= {f"{score}_{place}": percent(rates[s, p, n]) for p, place in enumerate(POSITIONS)}
                    unlinked = model.sweep.null[s, POSITIONS.index("input"), n]
                    row[f"{score}_null"] = percent(unlinked / max(1, model.sweep.target_words))
                rows.append(row)
    return Table(columns, rows, [note], wide=True)


def rate_figure(models: Sequence[Measured], moved: Score) -> Figure:
    """Plot error rates by the distance that attention has moved, by weight or by norm."""
    from align.analysis.plots import curves

    def points(row: Callable[[Measured], float]) -> Any:
        return np.array([(model.distances[moved].js if model.distances else 0.0, row(model)) for model in models])

    def rate(score: int) -> Callable[[Measured], float]:
        return lambda model: 100 * float(model.sweep.rates()[score][chosen(model.sweep, score)])

    lines = {f"AER, {score}": points(rate(n)) for n, score in enumerate(SCORES)}
    return curves(lines, f"JSD of cross-attention by {moved}, nats", "AER, %", "")
