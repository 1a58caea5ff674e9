"""What does extraction cost in memory? Peaks of processes of their own: eval/results/benchmark_memory.tsv.

    .venv/bin/python eval/run.py benchmark-memory -s SOURCE -t TARGET [--lines 2000]

Norms by Gram matrices and by vectors as the original code forms them, beside attention weights, which are what the
model itself needs; and extract-align with all its workers, and in one process, over texts of different length. On Linux
only.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from programs import first_lines
from timing import Row, batches, naive_word_scores, read, word_scores, write_rows

from align import load
from align.core.backend import Recorder
from align.core.types import Cell, Pieces
from align.io.process import module, python

LAYER = 1

METHODS: dict[str, Callable[[Recorder], Callable[[list[Pieces]], object]]] = {
    "weight": lambda recorder: word_scores(recorder, "weight", Cell(LAYER, "all")),
    "gram": lambda recorder: word_scores(recorder, "norm", Cell(LAYER, "all")),
    "naive": lambda recorder: naive_word_scores(recorder, LAYER),
}
"""Ways to score words by all heads of a layer."""

BASE = "weight"
SHOWN = {"weight": "attention weights", "gram": "norms, Gram matrices", "naive": "norms, naive vectors"}

WORKERS: dict[str, list[str]] = {
    "all processes, shared memory counted once": [],
    "one process (`--workers 1`)": ["--workers", "1"],
}
"""How extract-align runs: as it does by itself, and with these options."""

PAUSE = 0.2
"""Seconds between two looks at the memory of running processes."""


def peak_memory(command: list[str]) -> float:
    """Peak resident memory in MB of a command that is a single process.

    A process begins with the peak of the one that started it, so a small one stands in between.
    """
    script = "import resource,subprocess,sys; subprocess.run(sys.argv[1:],check=True,stdout=subprocess.DEVNULL);"
    script += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    result = subprocess.run(python(script, *command), check=True, stdout=subprocess.PIPE, text=True)
    return int(result.stdout) / 1024


def peak_of_all(command: list[str]) -> float:
    """Peak resident memory in MB of a command and all that it starts, out of a few looks a second.

    A look takes its time: where one process ends meanwhile, what it shared is counted once more with those that are
    looked at after it. So each is the smaller of two in a row.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    largest = 0.0
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            processes = family(process.pid)
            largest = max(largest, min(memory_of(processes) for _ in range(2)))
            time.sleep(PAUSE)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return largest


def family(process: int) -> list[int]:
    """The ids of a process and of all that it and its children have started, and that still run."""
    found = [process]
    for parent in found:  # which grows
        with suppress(FileNotFoundError, ProcessLookupError):  # has ended
            for thread in Path("/proc", str(parent), "task").iterdir():
                found += map(int, (thread / "children").read_text().split())
    return found


def memory_of(processes: list[int]) -> float:
    """Resident memory of processes in MB, where what several of them have is counted once.

    What they have allocated is summed, each page split among those that share it (the kernel's PSS). Pages of files,
    such as libraries, are those of the process that has most: their PSS depends on what else uses torch just then.
    """
    own = files = 0
    for process in processes:
        with suppress(FileNotFoundError, ProcessLookupError):  # has ended
            lines = Path("/proc", str(process), "smaps_rollup").read_text().splitlines()[1:]
            kilobytes = {name.rstrip(":"): int(value) for name, value, _ in map(str.split, lines)}
            own += kilobytes["Pss_Anon"]
            files = max(files, kilobytes["Rss"] - kilobytes["Anonymous"])
    return (own + files) / 1024


def score(method: str, model: str, source: str, target: str, lines: int) -> None:
    """Score a text with one method: what is measured.

    Raises:
        ValueError: there is no such method.
    """
    if method not in METHODS:
        raise ValueError(f"the method is one of {', '.join(METHODS)}; not {method!r}")
    aligner = load(model, device="cpu")
    way = METHODS[method](aligner.forward.recorder)
    for batch in batches(aligner, read(source, target, lines)):
        way(batch)


def whole(model: str, source: str, target: str, lines: int, options: list[str]) -> float:
    """Peak memory of extract-align and its workers over the first lines of the files, in MB."""
    with tempfile.TemporaryDirectory() as folder:
        parts = first_lines(source, target, lines, Path(folder))
        command = module("align", "-q", "-m", model, "--bad-lines", "blank", "-o", "/dev/null", *options)
        return peak_of_all([*command, "-s", str(parts[0]), "-t", str(parts[1])])


def run(
    source: str,
    target: str,
    model: str,
    lines: int,
    rounds: int,
    whole_lines: list[int],
    only: str | None,
    output: Path,
) -> None:
    """Measure, print, write; or do what is measured."""
    if only:
        score(only, model, source, target, lines)
        return
    door = Path(__file__).with_name("run.py")
    common = ["-s", source, "-t", target, "-m", model, "--lines", lines]
    script = f"import runpy; runpy.run_path({str(door)!r}, run_name='__main__')"
    peaks = {
        name: statistics.median(
            peak_memory(python(script, "benchmark-memory", *common, "--only", name)) for _ in range(rounds)
        )
        for name in METHODS
    }
    rows: list[Row] = [("a", f"word scores, all heads, {SHOWN[name]}", peaks[name], "MB") for name in METHODS]
    for name in METHODS:
        if name != BASE:
            rows.append(("a", f"{SHOWN[name]}, above {SHOWN[BASE]}", peaks[name] - peaks[BASE], "MB"))
    for how, options in WORKERS.items():
        found = [
            statistics.median(whole(model, source, target, n, options) for _ in range(rounds)) for n in whole_lines
        ]
        rows += [
            ("b", f"extract-align, {n:,} lines, {how}", peak, "MB") for n, peak in zip(whole_lines, found, strict=True)
        ]
        if len(found) > 1:
            ends = f"{whole_lines[-1]:,} lines / {whole_lines[0]:,} lines"
            rows.append(("b", f"{ends}, {how}", found[-1] / found[0], "x"))
    arguments = ["-s", Path(source).name, "-t", Path(target).name, "--lines", lines, "--rounds", rounds]
    arguments += ["--whole-lines", *whole_lines]
    about = f"{load(model, device='cpu').forward.recorder.name}, layer:{LAYER}, peak resident memory"
    write_rows(rows, output / "benchmark_memory.tsv", *arguments, about=about)
