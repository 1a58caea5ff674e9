"""The plot of `benchmark-peers`: time over number of pairs, both logarithmic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from align.evaluation.tables import Value
from align.view.plots import in_style, save

LINES = {"one": "-", "both": "-", "encoder-8": ":", "encoder-12": "--"}
"""How systems are drawn, by their names or what these begin with; others as dashes and dots."""

MARKERS = {"float32": "o", "bfloat16": "^", "int8": "s"}
"""By arithmetic."""

COLOURS = {
    "fast_align": "tab:gray",
    "eflomal": "tab:green",
    "giza": "tab:brown",
    "one": "tab:blue",
    "both": "tab:orange",
    "encoder": "black",
}
"""Their colours."""


@in_style
def plot(rows: Sequence[Mapping[str, Value]], path: Path) -> list[Path]:
    """Draw a line for each system, and for what was measured on a sample a dotted one of its rate.

    Args:
        rows: of the table: `system`, `name`, `pairs`, `seconds`.
        path: of the files without suffix.
    """
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots()
    systems = {str(row["system"]): str(row["name"]) for row in rows}
    measured = {
        system: sorted((int(str(row["pairs"])), float(str(row["seconds"]))) for row in rows if row["system"] == system)
        for system in systems
    }
    sizes = sorted({size for system, points in measured.items() if "encoder" not in system for size, _ in points})
    for system, points in measured.items():
        kind, _, arithmetic = system.partition("-")
        if system == "fast_align-training":
            continue
        if kind == "encoder":
            sample, seconds = points[-1]
            points = [(size, size * seconds / sample) for size in sizes or [sample]]
        axes.plot(
            *zip(*points, strict=True), LINES.get(system, LINES.get(kind, "-.")), color=COLOURS[kind],
            marker=MARKERS.get(arithmetic, "."), markersize=4, linewidth=1, label=systems[system],
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("pairs")
    axes.set_ylabel("seconds")
    axes.grid(visible=True, which="major", linewidth=0.3)
    figure.legend(loc="outside right center", frameon=False)
    return save(figure, path)
