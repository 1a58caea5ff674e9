"""Removal of heads from a fairseq checkpoint: a smaller and faster model with the same output as the masked one.

fairseq's settings have one number of heads for all layers, so fairseq itself cannot load the result. The remaining
projections of an attention keep their usual names, and an added entry (`KEPT`) lists the remaining heads, which keep
their numbers.
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from align.core.types import Cell, Part
from align.models.engine.builder import KEPT
from align.models.fairseq.architecture import upgraded
from align.models.fairseq.checkpoint import load_checkpoint, model_settings, saved_settings
from align.models.folder import ModelFolder
from align.models.recorder import ModelRecorder

ATTENTION: Mapping[Part, str] = {
    "encoder": "encoder.layers.{}.self_attn",
    "decoder": "decoder.layers.{}.self_attn",
    "cross": "decoder.layers.{}.encoder_attn",
}
"""Parameter prefixes in fairseq, with layers from 0."""

COPIES = re.compile(r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)")
"""Duplicate parameters that fairseq 0.12 saves, and recreates when it loads a model."""

FILES = {"sentencepiece": "{}.spm", "subword-nmt": "codes.{}", "subword-nmt-vocabulary": "codes.{}"}
"""Names of subword files in a model folder, by kind."""


def prune_checkpoint(state: Mapping[str, Any], heads: Collection[tuple[Part, int, int]]) -> dict[str, Any]:
    """Return a checkpoint without some heads and without the optimiser's state.

    Args:
        state: the result of `load_checkpoint`.
        heads: part, layer and head of each head to remove, layers and heads from 1.

    Raises:
        ValueError: a head does not exist, a layer would have no head left, or heads have been pruned before.
    """
    weights = {name: weight for name, weight in upgraded(state["model"]).items() if not COPIES.fullmatch(name)}
    settings = model_settings(saved_settings(state), weights)
    if is_pruned(state):
        raise ValueError("heads have been pruned from it before: begin with the whole model")
    for part, layer in sorted({head[:2] for head in heads}):
        count: int = getattr(settings, f"{'encoder' if part == 'encoder' else 'decoder'}_attention_heads")
        removed = {head for of, n, head in heads if (of, n) == (part, layer)}
        name = ATTENTION[part].format(layer - 1)
        if f"{name}.out_proj.weight" not in weights or not removed <= set(range(1, count + 1)):
            raise ValueError(f"there is no head {part} {layer}.{max(removed)}")
        remaining = [n for n in range(count) if n + 1 not in removed]
        if not remaining:
            raise ValueError(f"{part} layer {layer} would have no head left")
        weights |= _prune(weights, name, remaining, count)
    return {**state, "model": weights, "last_optimizer_state": None}


def is_pruned(state: Mapping[str, Any]) -> bool:
    """Tell whether a checkpoint lacks heads."""
    return any(name.endswith(f".{KEPT}") for name in state["model"])


def _prune(weights: Mapping[str, Tensor], name: str, remaining: list[int], count: int) -> dict[str, Tensor]:
    """Return one attention's weights for the remaining heads."""
    pruned = {f"{name}.{KEPT}": torch.tensor(remaining)}
    for part in "qkv":
        for kind in ("weight", "bias"):
            full = weights[f"{name}.{part}_proj.{kind}"]  # [H d, D] or [H d]
            pruned[f"{name}.{part}_proj.{kind}"] = full.reshape(count, -1, *full.shape[1:])[remaining].flatten(0, 1)
    out = weights[f"{name}.out_proj.weight"]  # [D, H d]
    pruned[f"{name}.out_proj.weight"] = out.reshape(len(out), count, -1)[:, remaining].flatten(1)
    return pruned


def write_pruned(
    folder: ModelFolder, recorder: ModelRecorder, heads: Collection[tuple[Part, int, int]], path: Path
) -> None:
    """Write a model folder without some heads, including its text processing and calibration.

    Args:
        folder: folder of the whole model.
        recorder: recorder of the whole model.
        heads: see `prune_checkpoint`.
        path: a new folder.

    Raises:
        ValueError: see `prune_checkpoint`.
        OSError: the folder exists or cannot be written.
    """
    state = prune_checkpoint(load_checkpoint(folder.checkpoint), heads)
    content = io.BytesIO()  # torch raises its own errors when a disk is full
    torch.save(state, content)
    path.mkdir(parents=True)
    (path / "checkpoint.pt").write_bytes(content.getvalue())
    for rules in (side.rules for side in recorder.sides):
        shutil.copyfile(folder.dictionary(rules.language), path / f"dict.{rules.language}.txt")
        if rules.subword_file:
            shutil.copyfile(rules.subword_file, path / FILES[rules.subwords].format(rules.language))
    (path / "model.toml").write_text(_describe(folder, recorder, heads), encoding="utf-8")


def _describe(folder: ModelFolder, recorder: ModelRecorder, heads: Collection[tuple[Part, int, int]]) -> str:
    """Return the content of model.toml, without calibrated heads that are removed."""
    rules = recorder.sides[0].rules
    lines = [f'source = "{recorder.languages[0]}"', f'target = "{recorder.languages[1]}"', "", "[text]"]
    lines += [f'{key} = "{getattr(rules, key)}"' for key in ("case", "tokenizer", "subwords")]
    for (score, position), cell in folder.calibration(recorder.languages).items():
        if ("cross", cell.layer, cell.head) not in heads:
            lines += ["", f"[calibration.{position}.{score}]", *_cell(cell)]
    return "\n".join([*lines, ""])


def _cell(cell: Cell) -> list[str]:
    return [f"layer = {cell.layer}", f"head = {cell.head}" if cell.head != "all" else 'head = "all"']
