"""Do jobs of many files cost speed or memory? Beside one file of the same rows: eval/results/benchmark_shards.tsv.

    .venv/bin/python eval/run.py benchmark-shards -s SOURCE -t TARGET [--files 16] [--lines 5000] [--rounds 5]

The first rows of a text, from its beginning again where it is too short, as files of so many lines each. Whole runs of
extract-align jobs on them, and of extract-align on one file of the same rows, in turn, with as many workers,
start-up included, and layer and head fixed where it chooses to read the text. Then the largest worker of a job of few
files and of many; on Linux only.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, cycle, islice
from pathlib import Path

from benchmark_against import cell_options, spread
from benchmark_memory import PAUSE, family
from common import chosen, write_table
from programs import EXTRACT, absolute, machine, read_output, run_program
from timing import read

from align import Pair
from align import load as load_model
from align.evaluation.tables import Column, Value, interval
from align.io.process import module

COLUMNS = [Column("what", "what"), Column("value", "value"), Column("spread", "min–max"), Column("unit", "unit")]


def write_files(pairs: Sequence[Pair], files: int, lines: int, folder: Path) -> None:
    """Lines `source TAB target` of a text, from its beginning again where it is too short, as files of a folder."""
    folder.mkdir()
    texts = cycle(f"{' '.join(pair.source)}\t{' '.join(pair.target)}\n" for pair in pairs)
    for number in range(files):
        (folder / f"{number:04}.tsv").write_text("".join(islice(texts, lines)), encoding="utf-8")


class Bench:
    """Runs both ways on a folder of files.

    Args:
        options: of extract-align: the model, and where to read it.
        workers: of each run.
        folder: has `files`, a folder, and `one`, a file of all their lines; what is written gets there, too.
        lines: of each file.
    """

    def __init__(self, options: Sequence[str], workers: int, folder: Path, lines: int) -> None:
        shared = ["-q", "--device", "cpu", "--threads", str(workers), "--workers", str(workers), *options]
        self._one = [*shared, str(folder / "one"), "-o", str(folder / "links")]
        self._many = ["jobs", *shared, "--output", str(folder / "out")]
        self._files = sorted((folder / "files").iterdir())
        self._folder, self._lines = folder, lines

    def one(self) -> float:
        """Rows a second of a run on one file."""
        seconds = run_program(EXTRACT, *self._one).seconds
        rows = len(read_output(self._folder / "links", len(self._files) * self._lines))
        (self._folder / "links").unlink()
        return rows / seconds

    def many(self) -> float:
        """Rows a second of a job on all files."""
        seconds = run_program(EXTRACT, *self._many, *self._files).seconds
        rows = sum(len(read_output(self._folder / "out" / file.name, self._lines)) for file in self._files)
        shutil.rmtree(self._folder / "out")
        return rows / seconds

    def peak(self, count: int) -> float:
        """Peak resident memory in MB of the largest worker of a job on some of the files.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        command = module(EXTRACT, *self._many, *map(str, self._files[:count]))
        largest = 0
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
            while process.poll() is None:
                largest = max([largest, *map(peak_of, family(process.pid)[1:])])
                time.sleep(PAUSE)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        shutil.rmtree(self._folder / "out")
        return largest / 1024


def peak_of(process: int) -> int:
    """The largest resident memory that a process has had so far, in kB."""
    with suppress(FileNotFoundError, ProcessLookupError):  # has ended
        for line in Path("/proc", str(process), "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


def row(what: str, values: Sequence[float], unit: str) -> dict[str, Value]:
    """The median of some rounds, and their interval."""
    if unit == "x":
        value, between = spread(values)
    else:
        value, between = round(statistics.median(values)), interval(round(min(values)), round(max(values)))
    return {"what": what, "value": value, "spread": between, "unit": unit}


def run(
    source: str,
    target: str,
    model: str,
    files: int,
    lines: int,
    rounds: int,
    memory_files: list[int],
    workers: int,
    output: Path,
) -> None:
    """Measure; print and write what is known after each round."""
    pairs = read(source, target, files * lines)
    aligner = load_model(model, device="cpu")
    place = chosen(aligner, pairs).place
    options = ["-m", absolute(model), *cell_options(place)]
    names = f"-s {Path(source).name} -t {Path(target).name}"
    command = f"python eval/run.py benchmark-shards {names} --files {files} --lines {lines} --workers {workers}"
    one: list[float] = []
    many: list[float] = []
    peaks: dict[int, list[float]] = {count: [] for count in memory_files if count <= files}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(pairs, files, lines, folder / "files")
        parts = sorted((folder / "files").iterdir())
        (folder / "one").write_bytes(b"".join(part.read_bytes() for part in parts))
        bench = Bench(options, workers, folder, lines)
        for number in range(rounds):
            ways = [(one, bench.one), (many, bench.many)]
            for rates, measure in chain(ways[number % 2 :], ways[: number % 2]):
                rates.append(measure())
            for count, found in peaks.items():
                found.append(bench.peak(count))
            print(f"round {number + 1}: {one[-1]:.0f} and {many[-1]:.0f} rows/s", file=sys.stderr)
            rows = [
                row("one file", one, "rows/s"),
                row(f"{files} files", many, "rows/s"),
                row(f"{files} files / one file", [b / a for a, b in zip(one, many, strict=True)], "x"),
                *(row(f"peak of the largest worker, {count} files", found, "MB") for count, found in peaks.items()),
            ]
            about = f"{aligner.forward.recorder.name} ({place})"
            sign = f"{command} --rounds {number + 1}; {about}; {machine(workers)}; medians over rounds"
            write_table(COLUMNS, rows, sign, output / "benchmark_shards.tsv")
