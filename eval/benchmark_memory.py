"""What does extraction cost in memory? Peaks of processes of their own: eval/results/benchmark_memory.tsv.

    .venv/bin/python eval/run.py benchmark-memory -s SOURCE -t TARGET [--lines 2000]

Norms by Gram matrices and by vectors as the original code forms them, beside attention weights, which are what the
model itself needs; and extract-align over texts of different length.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from programs import first_lines
from timing import Row, batches, naive_word_scores, read, word_scores, write_rows

from align import load
from align.backends.base import Recorder
from align.children import module, python
from align.types import Cell, Pieces

LAYER = 1

METHODS: dict[str, Callable[[Recorder], Callable[[list[Pieces]], object]]] = {
    "weight": lambda recorder: word_scores(recorder, "weight", Cell(LAYER, "all")),
    "gram": lambda recorder: word_scores(recorder, "norm", Cell(LAYER, "all")),
    "naive": lambda recorder: naive_word_scores(recorder, LAYER),
}
"""Ways to score words by all heads of a layer."""

BASE = "weight"
SHOWN = {"weight": "attention weights", "gram": "norms, Gram matrices", "naive": "norms, naive vectors"}


def peak_memory(command: list[str]) -> float:
    """Peak resident memory of a command in MB.

    A process begins with the peak of the one that started it, so a small one stands in between.
    """
    script = "import resource,subprocess,sys; subprocess.run(sys.argv[1:],check=True,stdout=subprocess.DEVNULL);"
    script += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    result = subprocess.run(python(script, *command), check=True, stdout=subprocess.PIPE, text=True)
    return int(result.stdout) / 1024


def score(method: str, model: str, source: str, target: str, lines: int) -> None:
    """Score a text with one method: what is measured.

    Raises:
        ValueError: there is no such method.
    """
    if method not in METHODS:
        raise ValueError(f"the method is one of {', '.join(METHODS)}; not {method!r}")
    aligner = load(model, device="cpu")
    way = METHODS[method](aligner.recorder)
    for batch in batches(aligner, read(source, target, lines)):
        way(batch)


def whole(model: str, source: str, target: str, lines: int) -> float:
    """Peak memory of extract-align over the first lines of the files, in MB."""
    with tempfile.TemporaryDirectory() as folder:
        parts = first_lines(source, target, lines, Path(folder))
        command = module("align.cli.extract", "-q", "-m", model, "--bad-lines", "blank", "-o", "/dev/null")
        return peak_memory([*command, "-s", str(parts[0]), "-t", str(parts[1])])


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
    found = [statistics.median(whole(model, source, target, n) for _ in range(rounds)) for n in whole_lines]
    rows += [("b", f"extract-align, {n:,} lines", peak, "MB") for n, peak in zip(whole_lines, found, strict=True)]
    if len(found) > 1:
        rows.append(("b", f"{whole_lines[-1]:,} lines / {whole_lines[0]:,} lines", found[-1] / found[0], "x"))
    arguments = ["-s", Path(source).name, "-t", Path(target).name, "--lines", lines, "--rounds", rounds]
    arguments += ["--whole-lines", *whole_lines]
    about = f"{load(model, device='cpu').recorder.name}, layer:{LAYER}, peak resident memory"
    write_rows(rows, output / "benchmark_memory.tsv", *arguments, about=about)
