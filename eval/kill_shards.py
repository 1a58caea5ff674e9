"""Do jobs of many files survive kill -9? Workers, Ray's actors and the program itself: eval/results/kill_shards.tsv.

    .venv/bin/python eval/run.py kill-shards -s SOURCE -t TARGET [--files 64] [--rows 5000] [--kills 20]

The text is cut into files, over and over if it is too short, and each file is aligned by a run of extract-align of its
own, which reads where the model's model.toml says. Then `extract-align jobs` aligns them all, with both engines and
two workers: once undisturbed, which is timed, and then with kills at random moments, all of which come within about
the time of one job: a worker, another worker, and the program itself, after which the same command is given again. A
job that ends before all kills are done is compared, and another one begun. Every file of every job is compared with
that of the run by itself, byte for byte. "Done twice" counts finished files that were written again, "left" names in
the folder that are not results, and processes that have not ended.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path

from benchmark_against import cell_options
from benchmark_shards import write_files
from common import write_table
from programs import EXTRACT, ROOT, absolute, machine, run_program
from timing import read

from align import Pair, load
from align.evaluation.tables import Column, Value

WORKERS = 2
BLANK = 100
"""One pair in so many is blank."""

ACTOR = b"ray::MapWorker"
PATIENCE = 30.0
"""Seconds in which the processes of a program that was killed must have ended."""

COLUMNS = [
    Column("engine", "engine"),
    Column("files", "files"),
    Column("rows", "rows"),
    Column("worker_kills", "workers killed"),
    Column("program_kills", "programs killed"),
    Column("starts", "starts"),
    Column("jobs", "whole jobs"),
    Column("twice", "done twice"),
    Column("differences", "differences"),
    Column("left", "left"),
    Column("seconds", "in peace, s", 1),
    Column("ratio", "ratio to local", 2),
]


class Killed:
    """Jobs of an engine that are killed.

    Args:
        engine: local or ray.
        folder: with the files of the job in `in/`.
        options: of extract-align, but for the output.
        expected: the results, by name.
    """

    def __init__(self, engine: str, folder: Path, options: list[str], expected: dict[str, bytes]) -> None:
        self._folder, self._expected, self._out = folder, expected, folder / engine
        self._options = [*options, "--engine", engine, "--output", str(self._out)]
        self._records: dict[str, int] = {}
        self.counts: Counter[str] = Counter()

    def in_peace(self) -> float:
        """The seconds that a whole job takes."""
        seconds = run_program(EXTRACT, *self._options, environment=environment()).seconds
        self._look(ended=True)
        return seconds

    def killed(self, kills: int, seconds: float, draw: random.Random) -> None:
        """Jobs that are killed so often, and then left in peace.

        Raises:
            ChildProcessError: the last job has failed.
        """
        process, sessions = self._start(), set()
        for kind in islice(cycle(("worker", "worker", "program")), kills):
            while not self._kill(process, kind, draw.uniform(0, 2 * seconds / kills)):
                if process.poll() is not None:
                    self._look(ended=process.returncode == 0)
                    process = self._start()
            sessions.add(process.pid)
            self.counts[kind] += 1
            if kind == "program":
                process.wait()
                self._look(ended=False)
                process = self._start()
        while process.wait():  # a file may have lost three workers
            if process.returncode < 0 or self.counts["starts"] > 3 * kills + 3:
                raise ChildProcessError(f"the job failed with {process.returncode}")
            process = self._start()
        self._look(ended=True)
        self.counts["left"] += len(left_over(sessions | {process.pid}))

    def _start(self) -> subprocess.Popen[bytes]:
        self.counts["starts"] += 1
        command = [sys.executable, "-m", EXTRACT, *self._options]
        return subprocess.Popen(
            command, env={**os.environ, **environment()}, start_new_session=True, stderr=subprocess.DEVNULL
        )

    def _kill(self, process: subprocess.Popen[bytes], kind: str, seconds: float) -> bool:
        """Kill one of a kind so many seconds after there is one; whether it was still there."""
        while kind == "worker" and process.poll() is None and not workers(process.pid):
            time.sleep(0.05)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return False
        victims = [process.pid] if kind == "program" else workers(process.pid)
        if not victims:
            return False
        with suppress(ProcessLookupError):
            os.kill(victims[0], signal.SIGKILL)
            return True
        return False

    def _look(self, ended: bool) -> None:
        """Compare what is there; what has ended is taken away."""
        done = [path for path in self._out.glob("_run/*.tsv.json") if (self._out / path.stem).exists()]
        records = {path.name: path.stat().st_mtime_ns for path in done}
        self.counts["twice"] += sum(records.get(name) != time for name, time in self._records.items())
        for name, content in self._expected.items():
            path = self._out / name
            if ended or f"{name}.json" in records:
                self.counts["differences"] += not (path.is_file() and path.read_bytes() == content)
        self._records = records
        if ended:
            self.counts["jobs"] += 1
            strange = [path for path in self._out.iterdir() if path.name not in {*self._expected, "_run"}]
            self.counts["left"] += len([*strange, *self._out.glob("_run/*.part")])
            shutil.rmtree(self._out)
            self._records = {}


def environment() -> dict[str, str]:
    """Ours, with a Ray cluster of its own for each program, and these modules."""
    return {"RAY_ADDRESS": "local", "PYTHONPATH": str(ROOT)}


def processes() -> Iterator[tuple[int, int, int, bytes]]:
    """All processes of the system that have not ended: number, parent, session, command line."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent, _, session = (path / "stat").read_text().rpartition(") ")[2].split()[:4]
            if state != "Z":
                yield int(path.name), int(parent), int(session), (path / "cmdline").read_bytes()


