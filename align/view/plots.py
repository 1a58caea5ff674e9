"""Heat maps of the paper: error rate by layer and score, and by layer and head (matplotlib)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

Values = NDArray[np.float64]


def _heat_map(axes: Any, values: Values, rows: Sequence[str], limits: tuple[float, float]) -> Any:
    """One map with its numbers written in, columns from 1; dark is high. A cell without a value stays white."""
    columns = [str(n) for n in range(1, values.shape[1] + 1)]
    image = axes.imshow(values, cmap="Blues", vmin=limits[0], vmax=limits[1], aspect="auto")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    middle = sum(limits) / 2
    for (y, x), value in np.ndenumerate(values):
        text = "n/a" if np.isnan(value) else f"{value:.1f}" if limits[1] > 10 else f"{value:.2f}"
        axes.text(x, y, text, ha="center", va="center", color="white" if value > middle else "black", fontsize=8)
    return image


def layer_map(values: Values, rows: Sequence[str], what: str, title: str) -> Figure:
    """Settings by layer, all heads together.

    Args:
        values: `[R, L]`, NaN where there is none.
        rows: names of the R settings.
        what: the number's name, for the colour bar.
        title: above the map.
    """
    figure = Figure(figsize=(2.6 + 0.62 * values.shape[1], 1.3 + 0.36 * len(rows)), layout="constrained")
    axes = figure.subplots()
    image = _heat_map(axes, values, rows, _limits(values))
    axes.set_xlabel("layer")
    axes.set_title(title, fontsize=10)
    figure.colorbar(image, label=what)
    return figure


def head_maps(values: Values, panels: Sequence[str], what: str, title: str) -> Figure:
    """A panel for each setting: layers down, heads across.

    Args:
        values: `[R, L, H]`, NaN where there is none.
        panels: names of the R settings.
        what: the number's name, for the colour bar.
        title: above all.
    """
    _, layers, heads = values.shape
    across = 2 if len(panels) > 1 else 1
    down = -(-len(panels) // across)
    size = (1.6 + across * (0.9 + 0.5 * heads), 0.9 + down * (0.8 + 0.32 * layers))
    figure = Figure(figsize=size, layout="constrained")
    grid = np.atleast_1d(figure.subplots(down, across)).ravel()
    for axes, name, panel in zip(grid, panels, values, strict=False):
        image = _heat_map(axes, panel, [str(n) for n in range(1, layers + 1)], _limits(values))
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("head", fontsize=8)
        axes.set_ylabel("layer", fontsize=8)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(title, fontsize=10)
    figure.colorbar(image, ax=list(grid), label=what)
    return figure


def _limits(values: Values) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and PDF, the same bytes for the same figure; gives back the two names.

    Raises:
        OSError: it cannot be written.
    """
    names = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "pdf")]
    figure.savefig(names[0], dpi=160, metadata={"Software": None})
    figure.savefig(names[1], metadata={"CreationDate": None})
    return names
