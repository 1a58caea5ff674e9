"""Heat maps: what stands in their cells, which cells are framed, how dark they are, and their files."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.patches import Rectangle

from align.analysis.plots import scatter
from align.view.plots import layer_map

AERS = np.array([[30.0, 25.04, 40.0], [nan, 60.0, 20.0]])


def cells(axes: Any, columns: int) -> list[list[str]]:
    """The numbers that are written into a map, row by row."""
    texts = [text.get_text() for text in axes.texts]
    return [texts[n : n + columns] for n in range(0, len(texts), columns)]


def framed(axes: Any) -> list[tuple[int, int]]:
    """Row and column of each framed cell."""
    boxes = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return [(round(box.get_y() + 0.47), round(box.get_x() + 0.47)) for box in boxes]


def labels(ticks: Any) -> list[str]:
    return [tick.get_text() for tick in ticks]


def test_a_map_of_layers_frames_the_best_of_each_row() -> None:
    figure = layer_map(AERS, ["norm", "weight"], "AER", "de-en", lowest=True)
    axes, bar = figure.axes
    assert cells(axes, 3) == [["30.0", "25.0", "40.0"], ["n/a", "60.0", "20.0"]]
    assert framed(axes) == [(0, 1), (1, 2)]
    assert labels(axes.get_xticklabels()) == ["1", "2", "3"]
    assert labels(axes.get_yticklabels()) == ["norm", "weight"]
    assert (axes.get_xlabel(), axes.get_title(), bar.get_ylabel()) == ("layer", "de-en", "AER, lower is better")
    assert axes.images[0].get_clim() == (20, 60)
    assert [text.get_color() for text in axes.texts][3:] == ["black", "black", "white"]  # dark is good


def test_a_legend_has_names_that_matplotlib_reads_in_another_way() -> None:
    axes = scatter({"__de__": np.ones((2, 2)), "$$": np.zeros((2, 2))}, "x", "y", "").axes[0]
    legend = axes.get_legend()
    assert legend
    assert labels(legend.get_texts()) == ["__de__", r"\$\$"]
