"""How fast does training go? eval/results/benchmark_training.tsv.

    .venv/bin/python eval/run.py benchmark-training BIN -s de -t en

fairseq-train as it comes, in float32, and with the plugin, one after the other and again, on the same binary text BIN
(what fairseq-preprocess wrote; scripts/train_model leaves it in `bin`) and the same cores: the same architecture,
batches and seed, from the same start.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import Row, write_rows

from align.io.process import module
from align.training.plugin import FOLDER
from align.training.run import read_point

SIDES = [
    f"--{side}-{name}={size}"
    for side in ("encoder", "decoder")
    for name, size in (("layers", 3), ("embed-dim", 256), ("ffn-embed-dim", 1024), ("attention-heads", 4))
]
SHAPE = ["--arch", "transformer_iwslt_de_en", *SIDES, "--share-decoder-input-output-embed", "--dropout", "0.1"]
"""The bundled models' shape in fairseq's own words."""

PLUGIN = ["--user-dir", FOLDER, "--task", "translation_align"]
BLOCKWISE = ["--criterion", "blockwise_label_smoothed_cross_entropy"]
WAYS: dict[str, list[str]] = {
    "fairseq-train, float32": ["--criterion", "label_smoothed_cross_entropy"],
    "with the plugin, float32": [*PLUGIN, *BLOCKWISE],
    "with the plugin, bfloat16": [*PLUGIN, *BLOCKWISE, "--cpu-bf16"],
}
STOCK = next(iter(WAYS))


def speed(binary: Path, languages: tuple[str, str], way: list[str], updates: int, threads: int) -> float:
    """Target pieces per second, after the first fifth of the updates: medians of fairseq's own figures.

    Raises:
        ChildProcessError: fairseq failed.
    """
    every = max(1, updates // 10)
    command = module(
        "align.fairseq_cli", "train", binary, "-s", languages[0], "-t", languages[1],
        *SHAPE, *way, "--label-smoothing", 0.1, "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)",
        "--lr", 0.001, "--clip-norm", 1.0, "--lr-scheduler", "inverse_sqrt", "--warmup-updates", 500,
        "--max-tokens", 2500, "--max-update", updates, "--cpu", "--num-workers", 0, "--no-save",
        "--disable-validation", "--log-format", "json", "--log-interval", every, "--seed", 1,
    )  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    points = [point for line in run.stdout.split("\n") if (point := read_point(line))]
    speeds = [point.speed for point in points if point.speed and point.updates > updates // 5]
    if run.returncode or not speeds:
        raise ChildProcessError(run.stderr.strip().split("\n")[-1])
    return statistics.median(speeds)


def run(
    binary: Path, source_lang: str, target_lang: str, updates: int, rounds: int, threads: int, output: Path
) -> None:
    """Measure, print, write."""
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, way in WAYS.items():
            found[name].append(speed(binary.resolve(), (source_lang, target_lang), way, updates, threads))
            print(f"{name}: {found[name][-1]:,.0f} target pieces/s", file=sys.stderr)
    rows: list[Row] = [("a", name, statistics.median(speeds), "target pieces/s") for name, speeds in found.items()]
    for name, speeds in found.items():
        if name != STOCK:
            ratios = [ours / stock for ours, stock in zip(speeds, found[STOCK], strict=True)]
            rows.append(("b", f"{name} / {STOCK}", statistics.median(ratios), "x"))
    arguments = ["BIN", "-s", source_lang, "-t", target_lang, "--updates", updates, "--rounds", rounds]
    write_rows(rows, output / "benchmark_training.tsv", *arguments, threads=threads)
