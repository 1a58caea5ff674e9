"""How fast is extraction, and what does it cost? Prints a table and writes it to eval/results/benchmark.tsv.

    .venv/bin/python eval/benchmark.py -s SOURCE -t TARGET [--lines 20000]

Times are ratios of things done in turn on the same batches in one process, medians over rounds, so that a
machine that is busy now and then does not decide. Peak memory is that of processes of their own.
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from benchmark_common import Row, cut, full_forward, in_turn, ratio, read, report

from align import Aligner, Pair, Settings, TwoWayAligner, __version__, load
from align.attention.merging import merge_words
from align.attention.scores import target_rows
from align.children import module, python
from align.links.formats import FORMATS
from align.memory import keep_freed_memory
from align.signature import describe, signature
from align.text.lines import open_lines, read_lines, read_parallel
from align.types import Batch, Cell, CrossAttention

LAYER, HEAD = 1, 1
"""What lexical consistency takes for the bundled model."""

CHUNK = 1000
"""Pairs that go through one direction and both in turn."""

HEADS = ("all heads", "one head")
STAGES = ("text", "model", "extraction maths", "output")


def extraction(aligner: Any, score: str, cell: Cell) -> Callable[[Batch], object]:
    """Everything from a batch to word scores, as the aligner does it."""
    settings = Settings(score, "input", cell.layer, cell.head or "all")  # type: ignore[arg-type]

    def extract(batch: Batch) -> object:
        aligner.settings = settings
        return [scores for _, _, scores in aligner._scores(batch, {"input": [cell]})]

    return extract


def naive_scores(attention: CrossAttention) -> torch.Tensor:
    """The original way: every weighted vector, summed over heads, then its norm `[B, T+1, S]`."""
    transformed = torch.matmul(attention.values, attention.out_proj)  # [B, H, S, D]
    weighted = attention.weights.unsqueeze(-1) * transformed.unsqueeze(2)  # [B, H, T+1, S, D]
    norms: torch.Tensor = weighted.sum(1).norm(dim=-1)
    return norms


def naive_extraction(aligner: Any) -> Callable[[Batch], object]:
    """The original way on the same recording, up to word scores."""

    @torch.inference_mode()
    def extract(batch: Batch) -> object:
        scores = [target_rows(naive_scores(a), "input").unsqueeze(1) for a in aligner.recorder.record(batch, [LAYER])]
        return [merge_words(s, batch.source_words, batch.target_words, batch.words) for s in scores]

    return extract


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

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose time is counted."""

        def timed(*args: Any) -> Any:
            with self.stage(name):
                return function(*args)

        return timed


def shares(model: str, source: str, target: str, lines: int) -> dict[str, float]:
    """Share of wall time by stage, from files to Pharaoh lines: all defaults, calibration included, caches cold."""
    aligner = load(model, device="cpu")
    recorder: Any = aligner.recorder
    watch = Stopwatch()
    record = recorder.record
    recorder.encode = watch.wrap("text", recorder.encode)
    recorder.record = watch.wrap("model", lambda batch, layers: iter(list(record(batch, layers))))
    out = io.BytesIO()
    count = 0
    start = time.perf_counter()
    with open_lines(source) as a, open_lines(target) as b:
        pairs = islice(read_parallel(read_lines(a, source), read_lines(b, target), (source, target)), lines)
        timed_pairs = iter(watch.wrap("text", lambda: next(pairs, None)), None)
        for alignment in aligner(timed_pairs):
            with watch.stage("output"):
                out.write(FORMATS["pharaoh"](alignment, False).encode() + b"\n")
            count += 1
    total = time.perf_counter() - start
    found = {stage: watch.spent[stage] / total for stage in ("text", "model", "output")}
    return {**found, "extraction maths": 1 - sum(found.values()), "lines/s": count / total}


def peak_memory(command: list[str]) -> float:
    """Peak resident memory of a command in MB."""
    script = "import resource,subprocess,sys; subprocess.run(sys.argv[1:],check=True);"
    script += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    result = subprocess.run(python(script, *command), check=True, capture_output=True, text=True)
    return int(result.stdout.split()[-1]) / 1024


