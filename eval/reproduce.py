"""The paper's table, what the rules choose, and statistical aligners beside it, from models, bitext and gold.

    .venv/bin/python eval/run.py reproduce --data DIR [--baseline-links DIR] [EXPERIMENT ...]

Experiments are in eval/experiments.toml. Each prints four tables and writes them, with heat maps, to eval/results/:
AER by layer (mean and sd over the models, which differ in their seed), layer and head by rules, scores and positions
paired, and systems; with several models a fifth, of systems over seeds. An experiment whose files are missing is named
and left out, unless it was asked for. Statistical aligners may take hours: their links can be kept, so that a command
that was stopped goes on with the next one, and one without these tools has their rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from align import Aligner, Alignment, Direction, two_way
from align.core.backend import Recorder
from align.core.symmetrize import SOFT
from align.core.types import THRESHOLD, Links, Position, Score, Settings
from align.evaluation.dialects import ALL_METHODS
from align.evaluation.metrics import SAMPLES, SEED, Counts, compare, count_all, estimate
from align.evaluation.sweep import POSITIONS, SCORES, Sweep, apply_rules, sweep
from align.evaluation.tables import Column, Rows, Value, interval, percent
from align.io.signature import signature
from align.view.sweep_tables import draw, rule_table
from eval.baselines import Baselines
from eval.common import (
    PERMUTATIONS,
    Text,
    chosen_cell,
    files_of,
    find_experiment,
    load_model,
    read_config,
    read_text,
    score_columns,
    score_row,
    swapped,
    write_table,
)

COMPARISONS: dict[str, tuple[tuple[Score, Position], tuple[Score, Position]]] = {
    "norm and weight, input": (("norm", "input"), ("weight", "input")),
    "norm and weight, output": (("norm", "output"), ("weight", "output")),
    "input and output, norm": (("norm", "input"), ("norm", "output")),
    "input and output, weight": (("weight", "input"), ("weight", "output")),
}


def layer_rows(sweeps: list[Sweep]) -> tuple[list[Column], Rows]:
    """Return the paper's table: AER by layer, all heads together, mean (sd) over models; their mean; the best layer."""
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
    """Return what every rule takes in each model."""
    tables = [rule_table(some) for some in sweeps]
    columns = [Column("model", "model"), *tables[0].columns]
    return columns, [{"model": n, **row} for n, table in enumerate(tables, 1) for row in table.rows]


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


SYMMETRIZED = ("grow-diag", "grow-diag-final-and")


class System(NamedTuple):
    """A system and its links' counts.

    Attributes:
        name: with the models' names and where attention was read.
        counts: against the gold `[N, 4]`.
        kind: the same for models that differ in their seed alone; nothing for a statistical aligner.
    """

    name: str
    counts: Counts
    kind: str = ""


@dataclass(frozen=True)
class Models:
    """A model and its reverse one, if it has any, by the experiment's names for them."""

    name: str
    forward: Aligner
    reverse_name: str | None
    reverse: Aligner | None

    def signature(self) -> list[str]:
        """Return the models' own names."""
        return [aligner.forward.recorder.name for aligner in (self.forward, self.reverse) if aligner]


def load_models(name: str, reverse_name: str | None, data: Path) -> Models:
    """Load a model, and its reverse one if there is any."""
    reverse = load_model(reverse_name, data) if reverse_name else None
    return Models(name, load_model(name, data), reverse_name, reverse)


def of_models(models: Sequence[Models], text: Text, sweeps: Sequence[Sweep]) -> Iterator[System]:
    """Yield the models at the cell that lexical consistency takes, one by one and, with reverse models, by two."""
    for some, found in zip(models, sweeps, strict=True):
        yield from at_best_cells(some.name, found)
        yield from one_way(some, text)
        if some.reverse:
            yield from two_ways(some, some.reverse, text)


