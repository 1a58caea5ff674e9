"""Compare distilled models with their teachers: error rates, and time from words to links.

One model and two, with all defaults, of either kind; see `eval/run.py distil`. Times are medians over rounds in which
the same pairs of the training text pass through all systems in turn, in units of two teachers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from common import (
    chosen,
    find_experiment,
    load_directions,
    read_config,
    read_text,
    read_train,
    score_columns,
    score_row,
    swapped,
    write_table,
)
from programs import machine
from timing import in_turn, ratio

from align import Aligner, Pair, Settings, load, two_way
from align.core.stream import chunks
from align.evaluation.metrics import Counts, count_all
from align.evaluation.tables import Column, Value
from align.io.signature import signature

CHUNK = 1000
"""Pairs that pass through all systems in turn."""


def systems_of(teachers: tuple[Aligner, Aligner], students: tuple[Aligner, Aligner]) -> dict[str, Aligner]:
    """Return what is compared, by name."""
    defaults = [replace(model, forward=replace(model.forward, settings=Settings())) for model in teachers]
    return {
        "one model": defaults[0],
        "two models": two_way(defaults[0], defaults[1]),
        "one distilled model": students[0],
        "two distilled models": two_way(*students),
    }


def times_of(systems: dict[str, Aligner], pairs: list[Pair], rounds: int) -> dict[str, float]:
    """Return the time of each system in units of two models', where layers and heads are chosen already."""
    fixed = {}
    for name, aligner in systems.items():
        sides = (pairs, swapped(pairs))[: len(aligner.directions)]
        choices = [chosen(Aligner(direction), side) for direction, side in zip(aligner.directions, sides, strict=True)]
        fixed[name] = aligner.reading_at(choices)
    ways: dict[str, Callable[[list[Pair]], object]] = {
        name: partial(lambda aligner, part: list(aligner(part)), aligner) for name, aligner in fixed.items()
    }
    data = list(chunks(pairs, CHUNK))
    in_turn(ways, data[:1], 1)  # warm up
    seconds = in_turn(ways, data, rounds)
    return {name: ratio(seconds, name, "two models") for name in ways}


def run(
    data: Path, config: Path, experiment: str, students: list[str], lines: int, rounds: int, threads: int, output: Path
) -> None:
    """Measure, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    torch.set_num_threads(threads)
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    forward, reverse = (load(name, device="cpu", too_long="blank", reader=None) for name in students)
    systems = systems_of(load_directions(about, data, too_long="blank"), (forward, reverse))
    train = read_train(settings["train"][about["train"][0]], data)
    times = times_of(systems, list(islice((pair for pair in train if not pair.blank), lines)), rounds)
    counts: dict[str, Counts] = {}
    rows: list[dict[str, Value]] = []
    for name, aligner in systems.items():
        counts[name] = count_all([frozenset(alignment.scores) for alignment in aligner(text.pairs)], text.gold)
        teacher = counts.get(name.replace("distilled ", "")) if "distilled" in name else None
        rows.append({"system": name, "time": f"{times[name]:.2f}", **score_row(counts[name], text, teacher)})
    columns = [Column("system", "system"), Column("time", "time"), *score_columns(text)]
    pairs_of_models = (systems["two models"], systems["two distilled models"])
    names = [direction.recorder.name for aligner in pairs_of_models for direction in aligner.directions]
    measured = f"lines:{lines}|rounds:{rounds}|machine:{machine(threads)}"
    sign = f"{signature({'model': names}, 'distilled')}|{measured}"
    write_table(columns, rows, sign, output / f"{experiment}.distilled.tsv")
