"""What does loading a Hugging Face model cost? CPU time and anonymous memory: eval/results/benchmark_loading.tsv.

    .venv/bin/python eval/run.py benchmark-loading [--shapes opus-mt nllb-600M] [--dtypes float32 bfloat16 int8]

Folders of published shapes, with vocabularies of the published size and random weights, are loaded as extract-align
loads them, each in a process of its own with one thread. Memory is the peak of RssAnon: what is mapped from a file is
not in it, for the kernel can drop that. It is also given as a share of the budget: 1.3 times parameters times bytes of
the dtype, plus 1 GB. A shape of 3.3 thousand million parameters needs 7 GB of disk and memory. On Linux only.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import torch
from common import write_table
from programs import machine
from torch import Tensor

from align import __version__
from align.core.types import Dtype
from align.evaluation.tables import Column, Value
from align.io.process import python

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.hub_models import HubModel, find_model

BYTES: dict[Dtype, int] = {"float32": 4, "bfloat16": 2, "int8": 1}

SPARE = 1e9
"""What a process may need beside the parameters, in bytes: Python, torch, the vocabulary."""

SCRIPT = """
import sys, threading, time, warnings
warnings.simplefilter("ignore")
from align.io.process import keep_freed_memory
keep_freed_memory()
def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024
peak = 0
def watch():
    global peak
    while True:
        peak = max(peak, anonymous())
        time.sleep(0.005)
threading.Thread(target=watch, daemon=True).start()
import torch
torch.set_num_threads(1)
from align import ModelOptions, load
folder, dtype, source, target = sys.argv[1:]
load(folder, dtype=dtype, device="cpu", options=ModelOptions(source_lang=source or None, target_lang=target or None))
print(peak, time.process_time())
"""


class Shape(NamedTuple):
    """A published model's sizes, and the files that its weights are in."""

    model: HubModel
    layers: int
    heads: int
    width: int
    hidden: int
    files: tuple[str, ...]


FILES = ("safetensors float32", "safetensors bfloat16", "pytorch_model.bin float32")

SHAPES = {
    "opus-mt": Shape(find_model("Helsinki-NLP/opus-mt-de-en"), 6, 8, 512, 2048, FILES),
    "nllb-600M": Shape(find_model("facebook/nllb-200-distilled-600M"), 12, 16, 1024, 4096, FILES),
    "nllb-3.3B": Shape(find_model("facebook/nllb-200-distilled-600M"), 24, 16, 2048, 8192, FILES[1:2]),
}


def make_weights(shape: Shape, folder: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    """Write a config.json; returns random weights, of which tied ones are there once."""
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    sizes = {"layers": shape.layers, "attention_heads": shape.heads, "ffn_dim": shape.hidden}
    both = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()}
    model = shape.model
    ids = {"vocab_size": model.rows, "d_model": shape.width}
    if model.kind == "marian":
        ids |= {"pad_token_id": model.rows - 1, "decoder_start_token_id": model.rows - 1}
    config = AutoConfig.for_model(model.kind, **{**both, **ids, **model.settings})
    config.save_pretrained(folder)
    with torch.device("meta"):
        module: Any = AutoModelForSeq2SeqLM.from_config(config)  # type: ignore[no-untyped-call]
    numbers = torch.randn(1 << 20).mul_(0.02)
    weights = {}
    for name, weight in module.named_parameters():
        if "embed_positions" not in name:
            repeated = numbers.to(dtype).repeat(-(-weight.numel() // len(numbers)))
            weights[name] = repeated[: weight.numel()].view(weight.shape).clone()
    return weights


def save_weights(weights: dict[str, Tensor], folder: Path, file: str) -> None:
    """Write weights in one of FILES, and remove others."""
    from safetensors.torch import save_file

    for old in ("model.safetensors", "pytorch_model.bin"):
        (folder / old).unlink(missing_ok=True)
    name, dtype = file.rsplit(" ", 1)
    stored = {name: weight.to(getattr(torch, dtype)) for name, weight in weights.items()}
    if name == "safetensors":
        save_file(stored, folder / "model.safetensors")
    else:
        torch.save(stored, folder / name)


def measure(folder: Path, dtype: str, model: HubModel) -> tuple[float, float]:
    """Load once in a process of its own: peak of anonymous memory in bytes, and seconds of CPU."""
    command = python(SCRIPT, str(folder), dtype, model.source or "", model.target or "")
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return float(printed[0]), float(printed[1])


def rows_of(name: str, shape: Shape, dtypes: list[Dtype], rounds: int) -> list[dict[str, Value]]:
    """All figures of a shape."""
    rows: list[dict[str, Value]] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        shape.model.text(folder, shape.model)
        only_bfloat16 = all("bfloat16" in file for file in shape.files)
        weights = make_weights(shape, folder, torch.bfloat16 if only_bfloat16 else torch.float32)
        parameters = sum(weight.numel() for weight in weights.values())
        for file in shape.files:
            save_weights(weights, folder, file)
            if file == shape.files[-1]:
                weights.clear()
            for dtype in dtypes:
                runs = [measure(folder, dtype, shape.model) for _ in range(rounds)]
                peak, seconds = (statistics.median(values) for values in zip(*runs, strict=True))
                budget = 1.3 * parameters * BYTES[dtype] + SPARE
                figures = (parameters / 1e6, file, dtype, seconds, peak / 1e6, 100 * peak / budget)
                rows.append({"model": name, **dict(zip(KEYS[1:], figures, strict=True))})
    return rows


KEYS = ("model", "millions_of_parameters", "file", "dtype", "cpu_seconds", "peak_mb", "percent_of_budget")
COLUMNS = [
    Column(key, key.replace("_", " "), digits) for key, digits in zip(KEYS, (None, 0, None, None, 1, 0, 0), strict=True)
]


def run(shapes: list[str], dtypes: list[Dtype], rounds: int, pieces: int | None, output: Path) -> None:
    """Measure, print, write.

    Raises:
        ValueError: there is no such shape.
    """
    if unknown := [name for name in shapes if name not in SHAPES]:
        raise ValueError(f"shapes are {', '.join(SHAPES)}; not {unknown[0]!r}")
    rows: list[dict[str, Value]] = []
    for name in shapes:
        shape = SHAPES[name]
        if pieces:
            shape = shape._replace(model=shape.model.with_pieces(pieces))
        rows += rows_of(name, shape, dtypes, rounds)
    more = f" --pieces {pieces}" if pieces else ""
    command = f"python eval/run.py benchmark-loading --shapes {' '.join(shapes)} --dtypes {' '.join(dtypes)}"
    sign = f"{command} --rounds {rounds}{more}; v:{__version__}; {machine(1)}; medians over rounds"
    write_table(COLUMNS, rows, sign, output / "benchmark_loading.tsv")
