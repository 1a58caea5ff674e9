"""Quality of a finished model, the cells to read it at, and a card for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from align.core.consistency import CHOOSING_PAIRS, MIN_PAIRS
from align.core.stream import encode
from align.core.text import number_pairs, split_words
from align.evaluation.heads import calibrate
from align.models.detokenize import JOINS
from align.models.divide import in_units
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.languages import base_language
from align.models.load import load
from align.models.model_toml import Cells
from align.training.follow import TrainingError
from align.training.prepare import Prepared
from align.training.recipe import Recipe
from align.training.run import Machine, Point, fairseq

BEAM = 5


@dataclass(frozen=True)
class Quality:
    """Scores for the model card: negative log likelihood in nats, and BLEU of the model's tokens with its signature.

    The likelihood is per target piece, `</s>` included, and per word, which compares models with different pieces.
    """

    per_piece: float
    per_word: float
    bleu: float
    signature: str


def measure(prepared: Path, checkpoint: Path, languages: tuple[str, str], machine: Machine, log: Path) -> Quality:
    """Score a checkpoint on the validation text of a folder written by `prepare`."""
    from sacrebleu.metrics.bleu import BLEU

    common: list[object] = [prepared / "bin", "--path", checkpoint, "-s", languages[0], "-t", languages[1]]
    common += ["--max-tokens", 4000, "--num-workers", 0, *machine.flags()]
    loss = math.nan
    with fairseq("validate", [*common, "--valid-subset", "valid", "--log-format", "json"], machine, log) as lines:
        for line in lines:
            if rest := line.partition('"valid_nll_loss": ')[2]:
                loss = float(rest.split('"')[1]) * math.log(2)
    if math.isnan(loss):
        raise TrainingError(f"fairseq-validate printed no loss; its whole output is in {log}")
    cut = _lines(prepared / f"valid.cut.{languages[1]}")
    pieces = sum(len(line.split(" ")) + 1 for line in cut)
    words = sum(len(split_words(line)) for line in _lines(prepared / f"valid.{languages[1]}"))
    translations: dict[int, str] = {}  # in pieces, by line number: fairseq-generate changes the order
    search = ["--gen-subset", "valid", "--beam", BEAM, "--max-len-a", 2, "--max-len-b", 10]  # not always 200 pieces
    with fairseq("generate", [*common, *search], machine, log) as lines:
        for line in lines:
            if line.startswith("H-"):
                name, _, translation = line.rstrip("\n").split("\t")
                translations[int(name[2:])] = translation
    if len(translations) != len(cut):
        raise TrainingError(f"{len(cut) - len(translations):,} lines were not translated; are they too long?")
    join = JOINS["sentencepiece"]
    joined = [
        [join(line.split(" ")).strip() for line in text] for text in ([translations[n] for n in range(len(cut))], cut)
    ]
    metric = BLEU(tokenize="none", force=True)
    bleu = float(metric.corpus_score(joined[0], [joined[1]]).score)
    return Quality(loss, loss * pieces / words, bleu, str(metric.get_signature()))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def choose_cells(folder: Path, prepared: Path, languages: tuple[str, str]) -> Cells:
    """Choose cells by lexical consistency on the validation text; return none if it is too short."""
    sides = [[split_words(line) for line in _lines(prepared / f"valid.{language}")] for language in languages]
    recorder = load(str(folder)).forward.recorder
    pairs = in_units(recorder, list(number_pairs(zip(*sides, strict=True))))
    encoded = [item for pair in pairs if (item := encode(recorder, pair, "blank")).pieces][:CHOOSING_PAIRS]
    return calibrate(recorder, encoded, "eos", "both")[0] if len(encoded) >= MIN_PAIRS else {}


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
    start: str,
) -> None:
    """Write a model card next to the weights: metadata, purpose, training data and settings, and quality.

    `points` are the training curve, `checkpoints` those whose weights were used, and `start` describes the
    initial model, "" for random weights.
    """
    source, target = languages
    result = {  # BLEU on the validation text is the only figure that model hubs read
        "task": {"type": "translation"},
        "dataset": {"name": f"validation text, {prepared.valid:,} pairs", "type": "validation"},
        "metrics": [{"type": "bleu", "value": round(quality.bleu, 1), "name": "BLEU"}],
    }
    metadata = {
        "language": [base_language(source), base_language(target)],
        "library_name": "extract-align",
        "pipeline_tag": "translation",
        "tags": ["word-alignment", "fairseq"],
        "metrics": ["bleu"],
        "model-index": [{"name": f"{source}-{target}", "results": [result]}],
    }
    checkpoint = path.with_name("checkpoint.pt")
    parameters = sum(weight.numel() for weight in load_checkpoint(checkpoint)["model"].values())
    updates = max((point.updates for point in points), default=0)
    speeds = sorted(point.speed for point in points if point.speed is not None)
    speed = f", median {speeds[len(speeds) // 2]:,.0f} target pieces/s" if speeds else ""
    names = ", ".join(f"`{path.name}`" for path in checkpoints)
    text = recipe.text
    lines = [
        "---",
        *yaml.safe_dump(metadata, sort_keys=False).splitlines(),
        "---",
        "",
        f"# {source}-{target}: a translation model to read word alignments off",
        "",
        f"A fairseq Transformer from `{source}` to `{target}`, made by `extract-align train`. `extract-align -m` takes",
        "the folder; any fairseq 0.12 loads the checkpoint. It is meant for word alignment, not for publishing what it",
        "translates.",
        "",
        "| | |",
        "|---|---|",
        f"| recipe, seed | {recipe.name}, {seed} |",
        *([f"| begun with | {start} |"] if start else []),
        f"| size | {parameters / 1e6:.2f} M parameters, {checkpoint.stat().st_size / 1e6:.1f} MB, half precision |",
        f"| text | {text.case} case, {text.tokenizer} tokens, sentencepiece BPE of {text.vocabulary:,} pieces a "
        "language |",
        f"| trained on | {prepared.train:,} pairs, {prepared.pieces:,} target pieces; "
        f"{sum(prepared.dropped.values()):,} pairs left out |",
        f"| trained for | {updates:,} updates{speed} |",
        f"| weights | {names if len(checkpoints) == 1 else f'mean of {names}'} |",
        f"| validation, {prepared.valid:,} pairs | {quality.per_piece:.3f} nats per target piece, "
        f"{quality.per_word:.3f} per target word |",
        f"| BLEU there | {quality.bleu:.1f} (`{quality.signature}`, the model's tokens and case, beam {BEAM}) |",
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
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
