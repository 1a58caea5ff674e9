"""What attention does inside a model: eval/results/analysis/*, a table and a figure for each question.

    .venv/bin/python eval/run.py analysis --data DIR [--bert FOLDER] [NAME ...]

Runs `extract-align analyse` as its users would, once for each of RUNS, and keeps its tables as NAME.TABLE.tsv and its
figures as NAME.FIGURE.png. The data folder is that of the other experiments, with `analysis/` in it: research/analysis
says what that holds. Runs on an encoder like BERT need one, such as `extract-align analyse train-bert` makes.
"""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from align.cli.common import say

EXAMPLES = Path(__file__).parent.parent / "examples"
CHUNKS = "--train {data}/analysis/conll2000-train.txt --test {data}/analysis/conll2000-test.txt"

TUNING = "--tune-source {data}/valid.de --tune-target {data}/valid.en --held-out 100"

GOLD = (
    "-s {data}/gold/deen-dev84/dev84.de -t {data}/gold/deen-dev84/dev84.en -g {data}/gold/deen-dev84/dev84.align "
    "--gold-format question,0-based"
)

RUNS = {
    "mixing": "mixing -s {data}/valid.de -t {data}/valid.en --lines 1000",
    "mixing-bert": "mixing -m {bert} -s {data}/valid.en -t {data}/enfr/valid.en --lines 1000",
    "patterns": "patterns -s {data}/valid.de -t {data}/valid.en --lines 1000",
    "patterns-lenient": "patterns -s {data}/valid.de -t {data}/valid.en --lines 1000 --threshold 0.3",
    "patterns-bert": "patterns -m {bert} -s {data}/valid.en -t {data}/enfr/valid.en --lines 1000",
    "patterns-drawn": "patterns {examples}/de-en.txt",
    "syntax-de": "syntax {data}/analysis/de_pud-ud-test.conllu -m de-en",
    "syntax-en": "syntax {data}/analysis/en_pud-ud-test.conllu -m en-de",
    "coreference": "coreference {data}/analysis/gap-test.tsv -m en-de",
    "syntax-bert": "syntax {data}/analysis/en_pud-ud-test.conllu -m {bert}",
    "coreference-bert": "coreference {data}/analysis/gap-test.tsv -m {bert}",
    "similarity": "similarity -s {data}/valid.de -t {data}/valid.en --lines 1000",
    "ablate": "ablate --attention cross -s {data}/gold/deen-bicici100/test.de -t {data}/gold/deen-bicici100/test.en "
    "-g {data}/gold/deen-bicici100/de-en.wa --out-of-range ignore",
    "ablate-all": "ablate -s {data}/gold/deen-dev84/dev84.de -t {data}/gold/deen-dev84/dev84.en "
    "-g {data}/gold/deen-dev84/dev84.align --lines 50 --bleu-lines 0",
    "keywords": "keywords -m en-de --keyphrases {data}/analysis/inspec-keyphrases.jsonl",
    "keywords-bert": "keywords -m {bert} --keyphrases {data}/analysis/inspec-keyphrases.jsonl",
    "layers": "layers -m en-de --treebank {data}/analysis/en_pud-ud-test.conllu",
    "layers-chunks": "layers -m en-de --train {data}/analysis/conll2000-train.txt "
    "--test {data}/analysis/conll2000-test.txt",
    "layers-bert": "layers -m {bert} --treebank {data}/analysis/en_pud-ud-test.conllu "
    "--train {data}/analysis/conll2000-train.txt --test {data}/analysis/conll2000-test.txt",
    "adversary": f"adversary {CHUNKS} --lambdas 0.002,0.01,0.2,3 --other-seeds 2",
    "adversary-kl": f"adversary {CHUNKS} --divergence kl --lambdas 0.001,0.2,3 --other-seeds 2",
    "adversary-translation": f"adversary-translation {TUNING} {GOLD} --updates 100",
    "adversary-translation-norm": f"adversary-translation {TUNING} {GOLD} --updates 100 --move norm",
}
"""What is asked, by the name of its results."""


def run(data: Path, output: Path, names: Sequence[str], bert: Path | None, threads: int) -> None:
    """See the module.

    Raises:
        ValueError: a name that there is no run of, or a run that failed.
    """
    if unknown := [name for name in names if name not in RUNS]:
        raise ValueError(f"there is no {unknown[0]}: {', '.join(RUNS)}")
    folder = output / "analysis"
    folder.mkdir(exist_ok=True)
    for name in names or RUNS:
        if "{bert}" in RUNS[name] and bert is None:
            if name in names:
                raise ValueError(f"{name} needs an encoder: --bert")
            continue
        places = {"data": data, "bert": bert, "output": folder, "examples": EXAMPLES}
        arguments = [word.format(**places) for word in shlex.split(RUNS[name])]
        say(f"extract-align analyse {shlex.join(arguments)}")
        command = [sys.executable, "-m", "align", "analyse", *arguments, "--threads", str(threads)]
        result = subprocess.run([*command, "-q", "-f", "json", "--plots", folder / name], stdout=subprocess.PIPE)
        if result.returncode:
            raise ValueError(f"{name} failed")
        write(json.loads(result.stdout), folder, name)
        unwanted = ["pdf", "examples.png"] if "{data}" in RUNS[name] else ["pdf"]  # which show sentences of the data
        for figure in (path for kind in unwanted for path in folder.glob(f"{name}.*.{kind}")):
            figure.unlink()


def write(found: dict[str, Any], folder: Path, name: str) -> None:
    """Keep the tables of one run."""
    sign = found.pop("signature")
    for table, rows in found.items():
        path = folder / f"{name}.{table}.tsv"
        with path.open("w", encoding="utf-8") as file:
            print(f"# {sign}", file=file)
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t", lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: written(value) for key, value in row.items()} for row in rows)
        say(f"{path}")


def written(value: Any) -> Any:
    """Format a value as other tables of results do."""
    if isinstance(value, list):
        return " to ".join(map(str, value))
    return "n/a" if value is None else value