def of_baselines(
    experiment: dict[str, Any], config: dict[str, Any], baselines: Baselines, text: Text, recorder: Recorder
) -> tuple[list[System], list[str]]:
    """Statistical aligners on words and, where the experiment says so, on a model's pieces; and which tools they are.

    One that is neither installed nor has its links kept is named on stderr.
    """
    found: list[System] = []
    tools: list[str] = []
    for tool, trained in product(experiment["baselines"], experiment["train"]):
        for cut in (None, recorder.encode) if trained in experiment.get("pieces", ()) else (None,):
            name = f"{tool} ({trained} text{', pieces' if cut else ''})"
            try:
                described, links = baselines.align(tool, config["train"][trained], text, cut)
            except ModuleNotFoundError as error:
                print(f"without {name}: {error}", file=sys.stderr)
                continue
            tools.append(described)
            found += (System(f"{name}: {way}", count_all(some, text.gold)) for way, some in symmetrized(links).items())
    return found, list(dict.fromkeys(tools))


def symmetrized(links: Sequence[tuple[Links, Links]]) -> dict[str, list[Links]]:
    """Each direction, and what heuristics make of both."""
    directions = {"forward": [forward for forward, _ in links], "reverse": [reverse for _, reverse in links]}
    return directions | {
        method: [ALL_METHODS[method](forward, reverse) for forward, reverse in links]
        for method in ("intersection", *SYMMETRIZED)
    }


def counted(alignments: Iterable[Alignment], text: Text) -> Counts:
    """Return counts of alignments against the gold `[N, 4]`."""
    return count_all([alignment.links for alignment in alignments], text.gold)


def at_best_cells(model: str, sweep: Sweep) -> Iterator[System]:
    """Every score and position at the cell that lexical consistency takes."""
    assert sweep.counts is not None
    for choice in apply_rules(sweep):
        if choice.rule == "lexical consistency, heads":
            s, p = SCORES.index(choice.score), POSITIONS.index(choice.position)
            setting = f"{choice.score}, {choice.position}"
            counts = sweep.counts[:, s, p, choice.cell]
            yield System(f"{model}: {setting}, {sweep.cells[choice.cell]}", counts, f"one model: {setting}")


def one_way(models: Models, text: Text) -> Iterator[System]:
    """One direction with a threshold, with both positions, and with both of these, which is the default."""
    for settings in (Settings(position="input"), Settings(threshold=None), Settings()):
        aligner = Aligner(Direction(models.forward.forward.recorder, settings))
        threshold = "" if settings.threshold is None else f", threshold {settings.threshold:g}"
        setting = f"norm, {settings.position}{threshold}"
        yield System(f"{models.name}: {setting}", counted(aligner(text.pairs), text), f"one model: {setting}")


def two_ways(models: Models, reverse_model: Aligner, text: Text) -> Iterator[System]:
    """Yield the reverse model's links and both directions symmetrised, by either score, each at its chosen cell."""
    best = [Settings(score, "input", threshold=None) for score in SCORES]
    for settings, method in [
        *product(best, ("reverse", *SYMMETRIZED, SOFT)),
        *product([Settings()], (*SYMMETRIZED, SOFT)),
    ]:
        forward, reverse = (
            Aligner(Direction(some.forward.recorder, settings)) for some in (models.forward, reverse_model)
        )
        counts = counted(two_way(forward, reverse, method)(text.pairs), text)
        setting = f"{settings.score}, {settings.position}"
        if method == "reverse":
            cell = chosen_cell(reverse, swapped(text.pairs))
            yield System(f"{models.reverse_name} (reverse): {setting}, {cell}", counts, f"reverse model: {setting}")
        else:
            above = "" if method == SOFT or settings.threshold is None else f" of links above {settings.threshold:g}"
            way = f"{setting}, {method}{above}"
            yield System(f"{models.name} and {models.reverse_name}: {way}", counts, f"two models: {way}")


