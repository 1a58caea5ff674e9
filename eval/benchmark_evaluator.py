"""What do `sweep-align` and `eval-align` cost? eval/results/benchmark_evaluator.tsv.

    .venv/bin/python eval/run.py benchmark-evaluator -s SOURCE -t TARGET [--lines 2000]

A sweep of all settings against the model's own forward pass, in turn on the same pairs in one process; and seconds of
whole `eval-align` commands, start to end, on 500 sentences with three systems made up for it.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from timing import Row, batches, full_forward, in_turn, ratio, read, write_rows

from align import Aligner, Pair, load
from align.core.batching import chunks
from align.core.choice import all_cells
from align.evaluation.link_formats import make_gold
from align.evaluation.sweep import sweep
from align.evaluation.swept import POSITIONS, SCORES
from align.io.process import module

SENTENCES, SYSTEMS, SAMPLES = 500, 3, 1000

CHUNK = 250
"""Pairs that are swept and run through the model in turn."""


def sweep_times(aligner: Aligner, pairs: list[Pair], rounds: int) -> list[Row]:
    """A sweep of all settings with gold against one full forward pass, both from words."""
    forward = full_forward(aligner.forward.recorder)
    gold = make_gold([(0, 0)])
    ways: dict[str, Callable[[list[Pair]], object]] = {
        "sweep": lambda some: sweep(aligner, some, [gold] * len(some)),
        "model": lambda some: [forward(batch) for batch in batches(aligner, some)],
    }
    data = list(chunks(pairs, CHUNK))
    in_turn(ways, data[:1], 1)  # warm up
    seconds = in_turn(ways, data, rounds)
    settings = len(SCORES) * len(POSITIONS) * len(all_cells(aligner.forward.recorder))
    what = f"sweep of {settings} settings with gold / full forward pass, both from words"
    return [("a", what, ratio(seconds, "sweep", "model"), "x")]


def evaluator_times(rounds: int) -> list[Row]:
    """Whole commands, on links drawn at random with a fixed seed: 25 words a side, a tenth of the links moved."""
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        names = [Path(folder, f"links{n}") for n in range(SYSTEMS + 1)]
        for name in names:
            lines = [
                [(i, i if draw.random() < 0.9 else draw.randrange(25)) for i in range(25)] for _ in range(SENTENCES)
            ]
            name.write_text("".join(" ".join(f"{i}-{j}" for i, j in line) + "\n" for line in lines))
        command = module("align.cli.evaluate", "-g", *names, "--samples", SAMPLES)
        rows: list[Row] = []
        for what, options in (("intervals", []), ("intervals and paired tests", ["--paired", "permutation"])):
            spent = []
            for _ in range(rounds):
                start = time.perf_counter()
                subprocess.run([*command, *options], check=True, capture_output=True)
                spent.append(time.perf_counter() - start)
            size = f"{SENTENCES} sentences, {SYSTEMS} systems, {SAMPLES:,} samples"
            rows.append(("b", f"eval-align, {size}, {what}", statistics.median(spent), "s"))
    return rows


def run(source: str, target: str, model: str, lines: int, rounds: int, output: Path) -> None:
    """Measure both, print it, write it."""
    aligner = load(model, device="cpu")
    rows = [*sweep_times(aligner, read(source, target, lines), rounds), *evaluator_times(rounds)]
    arguments = ["-s", Path(source).name, "-t", Path(target).name, "--lines", lines, "--rounds", rounds]
    write_rows(rows, output / "benchmark_evaluator.tsv", *arguments, about=aligner.forward.recorder.name)
