"""Quality of a trained model on the validation text: fairseq's loss, and BLEU of its translations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from align.core.text import split_words
from align.models.detokenize import JOINS
from align.training.follow import TrainingError
from align.training.run import Machine, fairseq

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
