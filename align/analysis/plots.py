"""Figures of attention inside a model (matplotlib): points, curves, and maps of attention.

matplotlib is imported when a figure is drawn: what an analysis returns are calls of these functions, as `partial`s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Values = NDArray[Any]


def _figure(width: float, height: float, down: int = 1, across: int = 1) -> tuple[Figure, Any]:
    """Return a figure of a size in inches, and its panels `[down, across]`, or the only one."""
    from align.view.plots import Figure  # type: ignore[attr-defined]  # imported in another folder

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(down, across)


def scatter(points: Mapping[str, Values], x: str, y: str, title: str) -> Figure:
    """Draw points `[N, 2]` of several kinds in one panel."""
    figure, axes = _figure(3.6, 2.8)
    for values in points.values():
        axes.scatter(values[:, 0], values[:, 1], s=3, alpha=0.4, linewidths=0, rasterized=True)
    axes.set(xlabel=x, ylabel=y, title=title)
    # given one by one, names such as __de__ are shown, too
    axes.legend(axes.collections, [*map(_plain, points)], markerscale=3, frameon=False)
    return figure


def curves(lines: Mapping[str, Values], x: str, y: str, title: str) -> Figure:
    """Draw lines `[N, 2]` in one panel, with a mark at each point."""
    figure, axes = _figure(3.6, 2.8)
    from matplotlib.ticker import MaxNLocator

    for (name, values), mark in zip(lines.items(), "osD^v<>pXh*" * (1 + len(lines) // 11), strict=False):
        axes.plot(values[:, 0], values[:, 1], marker=mark, markersize=3, linewidth=1, label=name)
    if all(np.all(values[:, 0] % 1 == 0) for values in lines.values()):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))  # layers and heads are whole numbers
    axes.set(xlabel=x, ylabel=y, title=title)
    if len(lines) > 1:
        axes.legend(frameon=False)
    return figure


def attention_maps(panels: Mapping[str, tuple[Values, Sequence[str], Sequence[str]]], title: str) -> Figure:
    """Draw maps of attention `[T, S]`, with the pieces of rows and columns, a panel for each; darker means more."""
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    figure, grid = _figure(0.5 + 2.6 * across, 0.4 + 2.6 * down, down, across)
    for axes, name, (values, rows, columns) in _fill(grid, panels):
        axes.imshow(values, cmap="Blues", vmin=0, aspect="auto")
        axes.set_xticks(range(len(columns)), [*map(_plain, columns)], rotation=90, fontsize=5)
        axes.set_yticks(range(len(rows)), [*map(_plain, rows)], fontsize=5)
        axes.set_title(name)
    figure.suptitle(title)
    return figure


def head_maps(panels: Mapping[str, Values], rows: Sequence[str]) -> Figure:
    """Draw one number per head, with a panel for each kind `[layers, H]`, NaN where a layer lacks that head.

    Cells are blue below 0 and red above.
    """
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    heads = max(values.shape[1] for values in panels.values())
    width, height = 0.4 + across * (0.8 + 0.5 * heads), down * (0.6 + 0.24 * len(rows))
    figure, grid = _figure(width, height, down, across)
    for axes, name, values in _fill(grid, panels):
        largest = float(np.nanmax(np.abs(values))) or 1.0
        # the limits keep all cells light enough for black text
        axes.imshow(values, cmap="RdBu_r", vmin=-1.6 * largest, vmax=1.6 * largest, aspect="auto")
        digits = 1 if largest >= 1 else 3
        for (y, x), value in np.ndenumerate(values):
            if np.isfinite(value):
                rounded = round(value, digits) + 0.0  # no minus before 0
                axes.text(x, y, f"{rounded:.{digits}f}", ha="center", va="center", fontsize=6)
        axes.set_xticks(range(heads), [str(n + 1) for n in range(heads)])
        axes.set_yticks(range(len(rows)), rows)
        axes.set(xlabel="head", title=name)
    return figure


def bars(
    names: Sequence[str], series: Mapping[str, Sequence[float]], ends: Mapping[str, Sequence[Any]], y: str, title: str
) -> Figure:
    """Draw groups of bars, one bar of each series in a group, with the ends of their intervals where there are any."""
    figure, axes = _figure(max(3.6, 0.8 + 0.08 * len(names) * (1 + len(series))), 3.2)
    width = 0.8 / len(series)
    for n, (name, heights) in enumerate(series.items()):
        places = [group + (n - (len(series) - 1) / 2) * width for group in range(len(names))]
        axes.bar(places, heights, width, label=name)
        for place, both in zip(places, ends.get(name, ()), strict=False):
            if both is not None:
                axes.plot([place, place], list(both), color="black", linewidth=0.6)
    axes.set_xticks(range(len(names)), [*map(_plain, names)], rotation=90 if len(names) > 6 else 0)
    axes.set(ylabel=y, title=title)
    if len(series) > 1:
        figure.legend(loc="outside lower center", ncols=2 if len(names) < 12 else 4, frameon=False)
    return figure


def named_points(points: Mapping[str, Values], names: Mapping[str, Sequence[str]], title: str) -> Figure:
    """Draw points `[N, 2]` with their names, in colours that run from the first kind to the last."""
    figure, axes = _figure(3.6, 3.2)
    import matplotlib

    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(points)))
    for (kind, values), colour in zip(points.items(), colours, strict=True):
        axes.scatter(values[:, 0], values[:, 1], s=16, color=colour, label=kind)
        for name, place in zip(names[kind], values, strict=True):
            axes.annotate(_plain(name), place, xytext=(3, 3), textcoords="offset points", fontsize=5)
    axes.set_aspect("equal", "datalim")
    axes.set(xticks=[], yticks=[], title=title)
    axes.legend(frameon=False, fontsize=6)
    return figure


def _fill(grid: Any, panels: Mapping[str, Any]) -> Iterator[tuple[Any, str, Any]]:
    """Yield the axes, name and content of each panel; axes that are left over become invisible."""
    free = list(np.atleast_1d(grid).ravel())
    for name, content in panels.items():
        axes = free.pop(0)
        axes.tick_params(length=0)
        yield axes, name, content
    for axes in free:
        axes.set_axis_off()


def _plain(text: str) -> str:
    """Escape text so that matplotlib does not parse it as a formula."""
    return text.replace("$", r"\$")
