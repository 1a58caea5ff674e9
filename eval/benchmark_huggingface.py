"""Extraction from Hugging Face models beside transformers' forward pass: eval/results/benchmark_huggingface.tsv.

    .venv/bin/python eval/run.py benchmark-huggingface -s SOURCE -t TARGET [--lines 100] [--rounds 3]

Models of real shapes with random weights are made and saved by transformers, and loaded by this package. Sentences cut
into the bundled model's pieces go through both in the same batches, in turn: through transformers' module with the
translation given, up to the scores of the vocabulary and without a cache, and from the batch to links by this package,
of all heads together. Those are read where they are by default, below which the other layers are left out, and at the
last layer alone, where none is. The base of ratios is the faster of transformers' own attention and torch's. How much
of it is the scores of the vocabulary, of which extraction needs none, is said beside it.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from common import chosen
from timing import Row, batches, in_turn, ratio, read, write_rows
from torch import Tensor

from align import Aligner, Pair, load
from align.core.extraction import Reader
from align.core.merging import PAD, collate
from align.core.types import Cell, Dtype, Pieces, Place, Score
from align.training.to_hugging_face import VOCABULARIES, convert

TEXT_MODEL = "de-en"
"""Whose vocabularies and text processing the models have."""

LANGUAGES = ("__de__", "__en__")
"""The languages' pieces in a model of many."""

DTYPES: tuple[Dtype, ...] = ("float32", "int8")
SCORES: tuple[Score, ...] = ("norm", "weight")
ATTENTION = ("eager", "sdpa")
"""transformers' names of its own attention and of torch's."""


class Shape(NamedTuple):
    """A kind of model, and its sizes: of both sides alike."""

    kind: str
    start: tuple[str, ...]
    vocabulary: int
    layers: int
    heads: int
    width: int
    hidden: int


SHAPES = {
    "marian": Shape("marian", ("<pad>",), 58_101, layers=6, heads=8, width=512, hidden=2048),
    "nllb": Shape("m2m_100", ("</s>", LANGUAGES[1]), 256_206, layers=12, heads=16, width=1024, hidden=4096),
}
"""OPUS-MT's models, and NLLB-200-distilled-600M; `start` is what the decoder reads before the translation."""


