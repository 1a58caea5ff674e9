"""How good a finished model is on the validation text: fairseq's loss, and BLEU of what it translates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from align.training.run import Machine, fairseq, lines_of

BEAM = 5


@dataclass(frozen=True)
class Quality:
    """Figures for the card.

    Attributes:
        per_piece: negative log likelihood in nats per target piece, `</s>` counted.
        per_word: the same sum per word of the target text, which compares models with different pieces.
        bleu: of the model's tokens, in its case, beam 5.
        signature: sacrebleu's.
    """

    per_piece: float
    per_word: float
    bleu: float
    signature: str


def measure(prepared: Path, checkpoint: Path, languages: tuple[str, str], machine: Machine, log: Path) -> Quality:
    """Score a checkpoint on the validation text in a folder that `prepare` made.

    Raises:
        TrainingError: fairseq failed.
    """
    common: list[object] = [prepared / "bin", "--path", checkpoint, "-s", languages[0], "-t", languages[1]]
    common += ["--max-tokens", 4000, "--num-workers", 0, *machine.flags()]
    loss = _loss([*common, "--valid-subset", "valid", "--log-format", "json"], machine, log)
    target = languages[1]
    references = [_join(line) for line in _lines(prepared / f"valid.cut.{target}")]
    pieces = sum(len(line.split(" ")) + 1 for line in _lines(prepared / f"valid.cut.{target}"))
    words = sum(len(line.split(" ")) for line in _lines(prepared / f"valid.{target}"))
    bleu, signature = _bleu([*common, "--gen-subset", "valid", "--beam", BEAM], references, machine, log)
    return Quality(loss, loss * pieces / words, bleu, signature)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def _join(pieces: str) -> str:
    """Sentencepiece's pieces to the tokens that they were cut from."""
    return pieces.replace(" ", "").replace("\u2581", " ").strip()


def _loss(arguments: list[object], machine: Machine, log: Path) -> float:
    """Nats per piece."""
    loss = math.nan
    with lines_of(fairseq("validate", arguments, machine), log) as lines:
        for line in lines:
            if found := line.partition('"valid_nll_loss": ')[2]:
                loss = float(found.split('"')[1]) * math.log(2)
    return loss


def _bleu(arguments: list[object], references: list[str], machine: Machine, log: Path) -> tuple[float, str]:
    """BLEU and its signature; fairseq-generate writes in an order of its own."""
    from sacrebleu.metrics.bleu import BLEU

    found: dict[int, str] = {}
    with lines_of(fairseq("generate", arguments, machine), log) as lines:
        for line in lines:
            if line.startswith("H-"):
                name, _, pieces = line.rstrip("\n").split("\t")
                found[int(name[2:])] = _join(pieces)
    metric = BLEU(tokenize="none", force=True)
    result = metric.corpus_score([found.get(n, "") for n in range(len(references))], [references])
    return float(result.score), str(metric.get_signature())
