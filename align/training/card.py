"""Quality of a finished model, and files next to its weights: `model.toml` for the program, a card for people."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, get_args

import yaml

from align.core.choice import choose
from align.core.consistency import MIN_PAIRS
from align.core.scores import Reader
from align.core.stream import encode
from align.core.text import number_pairs, split_words
from align.core.types import Cell, Position, Score, Settings
from align.models.detokenize import JOINS
from align.models.divide import in_units
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.languages import base_language
from align.models.load import load
from align.models.model_toml import ModelOptions, format_model_toml
from align.training.follow import TrainingError
from align.training.prepare import Prepared
from align.training.recipe import Recipe
from align.training.run import Machine, Point, fairseq

BEAM = 5


@dataclass(frozen=True)
class Quality:
    """Scores for the model card.

    Attributes:
        per_piece: negative log likelihood in nats per target piece, `</s>` included.
        per_word: the same sum per word of the target text, comparable between models with different pieces.
        bleu: BLEU of the model's tokens, in its case, beam 5.
        signature: sacrebleu's signature.
    """

    per_piece: float
    per_word: float
    bleu: float
    signature: str


def measure(
    prepared: Path, checkpoint: Path, languages: tuple[str, str], subwords: str, machine: Machine, log: Path
) -> Quality:
    """Score a checkpoint on a validation text.

    Args:
        prepared: a folder written by `prepare`: the text's words, its pieces, and bin/.

    Raises:
        TrainingError: fairseq failed, or skipped lines.
    """
    per_piece, per_word = losses(prepared, checkpoint, languages, machine, log)
    join = JOINS[subwords]
    references = [join(line.split(" ")).strip() for line in _lines(prepared / f"valid.cut.{languages[1]}")]
    common = _common(prepared, checkpoint, languages, machine)
    translations = _translate([*common, "--gen-subset", "valid", "--beam", BEAM], machine, log)
    if len(translations) != len(references):
        raise TrainingError(f"{len(references) - len(translations):,} lines were not translated; are they too long?")
    joined = [join(translations[n].split(" ")).strip() for n in range(len(translations))]
    bleu, signature = _bleu(joined, references)
    return Quality(per_piece, per_word, bleu, signature)


def losses(
    prepared: Path, checkpoint: Path, languages: tuple[str, str], machine: Machine, log: Path
) -> tuple[float, float]:
    """Return the loss of a checkpoint on a validation text, per piece and per word; for the arguments see `measure`."""
    common = _common(prepared, checkpoint, languages, machine)
    loss = _loss([*common, "--valid-subset", "valid", "--log-format", "json"], machine, log)
    pieces = sum(len(line.split(" ")) + 1 for line in _lines(prepared / f"valid.cut.{languages[1]}"))
    words = sum(len(split_words(line)) for line in _lines(prepared / f"valid.{languages[1]}"))
    return loss, loss * pieces / words


def _common(prepared: Path, checkpoint: Path, languages: tuple[str, str], machine: Machine) -> list[object]:
    """Return the arguments that fairseq-validate and fairseq-generate share."""
    common: list[object] = [prepared / "bin", "--path", checkpoint, "-s", languages[0], "-t", languages[1]]
    return [*common, "--max-tokens", 4000, "--num-workers", 0, *machine.flags()]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def _loss(arguments: list[object], machine: Machine, log: Path) -> float:
    loss = math.nan
    with fairseq("validate", arguments, machine, log) as lines:
        for line in lines:
            if rest := line.partition('"valid_nll_loss": ')[2]:
                loss = float(rest.split('"')[1]) * math.log(2)
    if math.isnan(loss):
        raise TrainingError(f"fairseq-validate printed no loss; its whole output is in {log}")
    return loss


def _translate(arguments: list[object], machine: Machine, log: Path) -> dict[int, str]:
    """Return each line's translation in pieces, by line number; fairseq-generate changes the order."""
    translations: dict[int, str] = {}
    with fairseq("generate", arguments, machine, log) as lines:
        for line in lines:
            if line.startswith("H-"):
                name, _, pieces = line.rstrip("\n").split("\t")
                translations[int(name[2:])] = pieces
    return translations


def _bleu(translations: list[str], references: list[str]) -> tuple[float, str]:
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="none", force=True)
    return float(metric.corpus_score(translations, [references]).score), str(metric.get_signature())


Cells = Mapping[tuple[Position, Score], Cell]
"""The cell to read for each position and score."""


def write_toml(path: Path, languages: tuple[str, str], recipe: Recipe, cells: Cells) -> None:
    """Write languages, text rules and, if given, the cells to read."""
    text = recipe.text
    options = ModelOptions(*languages, case=text.case, tokenizer=text.tokenizer, subwords="sentencepiece")
    stored = {(score, position): cell for (position, score), cell in cells.items()}
    path.write_text(format_model_toml(options, {"": stored}), encoding="utf-8")


def choose_cells(folder: Path, prepared: Path, languages: tuple[str, str]) -> Cells:
    """Choose cells by lexical consistency on the validation text; return none if it is too short."""
    sides = [
        [split_words(line) for line in (prepared / f"valid.{language}").read_text(encoding="utf-8").split("\n")[:-1]]
        for language in languages
    ]
    recorder = load(str(folder)).forward.recorder
    pairs = in_units(recorder, list(number_pairs(zip(*sides, strict=True))))
    encoded = [encode(recorder, pair, "blank") for pair in pairs]
    if sum(sentence.pieces is not None for sentence in encoded) < MIN_PAIRS:
        return {}
    cells: dict[tuple[Position, Score], Cell] = {}
    for position, score in product(get_args(Position), get_args(Score)):
        choice = choose(Reader(recorder, score), encoded, Settings(score, position))
        cells[position, score] = choice.place.cells()[position]
    return cells


