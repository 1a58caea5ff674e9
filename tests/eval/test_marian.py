"""`eval/run.py marian`: a toy Marian model, trained for a second, and what is measured of it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.eval.conftest import Result, read_table

pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("one_thread")

PAIRS = [([2] * n + [0], [3] * (30 - n) + [0]) for n in range(1, 30)]


@pytest.fixture
def training(door: Any) -> Any:
    return importlib.import_module("marian_training")


def test_batches_hold_each_pair_once_and_are_not_too_large(training: Any) -> None:
    found = training.batches(PAIRS, 60, seed=1)
    assert sorted(n for batch in found for n in batch) == list(range(len(PAIRS)))
    for batch in found:
        assert all(len(batch) * max(len(PAIRS[n][side]) for n in batch) <= 60 for side in (0, 1))
    assert training.batches(PAIRS, 60, seed=1) == found != training.batches(PAIRS, 60, seed=2)


def test_training_goes_on_where_it_was_stopped(training: Any) -> None:
    recipe = training.Recipe(minutes=1, tokens=60)
    size = len(training.batches(PAIRS, 60, 1))
    order = training.shuffled(PAIRS, recipe, 0)
    whole = [next(order) for _ in range(3 * size)]
    for done in (1, size + 2):
        rest = training.shuffled(PAIRS, recipe, done)
        assert [next(rest) for _ in range(size)] == whole[done : done + size]


def test_a_toy_model_is_trained_and_measured(
    data: Path, command: Callable[..., Result], training: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "made"
    losses = {"one": 4.0, "two": 5.0}  # toy checkpoints lack what fairseq-validate asks for
    monkeypatch.setattr("marian.loss_per_word", lambda model, *_: losses[Path(model).name])

    def measure(minutes: float) -> tuple[str, list[dict[str, str]]]:
        result = command(
            *("marian", "--data", data, "--config", data / "experiments.toml", "--experiment", "toy"),
            *("--folder", folder, "--minutes", minutes, "--beside", data / "models" / "two"),
        )
        assert result.code == 0, result.err
        return read_table(data / "results" / "marian.tsv")

    sign, rows = measure(0.001)
    assert sign.startswith("# marian|huggingface:de-en@")
    assert [row["model"] for row in rows[-2:]] == ["two", "one"]
    assert [row["loss"] for row in rows[-2:]] == ["5.000", "4.000"]
    assert all(0 <= float(row["aer_toy"]) <= 100 for row in rows)
    cells = read_table(data / "results" / "marian.cells.tsv")[1]
    assert len(cells) == 2 * 2 * training.Recipe.layers
    same = read_table(data / "results" / "marian.checks.tsv")[1]
    assert [(row["what"], row["pairs"], row["same"]) for row in same] == [("pieces", "60", "60"), ("links", "60", "60")]
    again = measure(0.001)
    assert again == (sign, rows)
    seconds = torch.load(folder / "state.pt", weights_only=True)["seconds"]
    more = measure((seconds + 0.1) / 60)[1]
    assert more[: len(rows) - 2] == rows[:-2]
    assert len(more) > len(rows)


def test_losses_are_those_of_transformers_logits(training: Any, tmp_path: Path) -> None:
    words = [f"{a}{b}" for a in "bdfgklm" for b in "aeiou"]
    texts = [(" ".join(words[n:] + words[:n]), " ".join(words[: n + 1])) for n in range(len(words))] * 3
    training.write_vocabulary(tmp_path, texts, ("de", "en"), 60)
    vocabulary = training.Vocabulary(tmp_path)
    recipe = replace(training.Recipe(1), width=16, hidden=16, layers=1)
    model = training.make_model(recipe, vocabulary).eval()
    pairs = [vocabulary(pair) for pair in texts[:4]]
    with torch.inference_mode():
        found = float(training.losses(model, pairs, vocabulary.targets, 0.0))
        expected = 0.0
        for source, target in pairs:
            steps = torch.tensor([[vocabulary.pad, *target[:-1]]])
            logits = model(input_ids=torch.tensor([source]), decoder_input_ids=steps).logits[0]
            expected -= float(logits.log_softmax(-1)[range(len(target)), target].sum())
    assert found == pytest.approx(expected, rel=1e-5)
