"""Merge LoRA adapters: find the model that an adapter was trained for, and add the adapter's updates to its weights.

Hu et al. (2021): W + s B A, with s = alpha / r, or alpha / sqrt(r) where `use_rslora` is set. The files are those of
peft: adapter_config.json and adapter_model.safetensors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from align.core.errors import ModelError, shorten, show_value
from align.models.huggingface.hub import fetch_model
from align.models.settings import read_config

if TYPE_CHECKING:
    from torch import Tensor

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
PREFIX = "base_model.model."

TABLES = ("shared.weight", "embed_tokens.weight", "lm_head.weight", "output_projection.weight")
"""Endings of the names of embedding tables, of which several may be tied."""

MERGE = "merge it where it was trained: merge_and_unload() and save_pretrained() of peft write a whole model"

UNSUPPORTED = (
    *("use_dora", "fan_in_fan_out", "alpha_pattern", "rank_pattern", "layer_replication", "megatron_config"),
    *("layers_pattern", "target_parameters"),
    *("use_qalora", "use_bdlora", "arrow_config", "kasa_config", "monteclora_config", "alora_invocation_tokens"),
)
"""Settings that change the sum; each must be unset, false or empty."""


def is_adapter(folder: Path, model_weights: tuple[str, ...]) -> bool:
    """Tell whether a folder holds an adapter; adapter settings next to a whole model do not count."""
    has_weights = any((folder / name).is_file() for name in (WEIGHTS, "adapter_model.bin"))
    whole = any((folder / name).is_file() for name in model_weights)
    return (folder / CONFIG).is_file() and (has_weights or not whole)


def find_base(folder: Path, weights: tuple[str, ...]) -> Path:
    """Return the folder of the model that an adapter was trained for.

    It is the adapter's folder if this holds a whole model, else a folder of the model's name next to it, else the
    model of that name on the Hugging Face hub. An adapter is not trusted: it cannot name any other folder.
    """
    name = read_config(folder / CONFIG).word("base_model_name_or_path", "")
    candidates = [folder]
    base_name = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    if re.fullmatch(r"\w[\w.-]*", base_name):
        candidates.append(folder.resolve().parent / base_name)
    for base in candidates:
        if (base / "config.json").is_file() and any((base / weight).is_file() for weight in weights):
            if base != folder and is_adapter(base, weights):
                raise ModelError(f"its base {base.name} is an adapter too", file=str(folder), hint=MERGE)
            return base
    if re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name):
        return fetch_model(name)
    message = f"an adapter of {shorten(name) or 'a model that it does not name'}, which is not next to it"
    hint = "copy or link the model's folder next to the adapter's, with the same name" if name else MERGE
    raise ModelError(message, file=str(folder), hint=hint)


def merge_adapter(weights: dict[str, Tensor], read: Callable[[Path], dict[str, Tensor]], folder: Path) -> None:
    """Add an adapter's updates to a model's weights, in place."""
    config = read_config(folder / CONFIG)
    kind, init = config.word("peft_type", "LORA"), config.content.get("init_lora_weights")
    unsupported = [name for name in UNSUPPORTED if config.content.get(name)]
    # Other values, such as "pissa", subtract the initial factors from the weights: peft does so again at loading.
    if not (init is None or isinstance(init, bool) or str(init).lower() in ("gaussian", "eva", "orthogonal", "mica")):
        unsupported.append(f"init_lora_weights {show_value(init)}")
    if kind != "LORA" or unsupported:
        message = f"an adapter of type {shorten(kind)}" if kind != "LORA" else f"a LoRA adapter with {unsupported[0]}"
        raise ModelError(f"{message}, which is not supported", file=str(folder), hint=MERGE)
    path = folder / WEIGHTS
    if not path.is_file():
        message = f"an adapter without {WEIGHTS}; adapters in other files are not supported"
        raise ModelError(message, file=str(folder), hint=MERGE)
    alpha, rank = config.number("lora_alpha"), config.size("r", 8)
    scale = alpha / (math.sqrt(rank) if config.switch("use_rslora", False) else rank)
    stored = {name.removeprefix(PREFIX).replace(".base_layer.", "."): tensor for name, tensor in read(path).items()}
    for name, tensor in stored.items():
        module, _, factor = name.partition(".lora_")
        changed = f"{module}.weight" if factor else name
        if factor not in ("", "A.weight", "B.weight") or (factor and changed.endswith(TABLES)):
            raise ModelError(f"it has {shorten(name)}, which is not supported", file=str(path), hint=MERGE)
        weight = weights.get(changed)
        if factor == "A.weight":
            up = stored.get(f"{module}.lora_B.weight")
            shapes = (up.shape, tensor.shape) if up is not None else None
            if weight is None or weight.dim() != 2 or shapes != ((len(weight), rank), (rank, weight.shape[1])):
                raise ModelError(f"its factors of {shorten(changed)} do not fit its model", file=str(path))
            assert up is not None
            weights[changed] = (weight.float() + scale * (up.float() @ tensor.float())).to(weight.dtype)
        elif factor and f"{module}.lora_A.weight" not in stored:
            raise ModelError(f"its {shorten(name)} lacks its other factor", file=str(path))
        elif name.endswith(TABLES):
            _replace_table(weights, name, tensor, path)
        elif not factor and weight is not None and weight.shape == tensor.shape:  # trained as a whole, such as a bias
            weights[name] = tensor
        elif not factor:
            message = f"it replaces {shorten(name)}, which its model does not have in that shape"
            raise ModelError(message, file=str(path))


def _replace_table(weights: dict[str, Tensor], name: str, tensor: Tensor, path: Path) -> None:
    """Set a larger embedding table, which peft saves if tokens were added before training, under all its names.

    A table of the same size was trained in addition to the one that the model reads (`modules_to_save`). Whether the
    model uses it depends on how its tables were tied, which no file records.
    """
    old = weights.get(name)
    if old is None and name.endswith("lm_head.weight"):
        return  # tied to the embedding
    if old is None or old.shape[1:] != tensor.shape[1:] or len(old) == len(tensor):
        message = f"it has a separate {shorten(name)}, and its files do not say where the model uses it"
        raise ModelError(message, file=str(path), hint=MERGE)
    for tied, weight in list(weights.items()):
        if weight.data_ptr() == old.data_ptr() and weight.shape == old.shape:
            weights[tied] = tensor
