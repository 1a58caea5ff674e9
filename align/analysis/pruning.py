"""Removal of the heads that a fairseq model needs least: a smaller, faster model with the output of the masked one.

fairseq's settings have one number of heads for all layers, so fairseq itself cannot load the result. The remaining
projections of an attention keep their usual names, and an added entry (`KEPT`) lists the remaining heads, which keep
their numbers.
"""

from __future__ import annotations

import errno
import io
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import torch

from align.analysis.ablation import Ablation, by_layer, pruning_order
from align.analysis.commands.common import Answer, load_aligner, names_of
from align.analysis.commands.questions import Prune
from align.analysis.models.heads import AttentionHead, all_heads
from align.cli.args import ModelArgs
from align.cli.loading import Request
from align.core.errors import DataError, ModelError
from align.core.types import Part
from align.models.engine.builder import KEPT
from align.models.fairseq.architecture import upgraded
from align.models.fairseq.checkpoint import load_checkpoint, model_settings, saved_settings
from align.models.folder import ModelFolder, find_model
from align.models.model_toml import ModelOptions, format_model_toml
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
    """Return a checkpoint without some heads and without the optimiser's state; each layer keeps a head or more."""
    weights = {name: weight for name, weight in upgraded(state["model"]).items() if not COPIES.fullmatch(name)}
    settings = model_settings(saved_settings(state), weights)
    for part, layer in sorted({head[:2] for head in heads}):
        count: int = getattr(settings, f"{'encoder' if part == 'encoder' else 'decoder'}_attention_heads")
        removed = {head for of, n, head in heads if (of, n) == (part, layer)}
        name = ATTENTION[part].format(layer - 1)
        remaining = [n for n in range(count) if n + 1 not in removed]
        weights[f"{name}.{KEPT}"] = torch.tensor(remaining)
        for projection, kind in product("qkv", ("weight", "bias")):
            full = weights[f"{name}.{projection}_proj.{kind}"]  # [H d, D] or [H d]
            by_head = full.reshape(count, -1, *full.shape[1:])[remaining]
            weights[f"{name}.{projection}_proj.{kind}"] = by_head.flatten(0, 1)
        out = weights[f"{name}.out_proj.weight"]  # [D, H d]
        weights[f"{name}.out_proj.weight"] = out.reshape(len(out), count, -1)[:, remaining].flatten(1)
    return {**state, "model": weights, "last_optimizer_state": None}


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
    options = ModelOptions(*recorder.languages, case=rules.case, tokenizer=rules.tokenizer, subwords=rules.subwords)
    stored = folder.calibration(recorder.languages).items()
    cells = {place: cell for place, cell in stored if ("cross", cell.layer, cell.head) not in heads}
    (path / "model.toml").write_text(format_model_toml(options, {"": cells}), encoding="utf-8")


def least_needed(ablation: Ablation, number: int, order: Literal["importance", "effect"]) -> list[AttentionHead]:
    """Return the heads to prune, the first first: by their gates' gradient, or by the loss without each.

    One head per layer is never among them.
    """
    heads = all_heads(ablation.blocks)
    spare = len(heads) - len(ablation.blocks)
    if number > spare:
        raise DataError(f"cannot prune {number:,} heads: at most {spare:,}, because each layer keeps one")
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


def answer(question: Prune, request: Request) -> Answer:
    """Write the model without some heads, and compare it with the whole one."""
    pairs, shown = question.read_pairs()
    pairs = pairs[: question.lines]
    if question.output.exists():
        raise FileExistsError(errno.EEXIST, "the folder exists: name another one", str(question.output))
    aligner = load_aligner(request)
    recorder: Any = aligner.forward.recorder
    if recorder.backend != "fairseq":
        raise ModelError(f"{recorder.name}: heads can be taken out of fairseq models only")
    folder = find_model(request.name, request.options)
    before = Ablation(aligner, pairs, file=shown)
    heads = least_needed(before, question.heads, question.order)
    write_pruned(folder, recorder, heads, question.output)
    smaller = replace(request, model=ModelArgs(str(question.output)))
    pruned = load_aligner(smaller, whole=False).forward.recorder.name
    written = find_model(smaller.name, smaller.options)
    parts = {"model": recorder.name, "text": names_of(*question.text.files), "n": len(pairs), "pruned": pruned}
    return pruning(before, heads, folder.checkpoint, written.checkpoint), parts
