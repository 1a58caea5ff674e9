"""What in a small translation model, and in its training, makes its alignments better, and at what cost.

    .venv/bin/python eval/run.py recipes --data DIR --folder FOLDER [RECIPE ...]

The recipes are in eval/recipes.toml: that of the bundled models with fewer updates, then with one thing changed.
Those that are named are trained in FOLDER first, where a training that was stopped goes on; two shells may train two at
once. Then all that have been trained there are measured: the loss, error rates of one model, and time for a line beside
the bundled model's. Rows of recipes that are not in FOLDER stay as they are in the table that was there before, so that
a study of many hours can be made in parts, on machines of one kind.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import (
    Text,
    chosen,
    find_experiment,
    read_config,
    read_rows,
    read_text,
    read_train,
    score_columns,
    score_row,
    write_table,
)
from programs import ROOT, machine
from quality import loss_per_word
from timing import in_turn, ratio, read

from align import Aligner, Direction, Pair, Settings, load
from align.core.types import Place
from align.evaluation.metrics import count_all, estimate
from align.evaluation.tables import Column, Value, percent
from align.io.signature import signature
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.folder import find_model
from align.models.model_toml import ModelOptions, parse_toml
from align.training.recipe import DEFAULT_RECIPE, bundled_recipes
from align.training.run import Machine

RECIPES = Path(__file__).parent / "recipes.toml"

LINES, PART, ROUNDS = 1_000, 250, 3
"""Of the validation text that all models align for their times, in parts, in turn, so often."""

COLUMNS = [
    Column("recipe", "recipe"),
    Column("updates", "updates"),
    Column("size", "M parameters", 2),
    Column("loss", "nats per word", 3),
    Column("time", "time a line", 2),
    Column("read", "read at", None, True),
    Column("input", "AER input", 1),
]


def read_recipes(path: Path) -> dict[str, dict[str, Any]]:
    """What each recipe changes, with the number of updates and the training text, by name."""
    content = parse_toml(path.read_text(encoding="utf-8"))
    recipes: dict[str, dict[str, Any]] = content.pop("recipe")
    return {name: content | changes for name, changes in recipes.items()}


def updates_of(name: str, recipes: dict[str, dict[str, Any]]) -> int:
    """All updates of a recipe's model, those of the model that its training begins with among them."""
    changes = recipes[name]
    before = updates_of(changes["from"], recipes) if "from" in changes else 0
    return before + int(changes["updates"])


