"""What the benchmarks share: text, batches, things timed in turn, and tables."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

import torch
from common import write_table
from programs import machine
from torch import Tensor

from align import Aligner, Pair, __version__
from align.core.backend import Recorder
from align.core.scores import Reader, collate, merge_sources, merge_targets, target_rows
from align.core.stream import chunks, cut, encode
from align.core.types import Cell, CrossAttention, Pieces, Place, Score
from align.evaluation.tables import Column, Value
from align.io.reader import open_lines, read_lines, read_parallel
from align.models.recorder import ModelRecorder

T = TypeVar("T")

Row = tuple[str, str, float, str]
"""Part of the table, what was measured, its value, its unit."""


def read(source: str, target: str, lines: int) -> list[Pair]:
    """The first pairs of two files."""
    with open_lines(source) as a, open_lines(target) as b:
        pairs = read_parallel(read_lines(a, source), read_lines(b, target), (source, target))
        return list(islice(pairs, lines))


def batches(aligner: Aligner, pairs: list[Pair]) -> list[list[Pieces]]:
    """The batches that the aligner itself would make, a buffer at a time."""
    encoded = (encode(aligner.forward.recorder, pair, "blank") for pair in pairs)
    return [batch for chunk in chunks(encoded, aligner.buffer) for _, batch in cut(chunk, aligner.batch_tokens)]


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


def word_scores(recorder: Recorder, score: Score, cell: Cell) -> Callable[[list[Pieces]], object]:
    """Everything from a batch to word scores at one place of the input position, as the aligner does it."""
    reader = Reader(recorder, score)
    return lambda batch: reader.scores(batch, Place(input=cell))


def naive_word_scores(recorder: Recorder, layer: int) -> Callable[[list[Pieces]], object]:
    """Norms the original way, with every weighted vector formed: all heads of a layer, up to word scores."""

    @torch.inference_mode()
    def extract(pieces: list[Pieces]) -> object:
        batch = collate(pieces, recorder.pad)
        scores = [target_rows(naive_norms(found), "input").unsqueeze(1) for found in recorder.record(batch, [layer])]
        by_source = [merge_sources(s, batch.source_words, batch.words[0]) for s in scores]
        return [merge_targets(s, batch.target_words, batch.words[1]) for s in by_source]

    return extract


def naive_norms(attention: CrossAttention) -> Tensor:
    """Every weighted vector, summed over heads, then its norm `[B, T+1, S]`."""
    transformed = torch.matmul(attention.values, attention.out_proj)  # [B, H, S, D]
    weighted = attention.weights.unsqueeze(-1) * transformed.unsqueeze(2)  # [B, H, T+1, S, D]
    norms: Tensor = weighted.sum(1).norm(dim=-1)
    return norms


def full_forward(recorder: Recorder) -> Callable[[list[Pieces]], object]:
    """The model's own teacher-forced forward pass: all layers and the vocabulary.

    Raises:
        ValueError: no fairseq model.
    """
    if not (isinstance(recorder, ModelRecorder) and recorder.backend == "fairseq"):
        raise ValueError(f"{recorder.name} is no fairseq model, whose forward pass this can run")
    model, pad = recorder.own_model(), recorder.pad
    eos = recorder.encode(Pair(("x",), ("x",), 1)).source[-1]

    @torch.inference_mode()
    def forward(pieces: list[Pieces]) -> object:
        batch = collate(pieces, pad)
        steps = torch.nn.functional.pad(batch.target, (1, 0), value=eos)
        return model(batch.source, (batch.source != pad).sum(1), steps)

    return forward


COLUMNS = [Column(key, key) for key in ("part", "what", "value", "unit")]


def write_rows(rows: list[Row], path: Path, *arguments: object, about: str = "") -> None:
    """Print the rows of a benchmark, and write them as TSV.

    Args:
        rows: in any order; sorted by part.
        path: of the results; its name is the command's.
        arguments: of the command.
        about: the models.
    """
    command = " ".join(["python eval/run.py", path.stem.replace("_", "-"), *map(str, arguments)])
    names = ", ".join([*([about] if about else []), f"v:{__version__}"])
    sign = f"{command}; {names}; {machine(torch.get_num_threads())}; medians"
    table: list[dict[str, Value]] = [
        {"part": part, "what": what, "value": f"{value:.4g}", "unit": unit}
        for part, what, value, unit in sorted(rows, key=itemgetter(0))
    ]
    write_table(COLUMNS, table, sign, path)