def method_memory(model: str, method: str, source: str, target: str, lines: int) -> None:
    """Print by how much one way of scoring raises this process's peak memory; run in a process of its own."""
    aligner = load(model, layer=LAYER, head="all", device="cpu")
    data = cut(aligner, read(source, target, lines))
    plain = extraction(aligner, "weight", Cell(LAYER, "all"))
    ours = extraction(aligner, "norm", Cell(LAYER, "all"))
    for batch in data:
        plain(batch)  # the model's own peak
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    way = {"naive": naive_extraction(aligner), "gram": ours}[method]
    for batch in data:
        way(batch)
    print(json.dumps((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024))


def flat_memory(model: str, source: str, target: str, lines: int) -> float:
    """Peak memory of `extract-align` over the first lines of the files, in MB."""
    with tempfile.TemporaryDirectory() as folder:
        names: list[str] = []
        for name in (source, target):
            path = Path(folder, f"part{len(names)}")
            with open_lines(name) as whole, path.open("wb") as part:
                part.writelines(islice(whole, lines))
            names.append(str(path))
        command = module("align.cli.extract", "-q", "-m", model, "--too-long", "blank", "-o", "/dev/null")
        return peak_memory([*command, "-s", names[0], "-t", names[1]])


def times(aligner: Any, args: argparse.Namespace) -> list[Row]:
    """Parts a, b and d: ways to score, and the model's own forward pass, in turn on the same batches."""
    everything, one_head = Cell(LAYER, "all"), Cell(LAYER, HEAD)
    data = cut(aligner, read(args.source, args.target, args.lines))
    ways = {
        "weight, all heads": extraction(aligner, "weight", everything),
        "norm, all heads": extraction(aligner, "norm", everything),
        "weight, one head": extraction(aligner, "weight", one_head),
        "norm, one head": extraction(aligner, "norm", one_head),
        "full": full_forward(aligner),
    }
    in_turn(ways, data[:20], 1)  # warm up
    seconds = in_turn(ways, data, args.rounds)
    few = data[:: max(1, args.lines // args.naive_lines)]
    naive = in_turn({"gram": ways["norm, all heads"], "naive": naive_extraction(aligner)}, few, args.rounds)
    return [
        *(("a", f"word scores, norm / weight, {h}", ratio(seconds, f"norm, {h}", f"weight, {h}"), "x") for h in HEADS),
        *(("b", f"norm scores / full forward pass, {h}", ratio(seconds, f"norm, {h}", "full"), "x") for h in HEADS),
        ("d", "norm scores, naive vectors / Gram matrices, all heads", ratio(naive, "naive", "gram"), "x"),
    ]


def both_ways(args: argparse.Namespace) -> list[Row]:
    """Part f: two models, or both positions, against the first model alone, from words to links, else all defaults."""
    forward, reverse = (load(model, device="cpu") for model in (args.model, args.reverse_model))
    positions = Aligner(forward.recorder, Settings(position="both"))
    pairs = read(args.source, args.target, args.lines)
    data = [pairs[start : start + CHUNK] for start in range(0, len(pairs), CHUNK)]
    both = TwoWayAligner(forward, reverse)
    ways: dict[str, Callable[[list[Pair]], object]] = {
        "one": lambda some: list(forward(some)),
        "both directions, symmetrised": lambda some: list(both(some)),
        "both positions": lambda some: list(positions(some)),
    }
    in_turn(ways, data[:1], 1)  # warm up, and choose layers and heads
    seconds = in_turn(ways, data, args.rounds)
    return [("f", f"{name} / one, from words to links", ratio(seconds, name, "one"), "x") for name in [*ways][1:]]


def memory(args: argparse.Namespace) -> list[Row]:
    """Parts d and e: peak memory, each in a process of its own."""
    rows: list[Row] = []
    for method in ("gram", "naive"):
        command = [sys.executable, __file__, "-s", args.source, "-t", args.target, "-m", args.model]
        command += ["--naive-lines", str(args.naive_lines), "--method-memory", method]
        megabytes = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        rows.append(("d", f"peak memory above that of weight extraction, {method}, all heads", megabytes, "MB"))
    peaks = [(n, flat_memory(args.model, args.source, args.target, n)) for n in args.memory_lines]
    rows += [("e", f"peak resident memory of extract-align, {n:,} lines", peak, "MB") for n, peak in peaks]
    if len(peaks) > 1:
        rows.append(("e", f"{peaks[-1][0]:,} lines / {peaks[0][0]:,} lines", peaks[-1][1] / peaks[0][1], "x"))
    return rows


def main() -> None:
    """Measure all, print it, write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-s", "--source", required=True)
    parser.add_argument("-t", "--target", required=True)
    parser.add_argument("-m", "--model", default="de-en")
    parser.add_argument("--reverse-model", default="en-de")
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--naive-lines", type=int, default=2_000, help="for the naive method, which is slow")
    parser.add_argument("--memory-lines", type=int, nargs="*", default=[20_000, 200_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--method-memory", choices=("naive", "gram"), help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "results" / "benchmark.tsv")
    args = parser.parse_args()
    keep_freed_memory()
    if args.method_memory:
        method_memory(args.model, args.method_memory, args.source, args.target, args.naive_lines)
        return
    aligner: Any = load(args.model, layer=LAYER, head=HEAD, device="cpu")
    sign = signature(describe(aligner.recorder.name, aligner.settings, aligner.cell, __version__, "float32"))
    rows = [*times(aligner, args), *both_ways(args)]
    runs = [shares(args.model, args.source, args.target, args.lines) for _ in range(args.rounds)]
    stage = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    rows += [("c", f"share of wall time, {name}", 100 * stage[name], "%") for name in STAGES]
    rows += [("c", "whole pipeline", stage["lines/s"], "lines/s"), *memory(args)]
    about = (
        f"python eval/benchmark.py -s {Path(args.source).name} -t {Path(args.target).name} --lines {args.lines} "
        f"--rounds {args.rounds}; {sign}; Python {platform.python_version()}, torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads; medians"
    )
    report(sorted(rows, key=itemgetter(0)), about, args.output)


if __name__ == "__main__":
    main()
