"""What the benchmarks share: text, batches, things timed in turn, and tables."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import torch
from tabulate import tabulate

from align import Pair
from align.attention.merging import collate
from align.batching import batches
from align.text.lines import open_lines, read_lines, read_parallel
from align.types import Batch

T = TypeVar("T")

Row = tuple[str, str, float, str]
"""Part of the table, what was measured, its value, its unit."""


def read(source: str, target: str, lines: int) -> list[Pair]:
    """The first pairs of two files."""
    with open_lines(source) as a, open_lines(target) as b:
        pairs = read_parallel(read_lines(a, source), read_lines(b, target), (source, target))
        return list(islice(pairs, lines))


def cut(aligner: Any, pairs: list[Pair]) -> list[Batch]:
    """The batches that the aligner itself would make, a buffer at a time."""
    found = []
    for start in range(0, len(pairs), aligner.buffer):
        pieces = [aligner.recorder.encode(pair) for pair in pairs[start : start + aligner.buffer] if not pair.blank]
        lengths = [(len(p.source), len(p.target)) for p in pieces]
        for numbers in batches(lengths, aligner.batch_tokens):
            found.append(collate([pieces[n] for n in numbers], aligner.recorder.pad))
    return found


def in_turn(ways: dict[str, Callable[[T], object]], data: list[T], rounds: int) -> dict[str, list[float]]:
    """Seconds of each way for all parts of the data, a figure a round; each part goes through all ways in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for round_number in range(rounds):
        spent = dict.fromkeys(names, 0.0)
        for number, part in enumerate(data):
            turn = (number + round_number) % len(names)
            for name in names[turn:] + names[:turn]:
                start = time.perf_counter()
                ways[name](part)
                spent[name] += time.perf_counter() - start
        for name in names:
            seconds[name].append(spent[name])
    return seconds


def ratio(seconds: dict[str, list[float]], above: str, below: str) -> float:
    """Median over rounds of one way's time in units of another's."""
    return statistics.median(a / b for a, b in zip(seconds[above], seconds[below], strict=True))


def full_forward(aligner: Any) -> Callable[[Batch], object]:
    """The model's own teacher-forced forward pass: all layers and the vocabulary."""
    model, pad, eos = aligner.recorder.model, aligner.recorder.pad, aligner.recorder._eos

    @torch.inference_mode()
    def forward(batch: Batch) -> object:
        steps = torch.nn.functional.pad(batch.target, (1, 0), value=eos)
        return model(batch.source, (batch.source != pad).sum(1), steps)

    return forward


def report(rows: list[Row], about: str, output: Path) -> None:
    """Print the table and write it."""
    print(
        tabulate(
            [(k, what, f"{value:,.3f}" if unit == "x" else f"{value:,.1f}", unit) for k, what, value, unit in rows]
        )
    )
    print(about)
    output.parent.mkdir(exist_ok=True)
    with output.open("w", encoding="utf-8") as out:
        print(f"# {about}", file=out)
        print("part\twhat\tvalue\tunit", file=out)
        for part, what, value, unit in rows:
            print(part, what, f"{value:.4g}", unit, sep="\t", file=out)
