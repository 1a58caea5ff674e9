"""What does it cost to record all attention with its norms? eval/results/benchmark_recording.tsv.

    .venv/bin/python eval/run.py benchmark-recording -s SOURCE -t TARGET [--lines 400]

Our own forward pass without recording, the same with all layers and heads of encoder, decoder and cross-attention
recorded with their norms, and fairseq's full forward pass, which has the projection onto the vocabulary besides: all in
turn on the same batches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from timing import batches, full_forward, in_turn, ratio, read, write_rows

from align import load
from align.analysis.recording import Inside
from align.core.merging import collate
from align.core.types import PARTS, Part, Pieces


def run(source: str, target: str, model: str, lines: int, rounds: int, threads: int, output: Path) -> None:
    """Measure, print it, write it."""
    torch.set_num_threads(threads)
    aligner = load(model, device="cpu")
    recorder: Any = aligner.forward.recorder
    inside = Inside(recorder.transformer)

    def record(batch: list[Pieces], parts: tuple[Part, ...]) -> None:
        source, steps = recorder.padded(collate(batch, recorder.pad))
        list(inside.record(source, steps, parts))

    ways = {
        "plain": lambda batch: record(batch, ()),
        "recorded": lambda batch: record(batch, PARTS),
        "full": full_forward(recorder),
    }
    data = batches(aligner, read(source, target, lines))
    in_turn(ways, data[:2], 1)  # warm up
    seconds = in_turn(ways, data, rounds)
    rows = [
        ("a", f"all attention recorded with norms / {what}", ratio(seconds, "recorded", way), "x")
        for way, what in (("plain", "the same pass without"), ("full", "fairseq's full forward pass"))
    ]
    arguments = ["-s", Path(source).name, "-t", Path(target).name, "--lines", lines, "--rounds", rounds]
    write_rows(rows, output / "benchmark_recording.tsv", *arguments, "--threads", threads, about=recorder.name)
