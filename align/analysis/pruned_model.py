"""Heads removed from a fairseq checkpoint: a smaller and faster model that gives what the masked one gives.

fairseq's settings know one number of heads for all layers, so fairseq itself cannot load the result. What is left of an
attention's projections stands under their usual names, and beside them which heads these are (`KEPT`): heads keep their
numbers.
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
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.fairseq.settings import model_settings, saved_settings
from align.models.folder import ModelFolder
from align.models.recorder import ModelRecorder

ATTENTION: Mapping[Part, str] = {
    "encoder": "encoder.layers.{}.self_attn",
    "decoder": "decoder.layers.{}.self_attn",
    "cross": "decoder.layers.{}.encoder_attn",
}
"""fairseq's names, of layers from 0."""

COPIES = re.compile(r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)")
"""What fairseq 0.12 saves a second time, and makes anew when it loads a model."""

FILES = {"sentencepiece": "{}.spm", "subword-nmt": "codes.{}", "subword-nmt-vocabulary": "codes.{}"}
"""Names under which files of subwords are found, by kind."""


def prune_checkpoint(state: Mapping[str, Any], heads: Collection[tuple[Part, int, int]]) -> dict[str, Any]:
    """The checkpoint of the same model without some heads, and without an optimiser's state.

    Args:
        state: of `load_checkpoint`.
        heads: part, layer and head of each that goes, the latter two from 1.

    Raises:
        ValueError: there is no such head, or none would be left in a layer, or some have been pruned before.
    """
    weights = {name: weight for name, weight in upgraded(state["model"]).items() if not COPIES.fullmatch(name)}
    settings = model_settings(saved_settings(state), weights)
    if any(name.endswith(f".{KEPT}") for name in weights):
        raise ValueError("heads have been pruned from it before: begin with the whole model")
    for part, layer in sorted({head[:2] for head in heads}):
        count: int = getattr(settings, f"{'encoder' if part == 'encoder' else 'decoder'}_attention_heads")
        gone = {head for of, n, head in heads if (of, n) == (part, layer)}
        name = ATTENTION[part].format(layer - 1)
        if f"{name}.out_proj.weight" not in weights or not gone <= set(range(1, count + 1)):
            raise ValueError(f"there is no head {part} {layer}.{max(gone)}")
        kept = [n for n in range(count) if n + 1 not in gone]
        if not kept:
            raise ValueError(f"{part} layer {layer} would have no head left")
        weights |= _prune(weights, name, kept, count)
    return {**state, "model": weights, "last_optimizer_state": None}


def _prune(weights: Mapping[str, Tensor], name: str, kept: list[int], count: int) -> dict[str, Tensor]:
    """One attention's weights for those heads only."""
    found = {f"{name}.{KEPT}": torch.tensor(kept)}
    for part in "qkv":
        for kind in ("weight", "bias"):
            full = weights[f"{name}.{part}_proj.{kind}"]  # [H d, D] or [H d]
            found[f"{name}.{part}_proj.{kind}"] = full.reshape(count, -1, *full.shape[1:])[kept].flatten(0, 1)
    out = weights[f"{name}.out_proj.weight"]  # [D, H d]
    found[f"{name}.out_proj.weight"] = out.reshape(len(out), count, -1)[:, kept].flatten(1)
    return found


def write_pruned(
    folder: ModelFolder, recorder: ModelRecorder, heads: Collection[tuple[Part, int, int]], path: Path
) -> None:
    """Write a model folder without some heads, with all that the model needs: text processing, and what is calibrated.

    Args:
        folder: of the whole model.
        recorder: of the same.
        heads: see `prune_checkpoint`.
        path: a new folder.

    Raises:
        ValueError: as there.
        OSError: there is something of that name, or it cannot be written.
    """
    state = prune_checkpoint(load_checkpoint(folder.checkpoint), heads)
    content = io.BytesIO()  # torch raises errors of its own where a disk is full
    torch.save(state, content)
    path.mkdir(parents=True)
    (path / "checkpoint.pt").write_bytes(content.getvalue())
    for rules in (side.rules for side in recorder.sides):
        shutil.copyfile(folder.dictionary(rules.language), path / f"dict.{rules.language}.txt")
        if rules.subword_file:
            shutil.copyfile(rules.subword_file, path / FILES[rules.subwords].format(rules.language))
    (path / "model.toml").write_text(_describe(folder, recorder, heads), encoding="utf-8")


def _describe(folder: ModelFolder, recorder: ModelRecorder, heads: Collection[tuple[Part, int, int]]) -> str:
    """A model.toml; a calibrated head that is gone is no longer in it."""
    rules = recorder.sides[0].rules
    lines = [f'source = "{recorder.languages[0]}"', f'target = "{recorder.languages[1]}"', "", "[text]"]
    lines += [f'{key} = "{getattr(rules, key)}"' for key in ("case", "tokenizer", "subwords")]
    for (score, position), cell in folder.calibration.items():
        if ("cross", cell.layer, cell.head) not in heads:
            lines += ["", f"[calibration.{position}.{score}]", *_cell(cell)]
    return "\n".join([*lines, ""])


def _cell(cell: Cell) -> list[str]:
    return [f"layer = {cell.layer}", f"head = {cell.head}" if cell.head != "all" else 'head = "all"']
