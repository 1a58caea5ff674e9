"""Removal of the heads that a fairseq model needs least: a smaller, faster model with the output of the masked one.

fairseq's settings have one number of heads for all layers, so fairseq itself cannot load the result. The remaining
projections of an attention keep their usual names, and an added entry (`KEPT`) lists the remaining heads, which keep
their numbers.
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

import torch

from align.analysis.ablation import Ablation, by_layer, pruning_order
from align.analysis.models.heads import AttentionHead, all_heads
from align.core.errors import DataError
from align.core.types import Part
from align.models.engine.builder import KEPT
from align.models.fairseq.architecture import upgraded
from align.models.fairseq.checkpoint import load_checkpoint, model_settings, saved_settings
from align.models.folder import ModelFolder
from align.models.recorder import ModelRecorder
from align.view.findings import Finding, make_table

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
        weights[f"{name}.{KEPT}"] = torch.tensor(remaining)
        for projection, kind in product("qkv", ("weight", "bias")):
            full = weights[f"{name}.{projection}_proj.{kind}"]  # [H d, D] or [H d]
            by_head = full.reshape(count, -1, *full.shape[1:])[remaining]
            weights[f"{name}.{projection}_proj.{kind}"] = by_head.flatten(0, 1)
        out = weights[f"{name}.out_proj.weight"]  # [D, H d]
        weights[f"{name}.out_proj.weight"] = out.reshape(len(out), count, -1)[:, remaining].flatten(1)
    return {**state, "model": weights, "last_optimizer_state": None}


def is_pruned(state: Mapping[str, Any]) -> bool:
    """Tell whether a checkpoint lacks heads."""
    return any(name.endswith(f".{KEPT}") for name in state["model"])


def write_pruned(
    folder: ModelFolder, recorder: ModelRecorder, heads: Collection[tuple[Part, int, int]], path: Path
) -> None:
    """Write a model folder without some heads, including its text processing and calibration."""
    state = prune_checkpoint(load_checkpoint(folder.checkpoint), heads)
    content = io.BytesIO()  # torch raises its own errors when a disk is full
    torch.save(state, content)
    path.mkdir(parents=True)
    (path / "checkpoint.pt").write_bytes(content.getvalue())
    for side in recorder.sides:
        language, subwords = side.rules.language, side.rules.subword_file
        shutil.copyfile(folder.dictionary(language), path / f"dict.{language}.txt")
        if subwords:
            shutil.copyfile(subwords, path / FILES[side.rules.subwords].format(language))
    rules = recorder.sides[0].rules
    lines = [f'source = "{recorder.languages[0]}"', f'target = "{recorder.languages[1]}"', "", "[text]"]
    lines += [f'{key} = "{getattr(rules, key)}"' for key in ("case", "tokenizer", "subwords")]
    for (score, position), cell in folder.calibration(recorder.languages).items():
        if ("cross", cell.layer, cell.head) not in heads:  # a calibrated head that is removed is none
            head = cell.head if cell.head != "all" else '"all"'
            lines += ["", f"[calibration.{position}.{score}]", f"layer = {cell.layer}", f"head = {head}"]
    (path / "model.toml").write_text("\n".join([*lines, ""]), encoding="utf-8")


def least_needed(ablation: Ablation, number: int, order: Literal["importance", "effect"]) -> list[AttentionHead]:
    """Return the heads to prune, the first first: by their gates' gradient, or by the loss without each.

    One head per layer is never among them.
    """
    heads = all_heads(ablation.blocks)
    spare = len(heads) - len(ablation.blocks)
    if number > spare:
        raise DataError(f"{number:,} heads cannot go: the model can spare {spare:,}, for each layer keeps one")
    if order == "importance":
        return pruning_order(ablation.blocks, by_layer(ablation.blocks, ablation.importance()))[:number]
    effects = [ablation.measure([head], complete=False).losses.sum() for head in heads]
    return pruning_order(ablation.blocks, effects)[:number]


def pruning(ablation: Ablation, heads: Sequence[AttentionHead], whole: Path, pruned: Path) -> Finding:
    """Report the pruned heads, the first first, and size and loss of the models in both checkpoints."""
    models = []
    for name, checkpoint, masked in (("whole", whole, ()), ("pruned", pruned, heads)):
        stored = {  # each number once, even if several weights share it
            weight.untyped_storage().data_ptr(): weight.untyped_storage().nbytes() // weight.element_size()
            for weight in load_checkpoint(checkpoint)["model"].values()
        }
        loss = ablation.loss(ablation.measure(masked, complete=False))
        models.append([name, len(all_heads(ablation.blocks)) - len(masked), sum(stored.values()), loss])
    tables = {
        "models": make_table(
            "model | heads | weights | loss .3",
            models,
            "weights: numbers in the checkpoint; loss: nats per piece of the target, </s> among them",
        ),
        "pruned": make_table(
            "number | part | layer | head", [[n, *head] for n, head in enumerate(heads, 1)], "the least needed first"
        ),
    }
    return Finding(tables)
