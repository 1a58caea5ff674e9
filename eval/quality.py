"""How well do models translate? Validation loss and BLEU of any of them on one text, printed and written.

    .venv/bin/python eval/run.py quality PREFIX MODEL ...

The text is in PREFIX.de, PREFIX.en and so on, by the models' languages.

Losses are fairseq-validate's and translations fairseq-generate's. Models differ in their pieces, and a loss per piece
is not comparable between them: that per word of the text is. BLEU is of Moses tokens in the model's case.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from common import write_table

from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.models.folder import find_model
from align.models.model_toml import ModelOptions
from align.training.card import BEAM, measure
from align.training.prepare import binarise, read_pairs, write_pieces
from align.training.run import Machine

COLUMNS = [
    Column("model", "model"),
    Column("per_piece", "nats per piece", 3),
    Column("per_word", "nats per word", 3),
    Column("bleu", "BLEU", 1),
]


@dataclass(frozen=True)
class Prepared:
    """A text as a model reads it, in a temporary folder.

    Attributes:
        work: the folder, as `align.training.card` takes it.
        checkpoint: the model's.
        languages: source and target.
        subwords: what the target's pieces are.
    """

    work: Path
    checkpoint: Path
    languages: tuple[str, str]
    subwords: str


@contextmanager
def prepared(model: str, prefix: Path, options: ModelOptions) -> Iterator[Prepared]:
    """A text in a model's pieces.

    Raises:
        ValueError: the model or the text cannot be used.
    """
    said = find_model(model, ModelOptions()).options
    given = {name: value for name, value in vars(options).items() if getattr(said, name) is None}
    folder = find_model(model, ModelOptions(**given))
    source, target = folder.options.source_lang, folder.options.target_lang
    if not (source and target):
        raise ValueError(f"{model}: does not say its languages; give --source-lang and --target-lang")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        pairs = [pair for pair in read_pairs(*(Path(f"{prefix}.{lang}") for lang in (source, target))) if all(pair[:2])]
        rules = [folder.rules(language, None) for language in (source, target)]
        for side, rule in enumerate(rules):
            text = "".join(" ".join(pair[side]) + "\n" for pair in pairs)
            (work / f"valid.{rule.language}").write_text(text, encoding="utf-8", newline="\n")
            write_pieces(work, ["valid"], "cut", rule.language, rule)
        known = ["--srcdict", folder.dictionary(source), "--tgtdict", folder.dictionary(target)]
        binarise((source, target), work, {"valid": "valid.cut"}, known)
        yield Prepared(work, folder.checkpoint, (source, target), rules[1].subwords)


def score(model: str, prefix: Path, options: ModelOptions, machine: Machine) -> dict[str, Value]:
    """One model's row.

    Raises:
        ValueError: the model or the text cannot be used.
    """
    with prepared(model, prefix, options) as text:
        quality = measure(text.work, text.checkpoint, text.languages, text.subwords, machine, text.work / "log")
    return {
        "model": Path(model).name,
        "per_piece": quality.per_piece,
        "per_word": quality.per_word,
        "bleu": quality.bleu,
    }


def run(
    prefix: Path,
    models: list[str],
    source_lang: str | None,
    target_lang: str | None,
    case: str | None,
    tokenizer: str | None,
    threads: int,
    output: Path,
) -> None:
    """Measure, print, write."""
    options = ModelOptions(source_lang, target_lang, case=case, tokenizer=tokenizer)
    machine = Machine("cuda" if torch.cuda.is_available() else "cpu", threads)
    rows = [score(model, prefix, options, machine) for model in models]
    parts: dict[str, str | int] = {
        "name": prefix.name,
        "beam": BEAM,
    }
    sign = signature(parts, "quality", {"torch": torch.__version__})
    write_table(COLUMNS, rows, sign, output / "quality.tsv")
