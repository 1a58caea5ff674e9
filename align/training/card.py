"""What lies beside the weights: `model.toml` for the program, a model card for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import get_args

from align.aligners.choice import choose
from align.aligners.reader import Reader
from align.backends.fairseq.checkpoint import load_checkpoint
from align.loading import load
from align.text.batching import encode
from align.text.lines import number_pairs, split_words
from align.training.prepare import Prepared
from align.training.recipe import Recipe
from align.training.run import Point
from align.training.score import Quality
from align.types import Cell, Position, Score, Settings

Choices = Mapping[tuple[Position, Score], Cell]


def write_toml(path: Path, languages: tuple[str, str], recipe: Recipe, choices: Choices) -> None:
    """Languages, text and, once they are known, the layers and heads to read where there is too little text."""
    lines = [f'source = "{languages[0]}"', f'target = "{languages[1]}"', "", "[text]"]
    lines += [f'case = "{recipe.text.case}"', f'tokenizer = "{recipe.text.tokenizer}"', 'subwords = "sentencepiece"']
    if choices:
        lines += [
            "",
            "# For inputs that are too short to choose by: what lexical consistency took on the validation text.",
        ]
        lines += ["# Layers and heads count from 1."]
    for position in get_args(Position):
        rows = [(score, choices[position, score]) for score in get_args(Score) if (position, score) in choices]
        if rows:
            lines += [f"[calibration.{position}]"]
            lines += [f"{score} = {{ layer = {cell.layer}, head = {json.dumps(cell.head)} }}" for score, cell in rows]
            lines += [""]
    path.write_text("\n".join(lines).rstrip("\n") + "\n", encoding="utf-8")


def calibrate(folder: Path, prepared: Path, languages: tuple[str, str]) -> Choices:
    """What lexical consistency chooses on the validation text, for each position and score."""
    sides = [
        [split_words(line) for line in (prepared / f"valid.{language}").read_text(encoding="utf-8").split("\n")[:-1]]
        for language in languages
    ]
    recorder = load(str(folder)).recorder
    encoded = [encode(recorder, pair, "blank") for pair in number_pairs(zip(*sides, strict=True))]
    if not any(one.pieces for one in encoded):
        return {}
    choices: dict[tuple[Position, Score], Cell] = {}
    for position, score in product(get_args(Position), get_args(Score)):
        chosen = choose(Reader(recorder, score), encoded, Settings(score, position))
        choices[position, score] = chosen.place.cells()[position]
    return choices


def write_card(
    path: Path,
    languages: tuple[str, str],
    recipe: Recipe,
    seed: int,
    prepared: Prepared,
    points: Sequence[Point],
    quality: Quality,
    checkpoints: Sequence[Path],
    command: str,
) -> None:
    """A model card: what the model is for, what it was trained on and how, and how good it is."""
    source, target = languages
    checkpoint = path.with_name("checkpoint.pt")
    speeds = sorted(point.speed for point in points if point.speed is not None)
    dropped = sum(prepared.dropped.values())
    speed = f", median {speeds[len(speeds) // 2]:,.0f} target pieces/s" if speeds else ""
    parameters = sum(weight.numel() for weight in load_checkpoint(checkpoint)["model"].values())
    updates = max((point.updates for point in points), default=0)
    lines = [
        f"# {source}-{target}: a translation model to read word alignments off",
        "",
        f"A fairseq Transformer from `{source}` to `{target}`, made by `scripts/train_model`. `extract-align -m` takes",
        "the folder; any fairseq 0.12 loads the checkpoint. It is meant for word alignment, not for publishing what it",
        "translates.",
        "",
        "| | |",
        "|---|---|",
        f"| recipe, seed | {recipe.name}, {seed} |",
        f"| size | {parameters / 1e6:.2f} M parameters, {checkpoint.stat().st_size / 1e6:.1f} MB, half precision |",
        f"| text | {recipe.text.case} case, {recipe.text.tokenizer} tokens, sentencepiece BPE of "
        f"{recipe.text.vocabulary:,} pieces a language |",
        f"| trained on | {prepared.train:,} pairs, {prepared.pieces:,} target pieces; {dropped:,} pairs left out |",
        f"| trained for | {updates:,} updates{speed} |",
        f"| weights | {_weights(checkpoints)} |",
        f"| validation, {prepared.valid:,} pairs | {quality.per_piece:.3f} nats per target piece, "
        f"{quality.per_word:.3f} per target word |",
        f"| BLEU there | {quality.bleu:.1f} (`{quality.signature}`, the model's tokens and case, beam 5) |",
        "",
        "## Where the pairs are from",
        "",
        "| label | pairs |",
        "|---|---|",
        *(f"| {_cell(label)} | {count:,} |" for label, count in sorted(prepared.kept.items())),
        "",
        "| left out | pairs |",
        "|---|---|",
        *(f"| {reason} | {count:,} |" for reason, count in sorted(prepared.dropped.items())),
        "",
        "## How it was made",
        "",
        "```",
        command,
        "```",
        "",
        "with these options of fairseq-train:",
        "",
        "```",
        " ".join(recipe.flags()),
        "```",
        "",
        "`training.tsv` holds the curve: losses in nats per target piece, the training loss with label smoothing.",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _cell(label: str) -> str:
    return label.replace("|", "/") or "(none given)"


def _weights(checkpoints: Sequence[Path]) -> str:
    names = ", ".join(f"`{path.name}`" for path in checkpoints)
    return names if len(checkpoints) == 1 else f"mean of {names}"
