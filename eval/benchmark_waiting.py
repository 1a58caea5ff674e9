"""How are cores best used, and how should threads wait? On idle and on busy cores: eval/results/benchmark_waiting.tsv.

    .venv/bin/python eval/run.py benchmark-waiting -s SOURCE -t TARGET [--lines 3000] [--rounds 3] [--load 2]

Whole runs of extract-align in turn, start-up included, with layer and head fixed where it chooses to read the text: in
one process with several threads, or in as many workers with one thread each, which is what it does by default. Its
threads sleep while they wait (OMP_WAIT_POLICY=passive) unless the environment says otherwise: "active" threads go on
looking for work, and those of "unset" do so for a while, which is what OpenMP's do where nobody has said anything. Each
is run by itself and beside processes that only count, which this command starts and ends.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmark_against import cell_options, spread
from common import chosen, write_table
from programs import EXTRACT, absolute, first_lines, machine, read_output, run_program
from timing import read

from align import load as load_model
from align.evaluation.tables import Column, Value, interval

POLICIES = {"passive": {}, "unset": {"OMP_WAIT_POLICY": ""}, "active": {"OMP_WAIT_POLICY": "active"}}
"""What the environment says of waiting. An empty word keeps extract-align from setting one, and GNU's OpenMP, which
warns that it is no valid value, waits as it does where nobody has said anything."""

BUSY = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""
"""Keeps a core busy, and ends with the process that has started it, however that ends."""


class Way(NamedTuple):
    """A use of the cores: in one process or in workers, how threads wait, in which arithmetic."""

    workers: bool
    waiting: str
    dtype: str


DEFAULT = Way(True, "passive", "float32")
"""What extract-align does by itself."""

WAYS = (
    DEFAULT,
    Way(True, "active", "float32"),
    *(Way(False, waiting, "float32") for waiting in POLICIES),
    *(Way(workers, "passive", "int8") for workers in (True, False)),
)


@contextmanager
def busy(processes: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many processes that do nothing but count, until the context ends."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(processes):
            started.append(subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]))
        yield started
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


class Bench:
    """Runs the ways on a text.

    Args:
        text: files of both sides.
        lines: of the text.
        options: of extract-align: the model, and where to read it.
        threads: in all.
        folder: for what is written.
    """

    def __init__(self, text: tuple[Path, Path], lines: int, options: list[str], threads: int, folder: Path) -> None:
        self._lines, self._threads, self._output = lines, threads, folder / "links"
        self._options = ["-q", "--bad-lines", "blank", "--threads", threads, *options, "-s", text[0], "-t", text[1]]

    def rate(self, way: Way, load: int) -> float:
        """Lines a second of a whole run, beside so many busy processes."""
        workers = self._threads if way.workers else 1
        options = [*self._options, "--workers", workers, "--dtype", way.dtype, "-o", self._output]
        with busy(load):
            seconds = run_program(EXTRACT, *options, environment=POLICIES[way.waiting]).seconds
        read_output(self._output, self._lines)
        self._output.unlink()
        return self._lines / seconds


COLUMNS = [
    Column("what", "what"),
    Column("waiting", "waiting"),
    Column("dtype", "dtype"),
    Column("load", "busy processes beside it"),
    Column("rate", "lines/s"),
    Column("rate_spread", "min–max"),
    Column("ratio", "ratio to the default"),
    Column("ratio_spread", "min–max"),
]


def row(way: Way, load: int, threads: int, found: list[float], base: list[float]) -> dict[str, Value]:
    """A way at a load beside the default at the same load: ratios say how many times as fast it is."""
    what = f"{threads} processes with a thread each" if way.workers else f"one process with {threads} threads"
    values: dict[str, Value] = {"what": what, "waiting": way.waiting, "dtype": way.dtype, "load": load}
    rates = [round(rate) for rate in found]
    values["rate"], values["rate_spread"] = round(statistics.median(found)), interval(min(rates), max(rates))
    values["ratio"], values["ratio_spread"] = spread([a / b for a, b in zip(found, base, strict=True)])
    return values


def run(source: str, target: str, model: str, lines: int, rounds: int, load: int, threads: int, output: Path) -> None:
    """Measure; print and write what is known after each round."""
    aligner = load_model(model, device="cpu")
    place = chosen(aligner, read(source, target, lines)).place
    options = ["-m", absolute(model), *cell_options(place)]
    command = (
        f"python eval/run.py benchmark-waiting -s {Path(source).name} -t {Path(target).name} "
        f"--lines {lines} --load {load}"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = Bench(first_lines(source, target, lines, folder), lines, options, threads, folder)
        found: dict[tuple[Way, int], list[float]] = {
            (way, beside): [] for beside in dict.fromkeys((0, load)) for way in WAYS
        }
        ways = list(found)
        for number in range(rounds):
            turn = number % len(ways)
            for way, beside in ways[turn:] + ways[:turn]:
                found[way, beside].append(bench.rate(way, beside))
                print(
                    f"round {number + 1}, load {beside}, {way}: {found[way, beside][-1]:.0f} lines/s", file=sys.stderr
                )
            rows = [row(*key, threads, rates, found[DEFAULT, key[1]]) for key, rates in found.items()]
            about = f"{aligner.forward.recorder.name} ({place})"
            sign = f"{command} --rounds {number + 1}; {about}; {machine(threads)}; medians over rounds"
            write_table(COLUMNS, rows, sign, output / "benchmark_waiting.tsv")
