"""How fast is extraction? Ratios of times, and shares of the whole: eval/results/benchmark.tsv.

    .venv/bin/python eval/run.py benchmark -s SOURCE -t TARGET [--lines 20000] [--against REV]

Times are ratios of things done in turn on the same batches in one process, medians over rounds, so that a machine that
is busy now and then does not decide. With --against, whole programs of this tree and of another commit, in turn:
eval/results/benchmark_against.tsv.
"""

from __future__ import annotations

import io
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import benchmark_against
import torch
from common import chosen, swapped
from timing import Row, batches, full_forward, in_turn, naive_word_scores, ratio, read, word_scores, write_rows

from align import Aligner, Direction, Pair, Settings, load, two_way
from align.core.backend import Recorder
from align.core.formats import FORMATS
from align.core.stream import chunks
from align.core.types import Cell
from align.io.reader import open_lines, read_lines, read_parallel

LAYER, HEAD = 1, 1
"""What lexical consistency takes for the bundled model."""

CHUNK = 1000
"""Pairs that go through one direction and both in turn."""

SINGLE_LINES = 200
"""Pairs that are aligned one at a time, drawn from the whole text at equal distances."""

HEADS = ("all heads", "one head")
STAGES = ("text", "model", "extraction maths", "output")

P = ParamSpec("P")
T = TypeVar("T")


