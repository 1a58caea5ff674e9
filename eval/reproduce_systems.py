"""The systems that `reproduce` compares: models at a place chosen without gold, and statistical aligners."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from baselines import Baselines
from common import Text, chosen_cell, load_model, score_columns, score_row, swapped

from align import Aligner, Alignment, Direction, two_way
from align.core.backend import Recorder
from align.core.settings import Settings
from align.core.symmetrize import SOFT
from align.core.types import Links
from align.evaluation.dialects import ALL_METHODS
from align.evaluation.metrics import Counts, count_all, estimate
from align.evaluation.rules import apply_rules
from align.evaluation.swept import POSITIONS, SCORES, Sweep
from align.evaluation.tables import Column, Rows, Value, percent

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
        """The models' own names."""
        return [aligner.forward.recorder.name for aligner in (self.forward, self.reverse) if aligner]


def load_models(name: str, reverse_name: str | None, data: Path) -> Models:
    """A model, and its reverse one if there is any."""
    reverse = load_model(reverse_name, data) if reverse_name else None
    return Models(name, load_model(name, data), reverse_name, reverse)


def of_models(models: Sequence[Models], text: Text, sweeps: Sequence[Sweep]) -> Iterator[System]:
    """The models at the cell that lexical consistency takes, one by one and, with reverse models, by two."""
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
        for cut in (None, recorder) if trained in experiment.get("pieces", ()) else (None,):
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
    """Counts of alignments against the gold `[N, 4]`."""
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
    """The reverse model's links, and both directions symmetrised, by either score, each model where it chooses to."""
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