def workers(program: int) -> list[int]:
    """Those who align for a program: Ray's actors, or its own children."""
    there = list(processes())
    parents = {number: parent for number, parent, *_ in there}
    actors = [number for number, parent, _, line in there if line.startswith(ACTOR) and parents.get(parent) == program]
    return actors or [number for number, parent, _, line in there if parent == program and EXTRACT.encode() in line]


def left_over(sessions: set[int]) -> list[int]:
    """Processes of these sessions that do not end."""
    end = time.monotonic() + PATIENCE
    while (found := [number for number, _, session, _ in processes() if session in sessions]) and (
        time.monotonic() < end
    ):
        time.sleep(0.2)
    return found


def run(
    source: str, target: str, model: str, files: int, rows: int, kills: int, seed: int, engines: list[str], output: Path
) -> None:
    """Do the files by themselves, then by each engine; print and write what is known after each."""
    aligner = load(model, device="cpu").fixed()
    assert aligner.forward.choice
    place = aligner.forward.choice.place
    options = ["-q", "-m", absolute(model), "--device", "cpu", "--threads", "1", *cell_options(place)]
    command = f"python eval/run.py kill-shards -s {Path(source).name} -t {Path(target).name} --files {files}"
    sign = f"{command} --rows {rows} --kills {kills} --seed {seed}; {aligner.forward.recorder.name}; {machine(WORKERS)}"
    with tempfile.TemporaryDirectory() as name:
        folder, expected = Path(name), {}
        pairs = enumerate(read(source, target, files * rows), 1)
        some_blank = [pair if n % BLANK else Pair((), (), pair.id) for n, pair in pairs]
        write_files(some_blank, files, rows, folder / "in")
        for path in sorted((folder / "in").iterdir()):
            run_program(EXTRACT, *options, path, "-o", folder / "links")
            expected[path.name] = (folder / "links").read_bytes()
        found: list[dict[str, Value]] = []
        for engine in engines:
            job = ["jobs", *options, "--workers", str(WORKERS), str(folder / "in" / "*.tsv")]
            jobs = Killed(engine, folder, job, expected)
            seconds = jobs.in_peace()
            jobs.killed(kills, seconds, random.Random(seed))
            found.append(row(engine, files, rows, seconds, jobs.counts, found))
            write_table(COLUMNS, found, sign, output / "kill_shards.tsv")


def row(
    engine: str, files: int, rows: int, seconds: float, counts: Counter[str], before: list[dict[str, Value]]
) -> dict[str, Value]:
    """What became of an engine's jobs; the first one's speed is what others are measured by."""
    first = before[0]["seconds"] if before else seconds
    assert isinstance(first, float)
    told = {key: counts[key] for key in ("starts", "jobs", "twice", "differences", "left")}
    kinds = {"worker_kills": counts["worker"], "program_kills": counts["program"]}
    return {
        "engine": engine,
        "files": files,
        "rows": files * rows,
        **kinds,
        **told,
        "seconds": seconds,
        "ratio": first / seconds,
    }