def write_recipe(changes: dict[str, Any], path: Path) -> None:
    """The bundled models' recipe with these changes, as a file for `scripts/train_model`."""
    recipe = parse_toml(bundled_recipes()[DEFAULT_RECIPE].read_text(encoding="utf-8"))
    updates = {"total-num-update": changes["updates"], "max-update": changes["updates"]}
    lines = [f"seeds = [{changes.get('seed', 1)}]"]
    for table in ("data", "text", "checkpoint", "fairseq"):
        values = recipe[table] | (updates if table == "fairseq" else {}) | changes.get(table, {})
        lines += ["", f"[{table}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_train(about: dict[str, Any], data: Path, prefix: Path) -> list[Path]:
    """A training text as one file a side, unless it is there."""
    paths = [prefix.with_name(f"{prefix.name}.{language}") for language in about["languages"]]
    if not all(path.exists() for path in paths):
        parts = [path.with_name(f"{path.name}.{os.getpid()}.part") for path in paths]
        with parts[0].open("w", encoding="utf-8") as source, parts[1].open("w", encoding="utf-8") as target:
            for pair in read_train(about, data, tokenize=False):
                print(*pair.source, file=source)
                print(*pair.target, file=target)
        for part, path in zip(parts, paths, strict=True):
            part.replace(path)
    return paths


def train(name: str, changes: dict[str, Any], about: dict[str, Any], data: Path, folder: Path) -> None:
    """Train a model into a folder's folder, unless that has been done.

    Raises:
        ValueError: `scripts/train_model` failed, and has said why.
    """
    model = folder / name
    if (model / "checkpoint.pt").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    recipe = folder / f"{name}.toml"
    write_recipe(changes, recipe)
    languages, texts = about["languages"], write_train(about, data, folder / changes["train"])
    command: list[str | Path] = [sys.executable, "-P", "-m", "align.training", model, "--recipe", recipe]
    if "from" in changes:
        command += ["--finetune-from", folder / changes["from"]]
    for side, language, text, valid in zip(("source", "target"), languages, texts, about["valid"], strict=True):
        command += [f"--{side}", text, f"--{side}-lang", language, f"--valid-{side}", data / valid]
    if subprocess.run([*command, "--threads", str(torch.get_num_threads())], cwd=ROOT).returncode:
        raise ValueError(f"recipe {name} was not trained to its end")


def columns(text: Text) -> list[Column]:
    """Of error rates: no test, since models of two seeds differ by more than sentences let one expect."""
    return [column for column in score_columns(text) if column.key != "p"]


def row_of(model: str, text: Text, valid: Path) -> tuple[dict[str, Value], Place]:
    """Size, loss, error rates in the input position and by default; and where the default reads."""
    aligner = load(model, device="cpu")
    loss = loss_per_word(model, valid, ModelOptions(), Machine("cpu", torch.get_num_threads()))
    weights = load_checkpoint(find_model(model, ModelOptions()).checkpoint)["model"]
    best = Aligner(Direction(aligner.forward.recorder, Settings(position="input", threshold=None)))
    place = chosen(aligner, text.pairs).place
    by_default, by_best = (
        count_all([alignment.links for alignment in some(text.pairs)], text.gold) for some in (aligner, best)
    )
    row: dict[str, Value] = {"size": sum(weight.numel() for weight in weights.values()) / 1e6, "loss": loss}
    row |= {"read": str(place), "input": percent(estimate(by_best, samples=0).value)}
    return row | score_row(by_default, text, None), place


def times(models: dict[str, Place], pairs: list[Pair]) -> dict[str, float]:
    """Time for a line of each model, by name or folder, read where it chooses to, in units of the first one's."""
    ways: dict[str, Callable[[list[Pair]], object]] = {}
    for name, place in models.items():
        read, predicted = place.cells().values()
        settings = Settings(layer=read.layer, head=read.head, output_layer=predicted.layer, output_head=predicted.head)
        ways[name] = partial(_align, Aligner(Direction(load(name, device="cpu").forward.recorder, settings)))
    seconds = in_turn(ways, [pairs[n : n + PART] for n in range(0, len(pairs), PART)], ROUNDS)
    return {name: ratio(seconds, name, next(iter(models))) for name in models}


def _align(aligner: Aligner, pairs: list[Pair]) -> list[object]:
    return list(aligner(pairs))


def run(data: Path, config: Path, experiment: str, folder: Path, recipes: list[str], output: Path) -> None:
    """Train, measure, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment or recipe.
        ValueError: a training failed, nothing has been trained, or the table that is there was made otherwise.
    """
    settings, known = read_config(config), read_recipes(RECIPES)
    about = find_experiment(settings, experiment)
    if unknown := [name for name in recipes if name not in known]:
        raise argparse.ArgumentError(None, f"no recipe {unknown[0]}, only {', '.join(known)}")
    text, table = read_text(settings, about["gold"], data), output / f"{experiment}.recipes.tsv"
    parts: dict[str, str | int] = {"gold": "+".join(text.names), "lines": LINES, "rounds": ROUNDS}
    sign = signature(parts, "recipes", {"machine": machine(torch.get_num_threads())})
    rows = {str(row["recipe"]): row for row in read_rows(table, sign)}
    for name in recipes:
        train(name, known[name], settings["train"][known[name]["train"]], data, folder)
    trained = [name for name in known if (folder / name / "checkpoint.pt").exists()]
    if not trained:
        raise ValueError(f"{folder}: no model there; name recipes to train")
    bundled = about["models"][0]
    models = {bundled: str(data / bundled) if "/" in bundled else bundled}
    models |= {name: str(folder / name) for name in trained}
    valid, places = settings["train"][about["train"][0]]["valid"], {}
    for name, model in models.items():
        updates = updates_of(name, known) if name in known else None
        row, places[model] = row_of(model, text, (data / valid[0]).with_suffix(""))
        rows[name] = {"recipe": name, "updates": updates, **row}
    spent = times(places, read(str(data / valid[0]), str(data / valid[1]), LINES))
    for name, model in models.items():
        rows[name]["time"] = spent[model]
    ordered = [rows[name] for name in (bundled, *known) if name in rows]
    write_table([*COLUMNS, *columns(text)], ordered, sign, table)