def system_rows(found: Sequence[System], default: str, text: Text) -> tuple[list[Column], Rows]:
    """Error rates of every system, each tested against the default."""
    base = next(counts for system, counts, _ in found if system == default)
    rows = []
    for system, counts, _ in found:
        row: dict[str, Value] = {"system": f"{system} (default)" if system == default else system}
        rows.append(row | score_row(counts, text, None if system == default else base))
    return [Column("system", "system"), *score_columns(text)], rows


def seed_rows(found: Sequence[System]) -> tuple[list[Column], Rows]:
    """Error rates of models that differ in their seed: mean and standard deviation, and one by one in their order."""
    rates: dict[str, list[float]] = {}
    for _, counts, kind in found:
        if kind:
            rates.setdefault(kind, []).append(percent(estimate(counts, samples=0).value) or 0.0)
    columns = [Column("system", "system"), Column("mean", "mean AER", 1), Column("sd", "sd", 1), Column("each", "each")]
    return columns, [
        {"system": kind, "mean": mean(some), "sd": stdev(some), "each": " ".join(f"{x:.1f}" for x in some)}
        for kind, some in rates.items()
    ]


def run(
    data: Path, config: Path, experiments: list[str], baseline_links: Path | None, format: str, output: Path
) -> None:
    """Run the experiments that were asked for, or all whose files are there.

    Raises:
        ArgumentError: there is no such experiment.
        ValueError: one that was asked for lacks a file.
    """
    settings = read_config(config)
    for name in experiments:
        find_experiment(settings, name)
    for name in experiments or settings["experiment"]:
        missing = [path for path in files_of(settings, find_experiment(settings, name), data) if not path.exists()]
        if missing:
            more = f" and {len(missing) - 1} more" if missing[1:] else ""
            message = f"{name}: missing {missing[0]}{more}; scripts/get_data says where data comes from"
            if experiments:
                raise ValueError(message)
            print(message, file=sys.stderr)
            continue
        reproduce(name, settings, Baselines(data, baseline_links), format, output)


def reproduce(name: str, config: dict[str, Any], baselines: Baselines, format: str, output: Path) -> None:
    """One experiment: its tables printed and written, its heat maps drawn."""
    experiment, data = find_experiment(config, name), baselines.data
    text = read_text(config, experiment["gold"], data)
    models, sweeps = [], []
    reverse_models = experiment.get("reverse_models") or [None] * len(experiment["models"])
    for names in zip(experiment["models"], reverse_models, strict=True):
        models.append(load_models(*names, data))
        sweeps.append(sweep(models[-1].forward, text.pairs, text.gold, models[-1].reverse))
    statistical, tools = of_baselines(experiment, config, baselines, text, models[0].forward.forward.recorder)
    counted = [*of_models(models, text, sweeps), *statistical]
    last = f"norm, both, {SOFT if experiment.get('reverse_models') else f'threshold {THRESHOLD:g}'}"
    default = next(system.name for system in counted if last in system.name)
    tables = {
        "layers": layer_rows(sweeps),
        "rules": rule_rows(sweeps),
        "comparisons": comparison_rows(sweeps),
        "systems": system_rows(counted, default, text),
        **({"seeds": seed_rows(counted)} if len(models) > 1 else {}),
    }
    used = [part for some in models for part in some.signature()]
    parts: dict[str, str | int | list[str] | None] = {
        "name": name,
        "gold": "+".join(text.names),
        "model": used,
        "tool": tools,
        "pieces": used[0] if tools and experiment.get("pieces") else None,
        "trained": "train+test" if tools else None,
        "ci": f"percentile-{SAMPLES}",
        "test": f"permutation-{PERMUTATIONS}",
        "seed": SEED,
    }
    sign = signature(parts, "reproduce")
    for table, (columns, rows) in tables.items():
        print(f"\n{name}, {table}\n")
        write_table(columns, rows, sign, output / f"{name}.{table}.tsv", format)
    mean = np.mean([100 * found.rates() for found in sweeps], axis=0)
    forward = [some.forward.forward.recorder.name for some in models]
    draw(mean, "AER", sweeps[0].cells[-1].layer, output / name, forward, len(text.pairs))
