"""How long does a corpus of a billion pairs take, and where does the time go? eval/results/planning.*.tsv.

    .venv/bin/python eval/run.py planning -s SOURCE -t TARGET [--lines 4000]

Costs are measured, on one CPU thread: rows a second of a file from its digest to its record, what a file costs besides
its rows, and what a worker costs before its first file. Days of many workers are computed from these, with machines of
different speed, interruptions and ways to deal out the files that are assumed, and stand in the table's signature.
"""

from __future__ import annotations

import heapq
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from subprocess import DEVNULL, check_call
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from common import write_table
from programs import machine
from timing import read

from align import Pair, __version__, load, two_way
from align.core.types import Dtype
from align.evaluation.tables import Column, Value
from align.jobs.files import RUN, find, make_folder
from align.jobs.job import Job, align_file, finished
from align.jobs.readers import Columns

ROWS = 10**9
DAY = 86_400
MODELS, COLUMNS = (("de-en",), ("de-en", "en-de")), Columns("source", "target", None)
DTYPES: tuple[Dtype, ...] = ("float32", "int8")

WORKERS, FILE_ROWS, DEALT = (1, 8, 64), (10_000, 100_000, 1_000_000), ("queue", "parts", "10 parts")
SPEED, TEXT, BETWEEN = 0.1, 0.05, 24 * 3600.0
"""Assumed: deviation of the workers' speeds and of the files' texts, as shares, and seconds between interruptions."""

LOSSES = ("start", "files", "again", "idle")


class Cost(NamedTuple):
    """What one worker with one thread needs.

    Attributes:
        row: seconds for a row.
        file: seconds for a file besides its rows.
        start: seconds from the command to the first file.
    """

    row: float
    file: float
    start: float


@dataclass
class Times:
    """Seconds that workers spent, all together, by what for; `again` on what an interruption undid."""

    work: float = 0.0
    start: float = 0.0
    files: float = 0.0
    again: float = 0.0
    idle: float = 0.0

    @property
    def all(self) -> float:
        """All of them."""
        return self.work + self.start + self.files + self.again + self.idle


def run(source: str, target: str, lines: int, rounds: int, output: Path) -> None:
    """Measure, compute, print both tables, write them."""
    torch.set_num_threads(1)
    command = f"python eval/run.py planning -s {Path(source).name} -t {Path(target).name} --lines {lines}"
    command += f" --rounds {rounds}; v:{__version__}; {machine(1)}"
    with tempfile.TemporaryDirectory() as folder:
        costs, rows = measure(read(source, target, lines), Path(folder), rounds)
    heads = ("models", "dtype", "rows_s", "core_days", "file_s", "start_s", "checked_s", "in_bytes", "out_bytes")
    write_table([Column(head, head) for head in heads], rows, f"{command}; medians", output / "planning.costs.tsv")
    assumed = f"{ROWS:,} rows; assumed: speeds ±{SPEED:.0%}, texts ±{TEXT:.0%}, interrupted every {BETWEEN / 3600:g} h"
    table = [
        summary(dealt, workers, file_rows, simulate(costs[-1], dealt, workers, file_rows))
        for file_rows in FILE_ROWS
        for dealt in DEALT
        for workers in WORKERS
        if workers > 1 or dealt == DEALT[0]
    ]
    sign = f"{command}; two models, {DTYPES[-1]}; {assumed}"
    write_table([Column(head, head) for head in table[0]], table, sign, output / "planning.workers.tsv")


def measure(pairs: Sequence[Pair], folder: Path, rounds: int) -> tuple[list[Cost], list[dict[str, Value]]]:
    """What each way of aligning costs, and the table of that.

    Args:
        pairs: the rows.
        folder: to work in.
        rounds: how often each is measured, in turn.
    """
    every, one = put(pairs, folder / "every.parquet"), put(pairs[:1], folder / "one.parquet")
    ways = [Way(names, dtype, folder) for names in MODELS for dtype in DTYPES]
    for _ in range(rounds):
        for way in ways:
            way.time("one", align_file, way.job, find([one])[0])
            way.time("every", align_file, way.job, find([every])[0])
            way.time("check", finished, way.job, find([every])[0])
            way.time("start", check_call, way.command(one, folder), stdout=DEVNULL)
    costs, rows = list[Cost](), list[dict[str, Value]]()
    for way in ways:
        file = way.median("one")
        costs.append(Cost((way.median("every") - file) / (len(pairs) - 1), file, way.median("start") - file))
        rows.append(
            {
                "models": len(way.names),
                "dtype": way.dtype,
                "rows_s": round(1 / costs[-1].row),
                "core_days": round(ROWS * costs[-1].row / DAY, 1),
                "file_s": round(file, 3),
                "start_s": round(costs[-1].start, 2),
                "checked_s": round(len(pairs) / way.median("check")),
                "in_bytes": round(Path(every).stat().st_size / len(pairs)),
                "out_bytes": round((Path(way.job.output) / "every.parquet").stat().st_size / len(pairs)),
            }
        )
    return costs, rows


