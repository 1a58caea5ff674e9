"""Metadata of the bundled models' cards: what the hub reads is what was measured."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from align.models.folder import BUNDLED
from tests.conftest import ROOT
from tests.eval.conftest import Result

TABLE = ROOT / "eval" / "results" / "bundled.defaults.tsv"


@pytest.fixture
def hub() -> Any:
    return pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")


@pytest.mark.parametrize("name", ["de-en", "en-de"])
def test_cards_have_the_figures_of_the_results(name: str, hub: Any) -> None:
    card = hub.ModelCard.load(BUNDLED / name / "README.md")
    with TABLE.open(encoding="utf-8") as file:
        rows = csv.DictReader(file.readlines()[1:], delimiter="\t")
    default = {"model": name, "score": "norm", "heads": "any", "position": "both", "threshold": "0.5"}
    (row,) = (row for row in rows if row | default == row and row["links"] == "sharpened")
    figures = {result.dataset_type: (result.metric_type, result.metric_value) for result in card.data.eval_results}
    bleu = re.search(r"^\| BLEU there \| ([\d.]+) ", card.text, re.MULTILINE)
    labels = card.text.partition("| label | pairs |")[2].partition("| left out | pairs |")[0]
    assert bleu
    assert figures == {
        **{gold: ("aer", float(row[f"aer_{gold}"])) for gold in ("dev84", "bicici100", "all")},
        "validation": ("bleu", float(bleu[1])),
    }
    assert card.data.model_name == name
    assert card.data.language == name.split("-")
    assert card.data.license == "mit"
    assert card.data.datasets == re.findall(r"^\| ([\w-]+) \| [\d,]+ \|$", labels, re.MULTILINE)
    assert hub.metadata_load(BUNDLED / name / "README.md") == card.data.to_dict()


@pytest.mark.usefixtures("hub")
def test_cards_are_written_again(command: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    table = tmp_path / "results" / TABLE.name
    shutil.copyfile(TABLE, table)
    models = tmp_path / "bundled"
    shutil.copytree(BUNDLED, models)
    written = (BUNDLED / "de-en" / "README.md").read_bytes()
    (models / "de-en" / "README.md").write_bytes(re.sub(rb"value: 1[24]\.\d", b"value: 1", written))
    assert command("cards", "--models", models).code == 0
    for name in ("de-en", "en-de"):
        assert (models / name / "README.md").read_bytes() == (BUNDLED / name / "README.md").read_bytes()

    table.write_text(TABLE.read_text(encoding="utf-8").replace("de-en@", "de-en@0"), encoding="utf-8")
    result = command("cards", "--models", models)
    assert (result.code, result.out) == (1, "")
    assert "bundled.defaults.tsv has no figures of fairseq:de-en@" in result.err
