"""The commands of eval/run.py in this process, on toy models, a toy text and toy gold."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import corpora, toy

CONFIG = """
[gold.toy]
source = "gold.de"
target = "gold.en"
links = "gold.talp"
format = "talp"
base = 1

[train.toy]
source = ["train.de", "more.de"]
target = ["train.en", "more.en"]
languages = ["de", "en"]
labels = ["train.source", "more.source"]
valid = ["gold.de", "gold.en"]
take = ["good-*"]

[experiment.toy]
models = ["models/one", "models/two"]
reverse_models = ["models/back", "models/back"]
gold = ["toy"]
train = ["toy"]
baselines = ["fast_align", "eflomal", "giza"]
pieces = ["toy"]

[scorer.toy]
models = ["models/one", "models/back"]
language = "German"
architecture = "one"
gold = ["toy"]
labels = "toy"

[scorer.other]
models = ["models/two", "models/back"]
language = "German"
architecture = "two"
gold = ["toy"]
labels = "toy"

[scorer.new]
models = ["models/two", "models/back"]
language = "German"
architecture = "three"
gold = ["toy"]
unspaced = true

[scorer.absent]
models = ["models/none", "models/none"]
language = "German"
architecture = "none"
gold = ["toy"]

[experiment.absent]
models = ["models/none"]
gold = ["toy"]
baselines = []
"""


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: words that are translated one by one, and as much training text that teaches nonsense."""
    monkeypatch.chdir(tmp_path)
    for model in ("one", "two"):
        toy.save_model(tmp_path / "models" / model, {"decoder_normalize_before": model == "two"})
    toy.save_reverse_model(tmp_path / "models" / "back")
    pairs = corpora.word_by_word(342)
    gold, train = pairs[:42], pairs[42:]
    nonsense = [[toy.TARGET_WORDS[0]] * len(pair.source) for pair in train]
    texts: dict[str, Sequence[Sequence[str]]] = {
        "gold.de": [pair.source for pair in gold],
        "gold.en": [pair.target for pair in gold],
        "gold.talp": [[f"{i}-{i}" for i, _ in enumerate(pair.source, 1)] for pair in gold],
        "train.de": [pair.source for pair in train],
        "train.en": [pair.target for pair in train],
        "train.source": [["good-1"]] * len(train),
        "more.de": [pair.source for pair in train],
        "more.en": nonsense,
        "more.source": [["bad"]] * len(train),
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text(corpora.as_text(lines), encoding="utf-8")
    (tmp_path / "experiments.toml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


@pytest.fixture
def command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Runs a command with a hundredth of the permutations and the folder "results" for its output."""
    door: Any = importlib.import_module("eval.run")
    for module in ("common", "reproduce", "causal", "projection", "bible"):
        monkeypatch.setattr(importlib.import_module(f"eval.{module}"), "PERMUTATIONS", 100)

    def call(*arguments: object) -> Result:
        capfd.readouterr()
        try:
            code = door.main([*map(str, arguments), "-o", str(tmp_path / "results")])
        except SystemExit as stop:
            code = stop.code
        return Result(code, *capfd.readouterr())

    return call


def read_table(path: Path) -> tuple[str, list[dict[str, str]]]:
    """The signature and the rows of a table that a command has written."""
    sign, *lines = path.read_text(encoding="utf-8").splitlines()
    keys, *rows = (line.split("\t") for line in lines)
    return sign, [dict(zip(keys, row, strict=True)) for row in rows]
