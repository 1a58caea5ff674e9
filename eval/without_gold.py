"""How well a statistical aligner's links rank systems in place of gold: `extract-align eval --without-gold`.

Systems are all layers and heads of both models, by each score and position. Their true AER is on the gold; the other
one is against fast_align's links of part of the training text, which it was trained on. Spearman's correlation of both
is for all systems, and for the better ones, whose AER is below 50: only these compete.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from align import Aligner, Gold, Pair
from align.baselines.tools import REFERENCE, describe_tool, reference_links
from align.evaluation.sweep import sweep
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from eval.common import Text, find_experiment, load_directions, read_config, read_text, read_train, swapped, write_table

COMPETING = 50.0
"""Percent of AER below which systems compete."""


def rates_of(directions: Sequence[Aligner], pairs: Sequence[Pair], gold: Sequence[Gold]) -> NDArray[np.float64]:
    """Return the AER of every score, position, layer and head of both models, in percent."""
    forward, reverse = directions
    turned = [Gold(*(frozenset((j, i) for i, j in links) for links in (of.sure, of.possible))) for of in gold]
    swept = sweep(forward, pairs, gold), sweep(reverse, swapped(pairs), turned)
    return np.concatenate([100 * found.rates().ravel() for found in swept])


def row_of(lines: int, true: NDArray[np.float64], estimated: NDArray[np.float64]) -> dict[str, Value]:
    """Return how well estimated error rates follow the true ones, for all systems and for those that compete."""
    row: dict[str, Value] = {"lines": lines}
    for name, some in (("all", np.ones(len(true), dtype=bool)), ("competing", true < COMPETING)):
        difference = estimated[some] - true[some]
        row |= {
            f"systems_{name}": int(some.sum()),
            f"rho_{name}": float(spearmanr(true[some], estimated[some])[0]),
            f"bias_{name}": float(difference.mean()),
            f"sd_{name}": float(difference.std(ddof=1)),
        }
    return row


def estimates(text: Sequence[Pair], directions: Sequence[Aligner], lines: int, swept: int) -> NDArray[np.float64]:
    """Return the rates against links of the first lines of a text, over the first of these."""
    return rates_of(directions, text[:swept], reference_links(text[:lines])[:swept])


def run(data: Path, config: Path, experiment: str, lines: list[int], swept: int, seed: int, output: Path) -> None:
    """Measure, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    gold: Text = read_text(settings, about["gold"], data)
    directions = load_directions(about, data, "blank")
    text = list(read_train(settings["train"][about["train"][0]], data))
    random.Random(seed).shuffle(text)
    text = [Pair(pair.source, pair.target, number) for number, pair in enumerate(text[: max(lines)], 1)]
    true = rates_of(directions, gold.pairs, gold.gold)
    rows = [row_of(count, true, estimates(text, directions, count, min(count, swept))) for count in lines]
    columns = [Column("lines", "lines")]
    for name in ("all", "competing"):
        columns += [
            Column(f"systems_{name}", name),
            Column(f"rho_{name}", "rho", 3),
            Column(f"bias_{name}", "bias", 1),
            Column(f"sd_{name}", "sd", 1),
        ]
    names = [aligner.forward.recorder.name for aligner in directions]
    parts: dict[str, str | int | Sequence[str] | None] = {
        "model": names,
        "tool": describe_tool(REFERENCE),
        "swept": swept,
        "seed": seed,
    }
    write_table(columns, rows, signature(parts, "without_gold"), output / f"{experiment}.without_gold.tsv")
