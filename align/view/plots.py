"""Heat maps of the paper: error rate by layer and score, and by layer and head (matplotlib)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

Values = NDArray[np.float64]


class _Scale(NamedTuple):
    """Ends of the colours, and whether the lowest number is the best."""

    low: float
    high: float
    lowest: bool


def _heat_map(axes: Any, values: Values, rows: Sequence[str], columns: Sequence[str], scale: _Scale) -> Any:
    """One map with its numbers written into the cells; dark is bad, and a cell without a value stays white."""
    image = axes.imshow(
        values, cmap="Blues" if scale.lowest else "Blues_r", vmin=scale.low, vmax=scale.high, aspect="auto"
    )
    axes.set_xticks(range(len(columns)), columns, fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.tick_params(length=0)
    middle = (scale.low + scale.high) / 2
    for (y, x), value in np.ndenumerate(values):
        text = "n/a" if np.isnan(value) else f"{value:.1f}" if scale.high > 10 else f"{value:.2f}"
        dark = value > middle if scale.lowest else value < middle
        axes.text(x, y, text, ha="center", va="center", color="white" if dark else "black", fontsize=8)
    return image


def _frame_best(axes: Any, values: Values, lowest: bool) -> None:
    if np.isfinite(values).any():
        best = np.nanargmin(values) if lowest else np.nanargmax(values)
        y, x = np.unravel_index(best, values.shape)
        axes.add_patch(Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, fill=False, edgecolor="darkorange", linewidth=1.8))


def layer_map(values: Values, rows: Sequence[str], what: str, title: str, lowest: bool) -> Figure:
    """Settings by layer, all heads together; the best layer of each setting is framed.

    Args:
        values: `[R, L]`, NaN where there is none.
        rows: names of the R settings.
        what: the number's name, for the colour bar.
        title: above the map.
        lowest: whether the lowest number is the best.
    """
    figure = Figure(figsize=(2.6 + 0.62 * values.shape[1], 1.3 + 0.36 * len(rows)), layout="constrained")
    axes = figure.subplots()
    image = _heat_map(axes, values, rows, _numbers(values.shape[1]), _scale(values, lowest))
    for y in range(len(rows)):
        offset = np.full_like(values, np.nan)
        offset[y] = values[y]
        _frame_best(axes, offset, lowest)
    axes.set_xlabel("layer", fontsize=8)
    axes.set_title(title, fontsize=9)
    figure.colorbar(image, label=what)
    return figure


def head_maps(values: Values, panels: Sequence[str], what: str, title: str, lowest: bool) -> Figure:
    """A panel for each setting: layers down, all heads together and each by itself across; the best cell is framed.

    Args:
        values: `[R, L, 1+H]`, NaN where there is none.
        panels: names of the R settings.
        what: the number's name, for the colour bar.
        title: above all.
        lowest: whether the lowest number is the best.
    """
    _, layers, columns = values.shape
    across = 2 if len(panels) > 1 else 1
    down = -(-len(panels) // across)
    size = (1.6 + across * (1.0 + 0.5 * columns), 0.9 + down * (0.8 + 0.32 * layers))
    figure = Figure(figsize=size, layout="constrained")
    grid = np.atleast_1d(figure.subplots(down, across)).ravel()
    for axes, name, panel in zip(grid, panels, values, strict=False):
        image = _heat_map(axes, panel, _numbers(layers), ["all", *_numbers(columns - 1)], _scale(values, lowest))
        _frame_best(axes, panel, lowest)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("head", fontsize=8)
        axes.set_ylabel("layer", fontsize=8)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(title, fontsize=9)
    figure.colorbar(image, ax=list(grid), label=what)
    return figure


def _numbers(count: int) -> list[str]:
    return [str(n) for n in range(1, count + 1)]


def _scale(values: Values, lowest: bool) -> _Scale:
    known = values[np.isfinite(values)]
    return _Scale(float(known.min()), float(known.max()), lowest) if len(known) else _Scale(0.0, 1.0, lowest)


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and PDF, the same bytes for the same figure; returns the two paths.

    Raises:
        OSError: a file cannot be written.
    """
    names = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "pdf")]
    figure.savefig(names[0], dpi=160, metadata={"Software": None})
    figure.savefig(names[1], metadata={"CreationDate": None})
    return names