@dataclass(frozen=True)
class Card:
    """Contents of a model card.

    Attributes:
        checkpoints: checkpoints whose weights were used.
        start: description of the initial model; "" for random weights.
    """

    languages: tuple[str, str]
    recipe: Recipe
    seed: int
    prepared: Prepared
    points: Sequence[Point]
    quality: Quality
    checkpoints: Sequence[Path]
    command: str
    start: str


DATASET = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
"""A label that may name a data set in the metadata of a card."""


def describe(card: Card) -> dict[str, Any]:
    """Return the metadata of a card, as model hubs read it; BLEU is the only figure."""
    source, target = card.languages
    datasets = sorted(filter(DATASET.fullmatch, card.prepared.kept))
    result = {
        "task": {"type": "translation"},
        "dataset": {"name": f"validation text, {card.prepared.valid:,} pairs", "type": "validation"},
        "metrics": [{"type": "bleu", "value": round(card.quality.bleu, 1), "name": "BLEU"}],
    }
    return {
        "language": [base_language(source), base_language(target)],
        "library_name": "extract-align",
        "pipeline_tag": "translation",
        "tags": ["word-alignment", "fairseq"],
        **({"datasets": datasets} if datasets else {}),
        "metrics": ["bleu"],
        "model-index": [{"name": f"{source}-{target}", "results": [result]}],
    }


class _Dumper(yaml.SafeDumper):
    """Quotes also texts that are numbers in YAML 1.2, which model hubs read, but not in 1.1."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+)$"),
    [*"-+.0123456789"],
)


def write_card(path: Path, card: Card) -> None:
    """Write a model card: metadata, purpose of the model, training data and settings, and quality."""
    source, target = card.languages
    lines = [
        "---",
        *yaml.dump(describe(card), Dumper=_Dumper, sort_keys=False).splitlines(),
        "---",
        "",
        f"# {source}-{target}: a translation model to read word alignments off",
        "",
        f"A fairseq Transformer from `{source}` to `{target}`, made by `extract-align train`. `extract-align -m` takes",
        "the folder; any fairseq 0.12 loads the checkpoint. It is meant for word alignment, not for publishing what it",
        "translates.",
        "",
        *_figures(card, path.with_name("checkpoint.pt")),
        "",
        "## Where the pairs are from",
        "",
        "| label | pairs |",
        "|---|---|",
        *(f"| {_cell(label)} | {count:,} |" for label, count in sorted(card.prepared.kept.items())),
        "",
        "| left out | pairs |",
        "|---|---|",
        *(f"| {reason} | {count:,} |" for reason, count in sorted(card.prepared.dropped.items())),
        "",
        "## How it was made",
        "",
        "```",
        card.command,
        "```",
        "",
        "with these options of fairseq-train:",
        "",
        "```",
        " ".join(card.recipe.flags()),
        "```",
        "",
        "`training.tsv` holds the curve: losses in nats per target piece, the training loss with label smoothing.",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_unfinished_card(path: Path, languages: tuple[str, str], updates: int) -> None:
    """Write the card of a model whose training goes on."""
    source, target = languages
    path.write_text(
        f"# {source}-{target}: a translation model to read word alignments off\n\n"
        f"A fairseq Transformer from `{source}` to `{target}` after {updates:,} updates. Its training, by "
        "`extract-align train`, is not finished.\n",
        encoding="utf-8",
    )


def _figures(card: Card, checkpoint: Path) -> list[str]:
    text, prepared, quality = card.recipe.text, card.prepared, card.quality
    dropped = sum(prepared.dropped.values())
    parameters = sum(weight.numel() for weight in load_checkpoint(checkpoint)["model"].values())
    updates = max((point.updates for point in card.points), default=0)
    return [
        "| | |",
        "|---|---|",
        f"| recipe, seed | {card.recipe.name}, {card.seed} |",
        *([f"| begun with | {card.start} |"] if card.start else []),
        f"| size | {parameters / 1e6:.2f} M parameters, {checkpoint.stat().st_size / 1e6:.1f} MB, half precision |",
        f"| text | {text.case} case, {text.tokenizer} tokens, sentencepiece BPE of "
        f"{text.vocabulary:,} pieces a language |",
        f"| trained on | {prepared.train:,} pairs, {prepared.pieces:,} target pieces; {dropped:,} pairs left out |",
        f"| trained for | {updates:,} updates{_speed(card.points)} |",
        f"| weights | {_weights(card.checkpoints)} |",
        f"| validation, {prepared.valid:,} pairs | {quality.per_piece:.3f} nats per target piece, "
        f"{quality.per_word:.3f} per target word |",
        f"| BLEU there | {quality.bleu:.1f} (`{quality.signature}`, the model's tokens and case, beam 5) |",
    ]


def _speed(points: Sequence[Point]) -> str:
    speeds = sorted(point.speed for point in points if point.speed is not None)
    return f", median {speeds[len(speeds) // 2]:,.0f} target pieces/s" if speeds else ""


def _cell(label: str) -> str:
    return label.replace("|", "/") or "(none given)"


def _weights(checkpoints: Sequence[Path]) -> str:
    names = ", ".join(f"`{path.name}`" for path in checkpoints)
    return names if len(checkpoints) == 1 else f"mean of {names}"
