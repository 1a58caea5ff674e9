"""Those tables of `reproduce` that only need sweeps: by layer, by rules, and scores and positions paired."""

from __future__ import annotations

from itertools import product

import numpy as np
from common import PERMUTATIONS, rules_of
from numpy.typing import NDArray

from align.core.types import Position, Score
from align.evaluation.metrics import compare, estimate
from align.evaluation.rules import apply_rules
from align.evaluation.swept import POSITIONS, SCORES, Sweep
from align.evaluation.tables import Column, Rows, Value, interval, percent

COMPARISONS: dict[str, tuple[tuple[Score, Position], tuple[Score, Position]]] = {
    "norm and weight, input": (("norm", "input"), ("weight", "input")),
    "norm and weight, output": (("norm", "output"), ("weight", "output")),
    "input and output, norm": (("norm", "input"), ("norm", "output")),
    "input and output, weight": (("weight", "input"), ("weight", "output")),
}


def layer_rows(sweeps: list[Sweep]) -> tuple[list[Column], Rows]:
    """The paper's table: AER by layer, all heads together, mean (sd) over models; the layers' mean; the best layer."""
    layers = [c for c, cell in enumerate(sweeps[0].cells) if cell.head == "all"]
    columns = [Column("position", "position"), Column("score", "score")]
    columns += [Column(f"layer_{n}", f"L{n}") for n in range(1, len(layers) + 1)]
    columns += [Column("mean", "mean"), Column("best", "best, with gold")]
    rows = []
    for (p, position), (s, score) in product(enumerate(POSITIONS), enumerate(SCORES)):
        rates = np.array([100 * found.rates()[s, p, layers] for found in sweeps])  # [models, L]
        row: dict[str, Value] = {"position": position, "score": score}
        row |= {f"layer_{n}": _mean_sd(rates[:, n - 1]) for n in range(1, len(layers) + 1)}
        rows.append(row | {"mean": _mean_sd(rates.mean(1)), "best": _mean_sd(rates.min(1))})
    return columns, rows


def _mean_sd(values: NDArray[np.float64]) -> str:
    return f"{values.mean():.1f}" + (f" ({values.std(ddof=1):.1f})" if len(values) > 1 else "")


def rule_rows(sweeps: list[Sweep]) -> tuple[list[Column], Rows]:
    """What every rule takes in each model."""
    found = [(n, rules_of(some)) for n, some in enumerate(sweeps, 1)]
    columns = [Column("model", "model"), *found[0][1][0]]
    return columns, [{"model": n, **row} for n, (_, rows) in found for row in rows]


def comparison_rows(sweeps: list[Sweep]) -> tuple[list[Column], Rows]:
    """Norm against weight and input against output, paired, each at its best layer and at the cell without gold."""
    columns = [Column("model", "model"), Column("at", "read at"), Column("what", "first and second")]
    for name in ("first", "second"):
        columns += [Column(f"{name}_aer", "AER", 1), Column(f"{name}_interval", "95 % CI", 1, wide=True)]
    columns += [Column("difference", "dAER", 1), Column("p", "p", 4)]
    rows = []
    for n, found in enumerate(sweeps, 1):
        for at in ("lowest AER, layers", "lexical consistency, heads"):
            cells = {(c.score, c.position): c.cell for c in apply_rules(found) if c.rule == at}
            for what, pair in COMPARISONS.items():
                assert found.counts is not None
                counts = [
                    found.counts[:, SCORES.index(score), POSITIONS.index(position), cells[score, position]]
                    for score, position in pair
                ]
                row: dict[str, Value] = {"model": n, "at": at, "what": what}
                values = []
                for name, some in zip(("first", "second"), counts, strict=True):
                    value, low, high = map(percent, estimate(some))
                    values.append(value or 0.0)
                    row |= {f"{name}_aer": value, f"{name}_interval": interval(low, high)}
                row["difference"] = values[0] - values[1]
                row["p"] = compare(counts[0], counts[1], "permutation", samples=PERMUTATIONS)[1]
                rows.append(row)
    return columns, rows