def times(aligner: Aligner, pairs: list[Pair], naive_lines: int, rounds: int) -> list[Row]:
    """Parts a, b and d: ways to score, and the model's own forward pass, in turn on the same batches."""
    recorder = aligner.forward.recorder
    everything, one_head = Cell(LAYER, "all"), Cell(LAYER, HEAD)
    data = batches(aligner, pairs)
    ways = {
        "weight, all heads": word_scores(recorder, "weight", everything),
        "norm, all heads": word_scores(recorder, "norm", everything),
        "weight, one head": word_scores(recorder, "weight", one_head),
        "norm, one head": word_scores(recorder, "norm", one_head),
        "full": full_forward(recorder),
    }
    in_turn(ways, data[:20], 1)  # warm up
    seconds = in_turn(ways, data, rounds)
    few = data[:: max(1, len(pairs) // naive_lines)]
    naive = in_turn({"gram": ways["norm, all heads"], "naive": naive_word_scores(recorder, LAYER)}, few, rounds)
    return [
        *(("a", f"word scores, norm / weight, {h}", ratio(seconds, f"norm, {h}", f"weight, {h}"), "x") for h in HEADS),
        *(("b", f"norm scores / full forward pass, {h}", ratio(seconds, f"norm, {h}", "full"), "x") for h in HEADS),
        ("d", "norm scores, naive vectors / Gram matrices, all heads", ratio(naive, "naive", "gram"), "x"),
    ]


class Stopwatch:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time inside as this stage's."""
        start = time.perf_counter()
        yield
        self.spent[name] += time.perf_counter() - start

    def wrap(self, name: str, function: Callable[P, T]) -> Callable[P, T]:
        """A function whose time is counted."""

        def timed(*args: P.args, **named: P.kwargs) -> T:
            with self.stage(name):
                return function(*args, **named)

        return timed


STAGE_OF = {"encode": "text", "record": "model"}
"""What a recorder's methods are part of."""


class TimedRecorder:
    """Passes for a recorder, and counts the time of its methods."""

    def __init__(self, recorder: Recorder, watch: Stopwatch) -> None:
        self._recorder, self._watch = recorder, watch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._recorder, name)
        if name not in STAGE_OF:
            return found
        return self._watch.wrap(STAGE_OF[name], lambda *args, **named: _at_once(found(*args, **named)))


def _at_once(found: Any) -> Any:
    """What is made only as it is asked for, made now."""
    return iter(list(found)) if isinstance(found, Iterator) else found


def stages(model: str, source: str, target: str, lines: int) -> dict[str, float]:
    """Share of wall time by stage, from files to Pharaoh lines: all defaults, the choice included, caches cold."""
    watch = Stopwatch()
    recorder: Any = TimedRecorder(load(model, device="cpu").forward.recorder, watch)
    aligner = Aligner(Direction(recorder))
    out = io.BytesIO()
    count = 0
    start = time.perf_counter()
    with open_lines(source) as a, open_lines(target) as b:
        pairs = islice(read_parallel(read_lines(a, source), read_lines(b, target), (source, target)), lines)
        read_next: Callable[[], Pair | None] = watch.wrap("text", lambda: next(pairs, None))
        for alignment in aligner(pair for pair in iter(read_next, None) if pair):
            with watch.stage("output"):
                out.write(FORMATS["pharaoh"](alignment, False).encode() + b"\n")
            count += 1
    total = time.perf_counter() - start
    found = {stage: watch.spent[stage] / total for stage in ("text", "model", "output")}
    return {**found, "extraction maths": 1 - sum(found.values()), "lines/s": count / total}


def whole(model: str, source: str, target: str, lines: int, rounds: int) -> list[Row]:
    """Part c: what takes how much of the time, and how fast it all is."""
    runs = [stages(model, source, target, lines) for _ in range(rounds)]
    medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    rows: list[Row] = [("c", f"share of wall time, {name}", 100 * medians[name], "%") for name in STAGES]
    return [*rows, ("c", "whole pipeline", medians["lines/s"], "lines/s")]


def both_ways(forward: Aligner, reverse: Aligner, pairs: list[Pair], rounds: int) -> list[Row]:
    """Part f: what both positions cost, and then both directions, from words to links, places chosen."""
    one = replace(forward, forward=replace(forward.forward, choice=chosen(forward, pairs)))
    both = two_way(one, replace(reverse, forward=replace(reverse.forward, choice=chosen(reverse, swapped(pairs)))))
    read_only = Aligner(Direction(forward.forward.recorder, Settings(position="input")))
    read_only = replace(read_only, forward=replace(read_only.forward, choice=chosen(read_only, pairs)))
    data = list(chunks(pairs, CHUNK))
    ways: dict[str, Callable[[list[Pair]], object]] = {
        "input position": lambda some: list(read_only(some)),
        "both positions": lambda some: list(one(some)),
        "both directions": lambda some: list(both(some)),
    }
    in_turn(ways, data[:1], 1)  # warm up
    seconds = in_turn(ways, data, rounds)
    return [
        ("f", f"{name} / {other}, from words to links", ratio(seconds, name, other), "x")
        for other, name in pairwise(ways)
    ]


def single_lines(model: str, reverse_model: str, pairs: list[Pair]) -> list[Row]:
    """Part e: what a service waits for a line, where models have just been loaded and most words are new to them."""
    one, forward, reverse = (load(name, device="cpu") for name in (model, model, reverse_model))
    data = pairs[:: max(1, len(pairs) // SINGLE_LINES)][:SINGLE_LINES]
    rows: list[Row] = []
    for name, aligner in (("one model", one.fixed()), ("two models", two_way(forward, reverse).fixed())):
        seconds = []
        for pair in data:
            start = time.perf_counter()
            aligner.align(pair.source, pair.target)
            seconds.append(time.perf_counter() - start)
        rows.append(("e", f"aligner.align, one line at a time, {name}", 1000 * statistics.median(seconds), "ms"))
    return rows


def run(
    source: str,
    target: str,
    model: str,
    lines: int,
    rounds: int,
    reverse_model: str,
    naive_lines: int,
    against: str | None,
    dtypes: list[str],
    threads: int,
    output: Path,
) -> None:
    """Measure all, print it, write it; or measure whole programs beside those of another commit."""
    if against:
        benchmark_against.run(source, target, model, reverse_model, lines, rounds, against, dtypes, threads, output)
        return
    torch.set_num_threads(threads)
    forward, reverse = (load(name, device="cpu") for name in (model, reverse_model))
    pairs = read(source, target, lines)
    rows = [*times(forward, pairs, naive_lines, rounds), *both_ways(forward, reverse, pairs, rounds)]
    rows += [*whole(model, source, target, lines, rounds), *single_lines(model, reverse_model, pairs)]
    arguments = ["-s", Path(source).name, "-t", Path(target).name, "--lines", lines, "--rounds", rounds]
    about = f"{forward.forward.recorder.name}, {reverse.forward.recorder.name}, layer:{LAYER}, head:{HEAD}"
    write_rows(rows, output / "benchmark.tsv", *arguments, about=about)
