"""How well do models translate? Validation loss and BLEU of any of them on one text, printed and written.

    .venv/bin/python eval/quality.py PREFIX MODEL ...        text: PREFIX.de, PREFIX.en, ... by the models' languages

Losses are fairseq-validate's and translations fairseq-generate's. Models differ in their pieces, and a loss per piece
is not comparable between them: that per word of the text is. BLEU is of Moses tokens in the model's case.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import torch

from align import __version__
from align.backends.model_folder import ModelOptions, find_model
from align.training.corpus import read_pairs
from align.training.prepare import binarise, write_pieces
from align.training.run import Machine
from align.training.score import measure
from align.view.tables import TABLES, Column, Value, as_tsv

COLUMNS = [
    Column("model", "model"),
    Column("per_piece", "nats per piece", 3),
    Column("per_word", "nats per word", 3),
    Column("bleu", "BLEU", 1),
]


def score(model: str, prefix: Path, options: ModelOptions, machine: Machine) -> dict[str, Value]:
    """One model's row.

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
        quality = measure(work, folder.checkpoint, (source, target), rules[1].subwords, machine, work / "log")
    return {
        "model": Path(model).name,
        "per_piece": quality.per_piece,
        "per_word": quality.per_word,
        "bleu": quality.bleu,
    }


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=Path)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="as for extract-align -m")
    parser.add_argument("--source-lang", help="where a model does not say it; so are the others")
    parser.add_argument("--target-lang")
    parser.add_argument("--case")
    parser.add_argument("--tokenizer")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "results" / "quality.tsv")
    args = parser.parse_args()
    options = ModelOptions(args.source_lang, args.target_lang, case=args.case, tokenizer=args.tokenizer)
    machine = Machine("cuda" if torch.cuda.is_available() else "cpu", args.threads)
    try:
        rows = [score(model, args.prefix, options, machine) for model in args.models]
    except (OSError, ValueError) as error:
        print(f"quality: {error}", file=sys.stderr)
        return 1
    sign = f"quality|{args.prefix.name}|beam:5|v:{__version__}|torch:{torch.__version__}"
    print(TABLES["text"](COLUMNS, rows, sign, ()))
    args.output.write_text(as_tsv(COLUMNS, rows, sign) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
