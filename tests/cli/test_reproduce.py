"""`eval/run.py reproduce` on toy models, a toy text and toy gold: all its tables, and what is missing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import corpora, toy
from tests.conftest import ROOT, needs_fast_align

CONFIG = """
[gold.toy]
source = "gold.de"
target = "gold.en"
links = "gold.talp"
format = "talp"
base = 1

[train.toy]
source = "train.de"
target = "train.en"
languages = ["de", "en"]
labels = "train.source"
take = ["good-*"]

[experiment.toy]
models = ["models/one", "models/two"]
reverse_models = ["models/two", "models/one"]
gold = ["toy"]
train = ["toy"]
baselines = ["fast_align", "eflomal", "giza"]

[experiment.absent]
models = ["models/none"]
gold = ["toy"]
baselines = []
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Sentences whose words are translated one by one, in order."""
    for model in ("one", "two"):
        toy.save_model(tmp_path / "models" / model, {"decoder_normalize_before": model == "two"})
    pairs = corpora.word_by_word(360)
    for name, some in (("gold", pairs[:60]), ("train", pairs[60:])):
        lines = len(some)
        (tmp_path / f"{name}.de").write_text(corpora.as_text(pair.source for pair in some), encoding="utf-8")
        (tmp_path / f"{name}.en").write_text(corpora.as_text(pair.target for pair in some), encoding="utf-8")
        if name == "train":  # and as many pairs that teach that each word means the first one
            for language, word in (("de", None), ("en", toy.TARGET_WORDS[0])):
                path = tmp_path / f"train.{language}"
                right = path.read_text(encoding="utf-8")
                path.write_text(right + (re.sub(r"\S+", word, right) if word else right), encoding="utf-8")
            (tmp_path / "train.source").write_text("good-1\n" * lines + "bad\n" * lines, encoding="utf-8")
        else:
            links = "".join(" ".join(f"{i + 1}-{i + 1}" for i in range(len(pair.source))) + "\n" for pair in some)
            (tmp_path / "gold.talp").write_text(links, encoding="utf-8")
    (tmp_path / "experiments.toml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def reproduce(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    options = ("--data", str(data), "--config", str(data / "experiments.toml"), "-o", str(data / "results"))
    command = [sys.executable, str(ROOT / "eval" / "run.py"), "reproduce", *options, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@needs_fast_align
def test_tables_of_two_models_and_two_aligners(data: Path) -> None:
    result = reproduce(data, "-f", "markdown")
    assert result.returncode == 0, result.stderr
    assert "absent: missing" in result.stderr
    assert "toy: without giza: GIZA++ is not there" in result.stderr
    tables = {}
    for name in ("layers", "rules", "comparisons", "systems"):
        sign, *lines = (data / "results" / f"toy.{name}.tsv").read_text(encoding="utf-8").splitlines()
        assert sign.startswith("# reproduce|toy|gold:toy|fairseq:de-en@")
        keys, *rows = (line.split("\t") for line in lines)
        tables[name] = [dict(zip(keys, row, strict=True)) for row in rows]
        assert f"| {rows[0][0]} " in result.stdout
    assert len(tables["layers"]) == 4
    assert all("(" in row["layer_1"] for row in tables["layers"])  # a deviation over the two models
    assert {row["model"] for row in tables["rules"]} == {"1", "2"}
    assert sum(row["rule"].startswith("agreement") for row in tables["rules"]) == 2 * 8
    rates = {row["system"]: float(row["aer_toy"]) for row in tables["systems"]}
    # one direction, also with a threshold and both positions; the reverse and three methods by two scores; aligners
    assert len(rates) == 2 * (4 + 3) + 2 * (2 * 4 + 1) + 2 * 4
    assert "models/one and models/two: norm, input, grow-diag" in rates
    for row in tables["comparisons"]:
        assert float(row["difference"]) == pytest.approx(float(row["first_aer"]) - float(row["second_aer"]), abs=0.11)
        assert 0 < float(row["p"]) <= 1
    assert len(tables["comparisons"]) == 2 * 2 * 4
    assert rates["fast_align (toy text): grow-diag-final-and"] < 20
    assert rates["eflomal (toy text): grow-diag-final-and"] < 20
    default = [row for row in tables["systems"] if row["system"].endswith(" (default)")]
    assert [(row["system"], row["p"]) for row in default] == [
        ("models/one and models/two: norm, input, soft (default)", "n/a")
    ]
    drawn = {path.name for path in (data / "results").iterdir() if path.suffix != ".tsv"}
    assert drawn == {f"toy.{name}.{kind}" for name in ("layers", "heads") for kind in ("png", "pdf")}


def test_an_experiment_that_was_asked_for_must_be_there(data: Path) -> None:
    result = reproduce(data, "absent")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"absent: missing {data / 'models' / 'none'}" in result.stderr
    assert "scripts/get_data" in result.stderr


@pytest.mark.parametrize(("arguments", "part"), [(("frobnicate",), "no experiment frob"), (("-f", "x"), "choice")])
def test_wrong_usage(data: Path, arguments: tuple[str, ...], part: str) -> None:
    result = reproduce(data, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert part in result.stderr