def save_model(shape: Shape, folder: Path) -> tuple[Any, list[int]]:
    """Save a model with random weights; also transformers' module, and the ids that its decoder begins with."""
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    convert(TEXT_MODEL, folder)  # for the text; all else is written over
    known: dict[str, int] = {}
    for name in VOCABULARIES:
        known = json.loads((folder / name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps(known), encoding="utf-8")
    if shape.kind == "m2m_100":
        added = {language: len(known) + n for n, language in enumerate(LANGUAGES)}
        (folder / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")
        languages = {"source_lang": "de", "target_lang": "en"}
        (folder / "tokenizer_config.json").write_text(json.dumps(languages), encoding="utf-8")
        known |= added
    start = [known[piece] for piece in shape.start]
    sizes = {"layers": shape.layers, "attention_heads": shape.heads, "ffn_dim": shape.hidden}
    both = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()}
    ids = {"pad_token_id": known["<pad>"], "eos_token_id": known["</s>"], "decoder_start_token_id": start[0]}
    settings = {"d_model": shape.width, "vocab_size": shape.vocabulary, "scale_embedding": True}
    activation = "swish" if shape.kind == "marian" else "relu"
    config = AutoConfig.for_model(shape.kind, **both, **ids, **settings, activation_function=activation)
    module: Any = AutoModelForSeq2SeqLM.from_config(config)  # type: ignore[no-untyped-call]
    module.eval().save_pretrained(folder)
    return module, start


def module_inputs(pieces: list[Pieces], pad: int, start: list[int]) -> dict[str, Tensor]:
    """A batch as transformers' modules take it."""
    batch = collate(pieces, pad)
    begins = torch.tensor([start]).expand(len(pieces), -1)
    return {
        "input_ids": batch.source,
        "attention_mask": (batch.source_words != PAD).long(),
        "decoder_input_ids": torch.cat((begins, batch.target), 1),
    }


def forward(module: Any, attention: str, pad: int, start: list[int], scores: bool = True) -> Callable[..., object]:
    """The forward pass of transformers' module, up to the scores of the vocabulary or without them."""

    @torch.inference_mode()
    def run_module(pieces: list[Pieces]) -> object:
        module.set_attn_implementation(attention)
        return (module if scores else module.model)(**module_inputs(pieces, pad, start), use_cache=False)

    return run_module


def links(aligner: Aligner, score: Score, place: Place) -> Callable[[list[Pieces]], object]:
    """From a batch to its links, as the aligner itself reads them."""
    reader = Reader(aligner.forward.recorder, score, threshold=aligner.forward.settings.threshold)
    return lambda pieces: reader.links(pieces, place)


def measure(name: str, shape: Shape, pairs: list[Pair], rounds: int) -> tuple[list[Row], str]:
    """The rows of a shape, and what the signature says of it."""
    with tempfile.TemporaryDirectory() as folder:
        module, start = save_model(shape, Path(folder))
        aligners = {
            dtype: replace(
                load(folder, device="cpu", dtype=dtype),
                forward=replace(load(folder, device="cpu", dtype=dtype).forward, calibration={}),
            )
            for dtype in DTYPES
        }
    aligner = aligners["float32"]
    usual, last = chosen(aligner, []).place, Place(input=Cell(shape.layers, "all"))
    places = {"default layers": usual, "last layer": last}
    pad = aligner.forward.recorder.pad
    ways = {attention: forward(module, attention, pad, start) for attention in ATTENTION}
    ways["without scores"] = forward(module, "sdpa", pad, start, scores=False)
    for place, dtype, score in product(places, DTYPES, SCORES):
        ways[f"{score}, {place}, {dtype}"] = links(aligners[dtype], score, places[place])
    data = batches(aligner, pairs)
    in_turn(ways, data[:1], 1)  # warm up
    seconds = in_turn(ways, data, rounds)
    base = min(ATTENTION, key=lambda attention: statistics.median(seconds[attention]))
    about = f"{name} of {shape.vocabulary} pieces ({usual}; last: {last}; base: {base})"
    return rows(name, seconds, base, list(places), sum(map(len, data))), about


def rows(name: str, seconds: dict[str, list[float]], base: str, places: list[str], pairs: int) -> list[Row]:
    """Rates of the forward pass, and ratios of extraction to it and of norms to weights."""
    found: list[Row] = [
        (name, f"forward pass, {attention}", pairs / statistics.median(seconds[attention]), "pairs/s")
        for attention in ATTENTION
    ]
    part = "forward pass without scores of the vocabulary, sdpa / forward pass"
    found.append((name, part, ratio(seconds, "without scores", base), "x"))
    for place, dtype in product(places, DTYPES):
        norm, weight = (f"{score}, {place}, {dtype}" for score in SCORES)
        found += [(name, f"links by {way} / forward pass", ratio(seconds, way, base), "x") for way in (norm, weight)]
        found.append((name, f"links by norm / by weight, {place}, {dtype}", ratio(seconds, norm, weight), "x"))
    return found


def run(
    source: str,
    target: str,
    lines: int,
    rounds: int,
    shapes: list[str],
    vocabulary: int | None,
    threads: int,
    output: Path,
) -> None:
    """Measure, print, write.

    Raises:
        ValueError: there is no such shape.
    """
    if unknown := [name for name in shapes if name not in SHAPES]:
        raise ValueError(f"shapes are {', '.join(SHAPES)}; not {unknown[0]!r}")
    torch.set_num_threads(threads)
    pairs = read(source, target, lines)
    found: list[Row] = []
    abouts = [f"transformers {version('transformers')}"]
    for name in shapes:
        shape = SHAPES[name]
        some, about = measure(
            name, shape._replace(vocabulary=min(shape.vocabulary, vocabulary or shape.vocabulary)), pairs, rounds
        )
        found += some
        abouts.append(about)
    arguments = ["-s", Path(source).name, "-t", Path(target).name, "--lines", lines, "--rounds", rounds]
    arguments += ["--shapes", *shapes, *(["--vocabulary", vocabulary] if vocabulary else [])]
    write_rows(found, output / "benchmark_huggingface.tsv", *arguments, about=", ".join(abouts))
