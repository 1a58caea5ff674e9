"""What does it cost to record all attention of a BERT-like encoder? eval/results/benchmark_encoder.tsv.

    .venv/bin/python eval/run.py benchmark-encoder -s TEXT -m FOLDER [--lines 400]

transformers' own forward pass, with its usual fused attention and with the plain one that shows weights, and the latter
with all layers and heads recorded with their norms: all in turn on the same batches of 32 sentences of like length.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import torch
from timing import in_turn, ratio, write_rows

from align.analysis.models.encoder import load_encoder
from align.analysis.models.pretrained import load_module
from align.core.text import split_words
from align.io.reader import open_lines, read_lines

SENTENCES = 32
"""In a batch."""


def run(source: str, model: Path, lines: int, rounds: int, threads: int, output: Path) -> None:
    """Measure, print it, write it."""
    torch.set_num_threads(threads)
    recorder, (fused, tokenizer) = load_encoder(model), load_module(model)
    fused.set_attn_implementation("sdpa")  # type: ignore[operator]
    with open_lines(source) as stream:
        sentences = [list(split_words(line)) for line in islice(read_lines(stream, source), lines)]
    sentences = sorted(filter(None, sentences), key=len)
    data: list[Any] = [
        tokenizer(
            sentences[n : n + SENTENCES],
            is_split_into_words=True,
            padding=True,
            truncation=True,
            return_token_type_ids=True,
            return_tensors="pt",
        )
        for n in range(0, len(sentences), SENTENCES)
    ]

    def plain(module: Any, batch: Any) -> object:
        named = {name: batch[name] for name in tokenizer.model_input_names}
        with torch.inference_mode():
            return module(**named)

    ways = {
        "fused": lambda batch: plain(fused, batch),
        "plain": lambda batch: plain(recorder.model, batch),
        "recorded": lambda batch: recorder.record(batch.input_ids, batch.attention_mask > 0, batch.token_type_ids),
    }
    in_turn(ways, data[:2], 1)  # warm up
    seconds = in_turn(ways, data, rounds)
    rows = [
        ("a", f"all attention recorded with norms / the forward pass with {what}", ratio(seconds, "recorded", way), "x")
        for way, what in (("fused", "torch's fused attention"), ("plain", "attention that shows weights"))
    ]
    arguments = ["-s", Path(source).name, "-m", model.name, "--lines", lines, "--rounds", rounds]
    write_rows(rows, output / "benchmark_encoder.tsv", *arguments, "--threads", threads, about=recorder.name)
