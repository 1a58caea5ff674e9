"""Compare models, distilled models, and all of these with link scorers: error rates, and time from words to links.

One model and two, with all defaults; `recipes/distil.py` makes distilled models, `recipes/labels.py` what scorers learn
from. p is that of a paired test: of distilled models against as many others, of scorers against the same models without
one. Times are medians over rounds in which the same pairs of the training text pass through all systems in turn, in
units of two models.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import torch

from align import Aligner, Pair, Settings, load, two_way
from align.core.stream import chunks
from align.evaluation.metrics import Counts, count_all
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.models.folder import GENERAL_SCORER
from align.models.link_scorer import read_scorer
from eval.common import (
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
from eval.programs import machine

CHUNK = 1000
"""Pairs that pass through all systems in turn."""

T = TypeVar("T")


def in_turn(ways: dict[str, Callable[[T], object]], data: list[T], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each way for all parts of the data in each round; each part goes through all in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for round_number in range(rounds):
        spent = dict.fromkeys(names, 0.0)
        for number, part in enumerate(data):
            turn = (number + round_number) % len(names)
            for name in names[turn:] + names[:turn]:
                start = time.perf_counter()
                ways[name](part)
                spent[name] += time.perf_counter() - start
        for name in names:
            seconds[name].append(spent[name])
    return seconds


def times_of(systems: dict[str, Aligner], pairs: list[Pair], rounds: int) -> dict[str, float]:
    """Return the time of each system in units of two models', where layers and heads are chosen already."""
    ways: dict[str, Callable[[list[Pair]], object]] = {}
    for name, aligner in systems.items():
        sides = (pairs, swapped(pairs))[: len(aligner.directions)]
        choices = [chosen(Aligner(direction), side) for direction, side in zip(aligner.directions, sides, strict=True)]
        ways[name] = partial(lambda fixed, part: list(fixed(part)), aligner.reading_at(choices))
    data = list(chunks(pairs, CHUNK))
    in_turn(ways, data[:1], 1)  # warm up
    seconds = in_turn(ways, data, rounds)
    ratios = {name: zip(seconds[name], seconds["two models"], strict=True) for name in ways}
    return {name: statistics.median(one / two for one, two in of_rounds) for name, of_rounds in ratios.items()}


def with_scorers(systems: dict[str, Aligner], scorers: dict[str, Path]) -> dict[str, Aligner]:
    """Return systems by name, each followed by itself with each scorer."""
    found = {}
    for name, aligner in systems.items():
        found[name] = aligner
        settings = replace(aligner.forward.settings, threshold=aligner.threshold)
        for scorer, path in scorers.items():
            direction = replace(aligner.forward, scorer=read_scorer(path), settings=settings)
            found[f"{name}, {scorer}"] = replace(aligner, forward=direction)
    return found


def run(
    data: Path,
    config: Path,
    experiment: str,
    students: Sequence[str],
    scorers: Sequence[Path],
    lines: int,
    rounds: int,
    threads: int,
    output: Path,
) -> None:
    """Measure, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    torch.set_num_threads(threads)
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    teachers = [
        replace(model, forward=replace(model.forward, settings=Settings()))
        for model in load_directions(about, data, too_long="blank")
    ]
    models = {"one model": teachers[0], "two models": two_way(teachers[0], teachers[1])}
    named = {f"scorer {number}": path for number, path in enumerate(scorers, 1)} or {"scorer": GENERAL_SCORER}
    systems = with_scorers(models, named)
    if students:
        forward, reverse = (load(name, device="cpu", too_long="blank", scorer=None) for name in students)
        distilled = {"one distilled model": forward, "two distilled models": two_way(forward, reverse)}
        systems |= with_scorers(distilled, named)
    train = read_train(settings["train"][about["train"][0]], data)
    times = times_of(systems, list(islice((pair for pair in train if not pair.blank), lines)), rounds)
    counts: dict[str, Counts] = {}
    rows: list[dict[str, Value]] = []
    for name, aligner in systems.items():
        counts[name] = count_all([alignment.links for alignment in aligner(text.pairs)], text.gold)
        base = name.partition(",")[0] if "," in name else name.replace("distilled ", "")
        row = score_row(counts[name], text, None if base == name else counts[base])
        rows.append({"system": name, "time": f"{times[name]:.2f}", **row})
    columns = [Column("system", "system"), Column("time", "time"), *score_columns(text)]
    pairs_of_models = [systems[name] for name in ("two models", "two distilled models") if name in systems]
    names = [direction.recorder.name for aligner in pairs_of_models for direction in aligner.directions]
    measured = f"lines:{lines}|rounds:{rounds}|machine:{machine(threads)}"
    sign = f"{signature({'model': names}, 'distilled')}|{measured}"
    write_table(columns, rows, sign, output / f"{experiment}.distilled.tsv")
