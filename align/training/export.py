"""Export of checkpoints to one small file: averaged, in half precision, without optimiser state and paths."""

from __future__ import annotations

import io
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from align.models.fairseq.checkpoint import load_checkpoint
from align.training.recipe import CheckpointRecipe

_DEAD = re.compile(r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)$")
"""Parameters that fairseq 0.12.2 creates for a fast path and never uses."""

_PLAIN = {
    "arch": "transformer", "task": "translation", "criterion": "label_smoothed_cross_entropy", "data": ".",
    "save_dir": "checkpoints", "user_dir": None, "log_file": None, "finetune_from_model": None,
}  # fmt: skip
"""Replacements for settings that are only meaningful during training."""


def select(folder: Path, recipe: CheckpointRecipe) -> list[Path]:
    """Return the checkpoints of a run to average for the model."""
    name = "last" if recipe.select == "average" else recipe.select  # a short run may have no other
    selected = [path for path in [folder / f"checkpoint_{name}.pt"] if path.is_file()]
    if recipe.select == "average":
        saved = sorted(folder.glob("checkpoint_*_*.pt"), key=_updates)
        epochs = sorted(folder.glob("checkpoint[0-9]*.pt"), key=_updates)
        selected = (saved or epochs)[-recipe.average :] or selected
    if not selected:
        raise ValueError(f"{folder}: no checkpoint there to take ({recipe.select}); has the training saved any?")
    return selected


def _updates(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.stem)][::-1]


def average(paths: Sequence[Path]) -> dict[str, Any]:
    """Return the last checkpoint's state, with the mean of all checkpoints' weights."""
    state = load_checkpoint(paths[-1])
    if len(paths) == 1:
        return state
    total: dict[str, Tensor] = {name: weight.double() for name, weight in state["model"].items()}
    for path in paths[:-1]:
        weights = load_checkpoint(path)["model"]
        if {name: weight.shape for name, weight in weights.items()} != {name: w.shape for name, w in total.items()}:
            raise ValueError(f"{path}: not of the same model as {paths[-1]}")
        for name, weight in weights.items():
            total[name] += weight
    state["model"] = {name: (weight / len(paths)).float() for name, weight in total.items()}
    return state


def shrink(state: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a state that is needed to use the model, for any fairseq, with or without our plugin."""
    weights = {}
    tied = getattr(state["cfg"]["model"], "share_decoder_input_output_embed", False)
    for name, weight in state["model"].items():
        if _DEAD.search(name) or (tied and name == "decoder.output_projection.weight"):
            continue
        if name.endswith("embed_positions._float_tensor"):  # never set or read: only its type and device matter
            weight = torch.zeros_like(weight)
        weights[name] = weight.half().clone()
        if not weights[name].isfinite().all():
            raise ValueError(f"{name} is not finite in half precision: the training has failed")
    config = {name: dict(table) if isinstance(table, dict) else table for name, table in state["cfg"].items()}
    model = {name: _PLAIN.get(name, value) for name, value in vars(config["model"]).items() if _stock(name)}
    config["model"] = Namespace(**{**model, "_name": _PLAIN["arch"]})
    for name, table in config.items():
        if isinstance(table, dict):
            config[name] = {key: _PLAIN.get(key, value) for key, value in table.items() if _stock(key)}
    config["task"]["_name"], config["criterion"]["_name"] = _PLAIN["task"], _PLAIN["criterion"]
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    history["num_updates"] = state["optimizer_history"][-1]["num_updates"]
    return {
        "args": None,
        "cfg": config,
        "model": weights,
        "optimizer_history": [history],  # fairseq fails without it
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}, "val_loss": None},
        "last_optimizer_state": None,
    }


def _stock(name: str) -> bool:
    """Tell whether an option is from fairseq itself."""
    return not name.startswith("align_") and name not in ("cpu_bf16", "write_alignment")


def _interned(value: Any) -> Any:
    """Return a copy whose equal strings are one object, as pickle writes them: bytes do not depend on the process."""
    if type(value) is str:
        return sys.intern(value)
    if isinstance(value, dict):
        return {_interned(name): _interned(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_interned(part) for part in value]
    if isinstance(value, tuple):
        return tuple(_interned(part) for part in value)
    return Namespace(**_interned(vars(value))) if isinstance(value, Namespace) else value


def export(folder: Path, recipe: CheckpointRecipe, path: Path) -> list[Path]:
    """Select, average and shrink checkpoints of a run, and write the result; return the selected ones."""
    selected = select(folder, recipe)
    content = io.BytesIO()  # torch raises its own errors when a disk is full
    torch.save(_interned(shrink(average(selected))), content)
    path.write_bytes(content.getvalue())
    return selected