class Way:
    """One way of aligning, and what it has taken so far.

    Args:
        names: of one model or two.
        dtype: of their arithmetic.
        folder: to work in.
    """

    def __init__(self, names: Sequence[str], dtype: Dtype, folder: Path) -> None:
        self.names, self.dtype, output = names, dtype, str(folder / f"{len(names)}-{dtype}")
        make_folder(f"{output}/{RUN}")
        forward, *reverse = (load(name, device="cpu", dtype=dtype, too_long="blank") for name in names)
        aligner = two_way(forward, reverse[0]).fixed() if reverse else forward.fixed()
        self.job = Job(aligner, "measured", output, COLUMNS)
        self._seconds: dict[str, list[float]] = {}

    def time(self, name: str, do: Callable[..., object], *arguments: object, **options: object) -> None:
        """Measure something, and note it under a name."""
        start = time.perf_counter()
        do(*arguments, **options)
        self._seconds.setdefault(name, []).append(time.perf_counter() - start)

    def median(self, name: str) -> float:
        """Of the seconds under a name."""
        return statistics.median(self._seconds[name])

    def command(self, place: str, folder: Path) -> list[str]:
        """The same from the command line, into a new folder."""
        output = tempfile.mkdtemp(dir=folder)
        columns = ["--source-column", "source", "--target-column", "target"]
        command = [sys.executable, "-m", "align", "--input", place, *columns, "--output", output, "-m", self.names[0]]
        command += ["--reverse-model", self.names[1]] if self.names[1:] else []
        return [*command, "--dtype", self.dtype, "--device", "cpu", "--workers", "1", "--threads", "1", "-q"]


def put(pairs: Sequence[Pair], path: Path) -> str:
    """Write pairs as a table."""
    sides = {"source": [" ".join(pair.source) for pair in pairs], "target": [" ".join(pair.target) for pair in pairs]}
    pq.write_table(pa.table(sides), path)
    return str(path)


def simulate(cost: Cost, dealt: str, workers: int, file_rows: int) -> Times:
    """What workers spend on all rows.

    Args:
        cost: of one of them.
        dealt: of `DEALT`: "queue" if whoever is free takes the next file, as `--workers` and Ray do; "parts" if
            each worker has a part of the files, "10 parts" if there are ten parts for each, of which whoever is free
            takes the next one, with a start of its own.
        workers: of different speed, each interrupted now and then: its file is begun again, after a new start.
        file_rows: rows of each file.
    """
    random, times = Random(1), Times()
    slowness = [random.lognormvariate(0, SPEED) for _ in range(workers)]
    files = [file_rows * cost.row * random.lognormvariate(0, TEXT) for _ in range(ROWS // file_rows)]
    halts = [BETWEEN * random.expovariate(1) for _ in range(workers)]
    parts = workers if dealt == "parts" else 10 * workers
    tasks = [[seconds] for seconds in files] if dealt == "queue" else [files[n::parts] for n in range(parts)]
    free = [(cost.start if dealt == "queue" else 0.0, n) for n in range(workers)]
    times.start = sum(now for now, _ in free)
    for task in tasks:
        now, n = heapq.heappop(free)
        if dealt != "queue":
            times.start += cost.start
            now += cost.start
        for seconds in task:
            needed = seconds * slowness[n] + cost.file
            while now + needed > halts[n]:
                times.again += max(0.0, halts[n] - now)
                times.start += cost.start
                now = max(now, halts[n]) + cost.start
                halts[n] = now + BETWEEN * random.expovariate(1)
            now += needed
            times.work += needed - cost.file
            times.files += cost.file
        heapq.heappush(free, (now, n))
    end = max(now for now, _ in free)
    return replace(times, idle=sum(end - now for now, _ in free))


def summary(dealt: str, workers: int, file_rows: int, times: Times) -> dict[str, Value]:
    """A row of the table: days, what per cent of all workers' time is work, what the rest goes to, and most of it."""
    shares = {name: round(100 * getattr(times, name) / times.all, 2) for name in ("work", *LOSSES)}
    most = max(LOSSES, key=lambda name: getattr(times, name))
    days = round(times.all / workers / DAY, 2)
    return {"file_rows": file_rows, "dealt": dealt, "workers": workers, "days": days, **shares, "largest_loss": most}
