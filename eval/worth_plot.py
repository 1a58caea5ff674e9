"""The plot of `worth`: precision over recall, how often links of a score are right, and error rates of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from align.evaluation.metrics import precision, recall
from align.evaluation.tables import Interval, Value
from align.view.plots import in_style, save

COLOURS = {
    "two models": "tab:orange",
    "one model": "tab:blue",
    "eflomal": "tab:green",
}
"""Of the systems."""

Row = Mapping[str, Value]
Shares = NDArray[np.float64]


@in_style
def plot(
    curves: Mapping[str, tuple[Shares, Shares]],
    points: Mapping[str, Sequence[NDArray[np.int64]]],
    scores: Sequence[Row],
    parts: Sequence[Row],
    path: Path,
) -> list[Path]:
    """Draw all of it into one figure.

    Args:
        curves: precision and recall of each model over thresholds.
        points: counts of each statistical aligner's links by heuristic `[4]`.
        scores: rows of `worth.scores`.
        parts: rows of `worth.parts`.
        path: of the files without suffix.
    """
    figure = Figure(figsize=(7.2, 8.4), layout="constrained")
    grid = figure.add_gridspec(3, 2, height_ratios=(3, 2, 2))
    _trade_off(figure.add_subplot(grid[0, 0]), curves, points)
    _reliability(figure.add_subplot(grid[0, 1]), scores)
    kinds = [(kind, list(rows)) for kind, rows in groupby(parts, lambda row: str(row["kind"]))]
    places = (grid[1, :], grid[2, 0], grid[2, 1])
    for (kind, rows), place in zip(kinds, places, strict=True):
        _bars(figure.add_subplot(place), kind, rows)
    return save(figure, path)


def _trade_off(
    axes: Any, curves: Mapping[str, tuple[Shares, Shares]], points: Mapping[str, Sequence[NDArray[np.int64]]]
) -> None:
    for name, (precisions, recalls) in curves.items():
        axes.plot(100 * recalls, 100 * precisions, color=COLOURS[name], linewidth=1.2, label=name)
    for name, counts in points.items():
        shares = sorted((100 * float(recall(some)), 100 * float(precision(some))) for some in counts)
        axes.plot(*zip(*shares, strict=True), ":", marker="o", markersize=3, color=COLOURS[name], label=name)
    axes.set(xlim=(50, 100), ylim=(50, 100), xlabel="recall of sure links, %", ylabel="precision, %")
    axes.set_title("thresholds; heuristics of statistical aligners")
    axes.grid(visible=True, linewidth=0.3)
    axes.legend(frameon=False, loc="lower left")


def _reliability(axes: Any, rows: Sequence[Row]) -> None:
    axes.plot((0, 100), (0, 100), color="black", linewidth=0.6, linestyle=":")
    for name, some in groupby(rows, lambda row: str(row["system"])):
        known = [(row["score"], row["right"], row["interval"]) for row in some]
        shown = np.array([(x, y, *ends) for x, y, ends in known if isinstance(ends, Interval)]).reshape(-1, 4)
        x, y, low, high = shown.T
        axes.errorbar(
            x, y, yerr=(y - low, high - y), color=COLOURS[name], linewidth=1.2, elinewidth=0.6, marker=".", label=name
        )
    axes.set(xlim=(0, 100), ylim=(0, 100), xlabel="score × 100", ylabel="links that are right, %")
    axes.set_title("is a link of score 0.8 right 80 % of the time?")
    axes.grid(visible=True, linewidth=0.3)


def _bars(axes: Any, kind: str, rows: Sequence[Row]) -> None:
    names = list(dict.fromkeys(str(row["part"]) for row in rows))
    systems = list(dict.fromkeys(str(row["system"]) for row in rows))
    width = 0.8 / len(systems)
    for n, system in enumerate(systems):
        values = [row["aer"] for row in rows if row["system"] == system]
        places = np.arange(len(names)) + (n - (len(systems) - 1) / 2) * width
        axes.bar(places, [np.nan if v is None else float(str(v)) for v in values], width, color=COLOURS[system])
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("AER, %")
    axes.set_title(kind)
    axes.grid(visible=True, axis="y", linewidth=0.3)
