"""A Marian model in the format of OPUS-MT, trained here with transformers: how its alignments get better with its loss.

    .venv/bin/python eval/run.py marian --data DIR --folder FOLDER [--beside MODEL ...]

It is small, and trained for some minutes on the text of the bundled models, of which it has other pieces: those of two
sentencepiece vocabularies. Models kept on the way are in FOLDER/UPDATES; training goes on where it was stopped. Each is
read by `align.load`, as any such folder, and so are fairseq models to put beside, such as those with like losses, and
the experiment's first one.

Written are error rates beside losses, those of every layer, head and position of the last model, and how many pairs of
the validation text have the same pieces and links by transformers' own tokenizer and `output_attentions=True`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from common import (
    Text,
    chosen,
    find_experiment,
    read_config,
    read_text,
    read_train,
    score_columns,
    score_row,
    write_table,
)
from marian_checks import same_links, same_pieces
from marian_training import Recipe, Vocabulary, loss_of, train, write_vocabulary
from quality import loss_per_word
from transformers.utils import logging as hf_logging

from align import Aligner, Pair, load
from align.evaluation.metrics import count_all
from align.evaluation.sweep import sweep
from align.evaluation.swept import SCORES, Sweep
from align.evaluation.tables import Column, Value, percent
from align.io.signature import signature
from align.models.model_toml import ModelOptions
from align.training.corpus import read_pairs
from align.training.run import Machine
from align.view.sweep_tables import cell_table

VOCABULARY_PAIRS = 50_000
PIECES_CHECKED, LINKS_CHECKED = 500, 200

Sentences = tuple[str, str]


def plain(pair: Sentences) -> Sentences:
    """A pair as test pairs are found: lower case, without blanks."""
    source, target = ("".join(side.lower().split()) for side in pair)
    return source, target


def read_sentences(about: dict[str, Any], data: Path, text: Text) -> Iterator[Sentences]:
    """The training text as it is, without pairs of the gold."""
    tested = {plain((" ".join(pair.source), " ".join(pair.target))) for pair in text.pairs}
    for pair in read_train(about, data, tokenize=False):
        sentences = " ".join(pair.source), " ".join(pair.target)
        if not pair.blank and plain(sentences) not in tested:
            yield sentences


def row_of(aligner: Aligner, found: Sweep, text: Text) -> dict[str, Value]:
    """Error rates of the default, read where lexical consistency says, and of the best cell of each score."""
    places = chosen(aligner, text.pairs).place.cells().items()
    row: dict[str, Value] = {"read": "; ".join(f"{position} {cell}" for position, cell in places)}
    row |= {score: percent(rates.min()) for score, rates in zip(SCORES, found.rates(), strict=True)}
    links = [alignment.links for alignment in aligner(text.pairs)]
    return row | score_row(count_all(links, text.gold), text, None)


def prepare_and_train(folder: Path, minutes: float, about: dict[str, Any], data: Path, text: Text) -> None:
    """Vocabularies, unless they are there, and models."""
    pairs = list(read_sentences(about, data, text))
    if not (folder / "vocab.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_vocabulary(folder, pairs[:VOCABULARY_PAIRS], about["languages"], Recipe.pieces)
    train(folder, Recipe(minutes), list(map(Vocabulary(folder), pairs)))


def read_valid(about: dict[str, Any], data: Path) -> list[Pair]:
    """The validation text, without blank sides."""
    sides = read_pairs(*(data / name for name in about["valid"]))
    return [Pair(source, target, n) for n, (source, target, _) in enumerate(sides, 1) if source and target]


def checks(folder: Path, aligner: Aligner, valid: list[Pair]) -> Iterator[dict[str, Value]]:
    """How many pairs are the same in transformers."""
    for what, same, most in (("pieces", same_pieces, PIECES_CHECKED), ("links", same_links, LINKS_CHECKED)):
        pairs = valid[:most]
        yield {"what": what, "pairs": len(pairs), "same": same(folder, aligner, pairs)}


def run(
    data: Path, config: Path, experiment: str, folder: Path, minutes: float, beside: list[str], output: Path
) -> None:
    """Train, align, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    hf_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    trained = settings["train"][about["train"][0]]
    text = read_text(settings, about["gold"], data)
    prepare_and_train(folder, minutes, trained, data, text)
    valid = read_valid(trained, data)
    words = sum(len(pair.target) for pair in valid)
    rows: list[dict[str, Value]] = []
    for path in sorted(path.parent for path in folder.glob("*/model.safetensors")):
        aligner = load(path, device="cpu")
        found = sweep(aligner, text.pairs, text.gold)
        row: dict[str, Value] = {"model": f"{int(path.name):,} updates", "loss": loss_of(path, valid) / words}
        rows.append(row | row_of(aligner, found, text))
    first = about["models"][0]
    others = {model: load(model, device="cpu") for model in (*beside, str(data / first) if "/" in first else first)}
    options = ModelOptions(*trained["languages"])
    prefix, machine = (data / trained["valid"][0]).with_suffix(""), Machine("cpu", torch.get_num_threads())
    for name, other in others.items():
        row = {"model": Path(name).name, "loss": loss_per_word(name, prefix, options, machine)}
        rows.append(row | row_of(other, sweep(other, text.pairs, text.gold), text))
    columns = [Column("model", "model"), Column("loss", "nats per word", 3), Column("read", "read at", None, True)]
    columns += [Column(score, f"AER {score}, best cell", 1) for score in SCORES]
    parts: dict[str, str | list[str]] = {
        "model": [aligner.forward.recorder.name, *(other.forward.recorder.name for other in others.values())],
        "gold": "+".join(text.names),
        "minutes": f"{minutes:g}",
    }
    sign = signature(parts, "marian", {"transformers": transformers.__version__, "torch": torch.__version__})
    write_table([*columns, *score_columns(text)], rows, sign, output / "marian.tsv")
    write_table(*cell_table(found, complete=True, named=False), sign, output / "marian.cells.tsv")
    same = list(checks(path, aligner, valid))
    write_table([Column(key, key) for key in same[0]], same, sign, output / "marian.checks.tsv")
