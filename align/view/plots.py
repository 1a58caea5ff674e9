"""Draw the paper's heat maps: error rate by layer and score, and by layer and head (matplotlib)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from align.io.process import another_folder

with another_folder():  # matplotlib reads a matplotlibrc there first of all, and before 3.10.9 one could run code
    import matplotlib.style
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

Values = NDArray[np.float64]

STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "figure.titlesize": 8,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
}
"""One font size, and fonts that publishers accept: TrueType (Type 42), not Type 3."""

in_style = matplotlib.style.context(["default", STYLE])
"""Decorator of drawing functions: the user's own matplotlibrc has no effect."""

DPI = 200


def _ink(colour: Sequence[float]) -> str:
    """Return black or white, whichever has more contrast to a colour (by WCAG's relative luminance)."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "white" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "black"


def _heat_map(
    axes: Any, values: Values, rows: Sequence[str], columns: Sequence[str], ends: tuple[float, float], lowest: bool
) -> Any:
    """Draw one map with numbers in its cells; dark is good, and a cell without a value stays white."""
    image = axes.imshow(values, cmap="Blues_r" if lowest else "Blues", vmin=ends[0], vmax=ends[1], aspect="auto")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    for (y, x), value in np.ndenumerate(values):
        text = "n/a" if np.isnan(value) else f"{value:.1f}" if ends[1] > 10 else f"{value:.2f}"
        ink = "black" if np.isnan(value) else _ink(image.to_rgba(value))
        axes.text(x, y, text, ha="center", va="center", color=ink)
    return image


def _frame_best(axes: Any, values: Values, lowest: bool, first: int = 0) -> None:
    """Frame the best cell of the rows of a map that begin with its row `first`."""
    if np.isfinite(values).any():
        best = np.nanargmin(values) if lowest else np.nanargmax(values)
        y, x = np.unravel_index(best, values.shape)
        corner = (x - 0.47, first + y - 0.47)
        axes.add_patch(Rectangle(corner, 0.94, 0.94, fill=False, edgecolor="darkorange", linewidth=2))


def _label(name: str, lowest: bool) -> str:
    return f"{name}, {'lower' if lowest else 'higher'} is better"


def _numbers(count: int) -> list[str]:
    return [str(n) for n in range(1, count + 1)]


def _ends(values: Values) -> tuple[float, float]:
    """Return both ends of the colour scale."""
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


@in_style
def layer_map(values: Values, rows: Sequence[str], what: str, title: str, lowest: bool) -> Figure:
    """Draw R settings, named `rows`, by L layers, all heads together; the best layer of each is framed.

    `values` are `[R, L]`, NaN for undefined, `what` their name; `lowest` tells whether the lowest is the
    best.
    """
    figure = Figure(figsize=(2.6 + 0.62 * values.shape[1], 1.3 + 0.36 * len(rows)), layout="constrained")
    axes = figure.subplots()
    image = _heat_map(axes, values, rows, _numbers(values.shape[1]), _ends(values), lowest)
    for y in range(len(rows)):
        _frame_best(axes, values[y : y + 1], lowest, y)
    axes.set_xlabel("layer")
    axes.set_title(title)
    figure.colorbar(image, label=_label(what, lowest))
    return figure


@in_style
def head_maps(values: Values, panels: Sequence[str], what: str, title: str, lowest: bool) -> Figure:
    """Draw a panel for each setting: layers down, all heads together and each head across; the best cell is framed.

    `values` are `[R, L, 1+H]`; for the rest see `layer_map`.
    """
    _, layers, columns = values.shape
    across = 2 if len(panels) > 1 else 1
    down = -(-len(panels) // across)
    size = (1.6 + across * (1.0 + 0.5 * columns), 0.9 + down * (0.8 + 0.32 * layers))
    figure = Figure(figsize=size, layout="constrained")
    grid = np.atleast_1d(figure.subplots(down, across)).ravel()
    for axes, name, panel in zip(grid, panels, values, strict=False):
        image = _heat_map(axes, panel, _numbers(layers), ["all", *_numbers(columns - 1)], _ends(values), lowest)
        _frame_best(axes, panel, lowest)
        axes.set_title(name)
        axes.set_xlabel("head")
        axes.set_ylabel("layer")
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(title)
    figure.colorbar(image, ax=list(grid), label=_label(what, lowest))
    return figure


@in_style
def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG (`DPI` dots per inch) and PDF, reproducible byte by byte; return the two paths."""
    names = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "pdf")]
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    with Image.open(drawn) as image:  # a palette makes the file a third as large
        flat = image.convert("RGB").quantize(256, kmeans=1, dither=Image.Dither.NONE)
    flat.save(names[0], optimize=True, dpi=(DPI, DPI))
    figure.savefig(names[1], metadata={"CreationDate": None})
    return names
