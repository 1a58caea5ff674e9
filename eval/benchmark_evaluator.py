"""What do `sweep-align` and `eval-align` cost? Prints a table and writes it to eval/results/benchmark_evaluator.tsv.

    .venv/bin/python eval/benchmark_evaluator.py -s SOURCE -t TARGET [--lines 2000]

A sweep of all settings against the model's own forward pass, in turn on the same pairs in one process; and seconds of
whole `eval-align` commands, start to end, on 500 sentences with three systems made up for it.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from benchmark_common import Row, cut, full_forward, in_turn, ratio, read, report

from align import __version__, load
from align.aligners.sweep import sweep
from align.children import module
from align.links.formats import make_gold
from align.memory import keep_freed_memory
from align.types import Pair

SENTENCES, SYSTEMS, SAMPLES = 500, 3, 1000

CHUNK = 250
"""Pairs that are swept and run through the model in turn."""


def sweep_times(args: argparse.Namespace) -> tuple[list[Row], str]:
    """A sweep of all settings with gold against one full forward pass, both from words; and the model's name."""
    aligner: Any = load(args.model, device="cpu")
    forward = full_forward(aligner)
    pairs = read(args.source, args.target, args.lines)
    gold = make_gold([(0, 0)])

    def run_sweep(some: list[Pair]) -> object:
        return sweep(aligner, some, [gold] * len(some))

    def run_model(some: list[Pair]) -> object:
        return [forward(batch) for batch in cut(aligner, some)]

    data = [pairs[start : start + CHUNK] for start in range(0, len(pairs), CHUNK)]
    ways: dict[str, Callable[[list[Pair]], object]] = {"sweep": run_sweep, "model": run_model}
    in_turn(ways, data[:1], 1)  # warm up
    seconds = in_turn(ways, data, args.rounds)
    recorder = aligner.recorder
    settings = 4 * recorder.layers * (recorder.heads + 1)
    what = f"sweep of {settings} settings with gold / full forward pass, both from words"
    return [("a", what, ratio(seconds, "sweep", "model"), "x")], recorder.name


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


def main() -> None:
    """Measure both, print it, write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-s", "--source", required=True)
    parser.add_argument("-t", "--target", required=True)
    parser.add_argument("-m", "--model", default="de-en")
    parser.add_argument("--lines", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    output = Path(__file__).parent / "results" / "benchmark_evaluator.tsv"
    parser.add_argument("-o", "--output", type=Path, default=output)
    args = parser.parse_args()
    keep_freed_memory()
    rows, name = sweep_times(args)
    about = (
        f"python eval/benchmark_evaluator.py -s {Path(args.source).name} -t {Path(args.target).name} "
        f"--lines {args.lines} --rounds {args.rounds}; {name}, v:{__version__}; Python {platform.python_version()}, "
        f"torch {torch.__version__}, {torch.get_num_threads()} threads; medians"
    )
    report([*rows, *evaluator_times(args.rounds)], about, args.output)


if __name__ == "__main__":
    main()
