"""`eval/run.py recipes`: what is trained, and what is measured of toy models in its place."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from align.training.recipe import read_recipe
from tests.eval.conftest import Result, read_table

pytestmark = pytest.mark.usefixtures("one_thread")

RECIPES = """
updates = 10
train = "toy"
[recipe.one]
[recipe.two]
seed = 7
updates = 20
text = { vocabulary = 500 }
fairseq = { encoder-layers = 2, dropout = 0.0 }
[recipe.three]
[recipe.after]
from = "two"
updates = 5
"""

TABLES = ("text", "data", "checkpoint")


@pytest.fixture
def recipes(door: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = importlib.import_module("recipes")
    (tmp_path / "recipes.toml").write_text(RECIPES, encoding="utf-8")
    monkeypatch.setattr(module, "RECIPES", tmp_path / "recipes.toml")
    return module


def test_every_recipe_of_the_study_is_one_and_differs_from_the_first(door: Any, tmp_path: Path) -> None:
    module = importlib.import_module("recipes")
    (first, base), *others = module.read_recipes(module.RECIPES).items()
    made = {}
    for name, changes in ((first, base), *others):
        module.write_recipe(changes, tmp_path / f"{name}.toml")
        made[name] = read_recipe(tmp_path / f"{name}.toml")
    bundled = read_recipe()
    assert [getattr(made[first], table) for table in TABLES] == [getattr(bundled, table) for table in TABLES]
    changed = {name for name in bundled.fairseq if made[first].fairseq[name] != bundled.fairseq[name]}
    assert changed == {"total-num-update", "max-update"}
    asked = [(changes["train"], (tmp_path / f"{name}.toml").read_bytes()) for name, changes in ((first, base), *others)]
    assert len(set(asked)) == len(asked)


def test_changes_are_written(recipes: Any, tmp_path: Path) -> None:
    recipes.write_recipe(recipes.read_recipes(recipes.RECIPES)["two"], tmp_path / "two.toml")
    recipe = read_recipe(tmp_path / "two.toml")
    assert (recipe.seeds, recipe.text.vocabulary, recipe.text.case) == ((7,), 500, "lower")
    options = recipe.fairseq
    assert [options[name] for name in ("max-update", "total-num-update", "encoder-layers", "dropout")] == [20, 20, 2, 0]


def measure(command: Callable[..., Result], data: Path, *names: str) -> Result:
    return command(
        *("recipes", "--data", data, "--config", data / "experiments.toml", "--experiment", "toy"),
        *("--folder", data / "trained", *names),
    )


@pytest.fixture
def trained(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Toy models in place of trained ones."""
    for name in ("one", "two"):
        shutil.copytree(data / "models" / name, data / "trained" / name)
        next((data / "trained" / name).glob("*.pt")).rename(data / "trained" / name / "checkpoint.pt")
    losses = {"one": 4.0, "two": 5.0}  # toy checkpoints lack what fairseq-validate asks for
    monkeypatch.setattr("recipes.loss_per_word", lambda model, *_: losses[Path(model).name])
    return data / "trained"


def test_what_is_trained_is_measured(recipes: Any, data: Path, trained: Path, command: Callable[..., Result]) -> None:
    result = measure(command, data, "one")
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "toy.recipes.tsv")
    assert sign.startswith("# recipes|gold:toy|")
    assert [(row["recipe"], row["updates"], row["loss"]) for row in rows] == [
        ("models/one", "n/a", "4.000"),
        ("one", "10", "4.000"),
        ("two", "20", "5.000"),
    ]
    bundled, same, _ = rows
    assert bundled["time"] == "1.00"
    for key in set(bundled) - {"recipe", "updates", "time"}:
        assert bundled[key] == same[key]
    assert all(0 <= float(row["aer_toy"]) <= 100 and "output position" in row["read"] for row in rows)


def test_a_study_is_made_in_parts(recipes: Any, data: Path, trained: Path, command: Callable[..., Result]) -> None:
    table = data / "results" / "toy.recipes.tsv"
    measure(command, data)
    before = read_table(table)[1]
    (trained / "one").rename(data / "elsewhere")
    result = measure(command, data)
    assert result.code == 0, result.err
    bundled, one, two = read_table(table)[1]
    assert (one, [row["recipe"] for row in (bundled, two)]) == (before[1], ["models/one", "two"])
    table.write_text(table.read_text(encoding="utf-8").replace("lines:1000", "lines:999", 1), encoding="utf-8")
    result = measure(command, data)
    assert (result.code, "toy.recipes.tsv was measured otherwise" in result.err) == (1, True)


def test_training_gets_the_text_that_is_to_be_taken(recipes: Any, data: Path, command: Callable[..., Result]) -> None:
    source = data / "train.de"
    source.write_bytes(source.read_bytes().replace(b"\n", b" \xff\n", 1))
    assert "train.de" in measure(command, data, "three").err
    source.write_bytes(source.read_bytes().replace(b" \xff", b""))
    result = measure(command, data, "three")  # whose vocabulary is too large for it
    assert (result.code, result.out) == (1, "")
    assert result.err.endswith("recipes: error: recipe three was not trained to its end\n")
    assert len((data / "trained/toy.de").read_text(encoding="utf-8").splitlines()) == 300


def test_training_begins_with_the_model_of_another_recipe(
    recipes: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, commands = recipes.read_recipes(recipes.RECIPES), []

    def run(command: list[str | Path], cwd: Path) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(recipes.subprocess, "run", run)
    about = recipes.read_config(data / "experiments.toml")["train"]["toy"]
    for name in ("two", "after"):
        recipes.train(name, known[name], about, data, tmp_path)
    two, after = commands
    assert "--finetune-from" not in two
    assert after[after.index("--finetune-from") + 1] == tmp_path / "two"
    assert [recipes.updates_of(name, known) for name in ("two", "after")] == [20, 25]


def test_no_such_recipe_and_no_model_are_errors(recipes: Any, data: Path, command: Callable[..., Result]) -> None:
    result = measure(command, data, "four")
    assert (result.code, "no recipe four, only one, two, three, after" in result.err) == (2, True)
    result = measure(command, data)
    assert (result.code, result.err.endswith("trained: no model there; name recipes to train\n")) == (1, True)
