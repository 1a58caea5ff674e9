"""Write licence and alignment error rates into the metadata of the bundled models' cards, as model hubs read it.

The figures are those of eval/results/bundled.defaults.tsv: one model, as it is read by default.
"""

from __future__ import annotations

import csv
from pathlib import Path

from huggingface_hub import EvalResult, ModelCard

from align import load
from align.core.types import THRESHOLD
from eval.defaults import DEFAULT

READ = {"score": "norm", "heads": "any", "position": "both", "links": DEFAULT, "threshold": f"{THRESHOLD:g}"}
"""The default way to read a model, as a row of the table names it."""

GOLD = {
    "dev84": "German-English Europarl, 84 sentences",
    "bicici100": "German-English Europarl, 100 sentences",
    "all": "German-English Europarl, 184 sentences",
}
"""What the table calls its gold, and what a card calls it."""


def run(models: Path, output: Path) -> None:
    """Write the cards of de-en and en-de.

    Args:
        models: has a folder for each.
        output: has the table.

    Raises:
        ValueError: the table is of other models.
    """
    table = output / "bundled.defaults.tsv"
    sign, *lines = table.read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(lines, delimiter="\t"))
    for name in ("de-en", "en-de"):
        model = load(models / name).forward.recorder.name
        if model not in sign.split("|"):
            raise ValueError(f"{table} has no figures of {model}; first run: python eval/run.py defaults")
        path = models / name / "README.md"
        card = ModelCard.load(path)
        (row,) = (row for row in rows if row | READ | {"model": name} == row)
        others = [result for result in card.data.eval_results if result.metric_type != "aer"]
        rates = [
            EvalResult("word-alignment", gold, title, "aer", float(row[f"aer_{gold}"]), metric_name="AER (percent)")
            for gold, title in GOLD.items()
        ]
        card.data.license = "mit"
        card.data.metrics = ["aer", "bleu"]
        card.data.eval_results = [*rates, *others]
        card.save(path)
        print(f"{path}: " + ", ".join(f"{rate.dataset_type} {rate.metric_value}" for rate in rates))
