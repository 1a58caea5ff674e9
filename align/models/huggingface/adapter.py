"""Merge LoRA adapters: find the model that an adapter was trained for, and add the adapter's updates to its weights.

Hu et al. (2021): W + s B A, with s = alpha / r, or alpha / sqrt(r) where `use_rslora` is set. The files are those of
peft: adapter_config.json and adapter_model.safetensors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align.core.errors import ModelError, shorten, show_value
from align.models.huggingface.config import Config, read_json
from align.models.huggingface.hub import fetch_model

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

KEEPING = ("gaussian", "eva", "orthogonal", "mica")
"""Values of `init_lora_weights`, with true and false, that leave the model's weights as they are. Others, such as
"pissa", subtract the initial factors from them, and peft does so again where it loads the adapter.
"""


PEFT_RANK = 8
"""Value of `r` where the settings have none."""


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

    def has_model(root: Path) -> bool:
        return (root / "config.json").is_file() and any((root / name).is_file() for name in weights)

    name, beside = base_beside(folder)
    candidates = [folder, *([beside] if beside else [])]
    if base := next(filter(has_model, candidates), None):
        if base != folder and is_adapter(base, weights):
            raise ModelError(f"its base {base.name} is an adapter too", file=str(folder), hint=MERGE)
        return base
    if re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name):
        return fetch_model(name)
    message = f"an adapter of {shorten(name) or 'a model that it does not name'}, which is not next to it"
    hint = "copy or link the model's folder next to the adapter's, with the same name" if name else MERGE
    raise ModelError(message, file=str(folder), hint=hint)


def base_beside(folder: Path) -> tuple[str, Path | None]:
    """Return what an adapter calls its base, and the folder of that name next to it."""
    config = Config(read_json(folder / CONFIG), str(folder / CONFIG))
    name = config.word("base_model_name_or_path", "")
    base_name = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    return name, folder.resolve().parent / base_name if re.fullmatch(r"\w[\w.-]*", base_name) else None


def merge_adapter(weights: dict[str, Tensor], read: Callable[[Path], dict[str, Tensor]], folder: Path) -> None:
    """Add an adapter's updates to a model's weights, in place."""
    config = Config(read_json(folder / CONFIG), str(folder / CONFIG))
    kind = config.word("peft_type", "LORA")
    unsupported = next((name for name in UNSUPPORTED if config.content.get(name)), None)
    init = config.content.get("init_lora_weights")
    if not (init is None or isinstance(init, bool) or str(init).lower() in KEEPING):
        unsupported = f"init_lora_weights {show_value(init)}"
    if kind != "LORA" or unsupported is not None:
        message = f"an adapter of type {shorten(kind)}" if kind != "LORA" else f"a LoRA adapter with {unsupported}"
        raise ModelError(f"{message}, which is not read", file=str(folder), hint=MERGE)
    path = folder / WEIGHTS
    if not path.is_file():
        message = f"an adapter without {WEIGHTS}; adapters in other files are not read"
        raise ModelError(message, file=str(folder), hint=MERGE)
    alpha = config.number("lora_alpha")
    scaled_by_root = config.switch("use_rslora", False)
    stored = {name.removeprefix(PREFIX).replace(".base_layer.", "."): tensor for name, tensor in read(path).items()}
    for name in sorted(stored):
        if name.endswith((".lora_A.weight", ".lora_embedding_A")):
            down, up = stored[name], _factor_b(stored, name, path)
            module = name.rpartition(".lora_")[0]
            if f"{module}.weight".endswith(TABLES):  # peft changes only what reads the table by this name
                message = f"it changes {shorten(module)}, and its files do not say where the model uses that table"
                raise ModelError(message, file=str(path), hint=MERGE)
            rank = len(down)
            if rank != config.size("r", PEFT_RANK) or not _is_target(module, config.content):
                message = f"it changes {shorten(module)}, which its settings leave out or give another rank"
                raise ModelError(message, file=str(path), hint=MERGE)
            scale = alpha / (math.sqrt(rank) if scaled_by_root else rank)
            factors = (up, down) if name.endswith(".weight") else (down.T, up.T)  # those of an embedding are transposed
            _add(weights, f"{module}.weight", scale, factors, path)
        elif name.endswith((".lora_B.weight", ".lora_embedding_B")):
            continue
        elif ".lora_" in name:
            raise ModelError(f"it has {shorten(name)}, which is not read", file=str(path), hint=MERGE)
        elif name.endswith(TABLES):
            _replace_table(weights, name, stored[name], path)
        elif name in weights and weights[name].shape == stored[name].shape:  # trained as a whole, such as a bias
            weights[name] = stored[name]
        else:
            message = f"it replaces {shorten(name)}, which its model does not have in that shape"
            raise ModelError(message, file=str(path))


def _is_target(module: str, content: Mapping[str, Any]) -> bool:
    """Tell whether peft changes a module with these settings.

    Names are compared as in peft. Regular expressions are not run, since they may take any time; peft itself writes
    factors only of modules that match.
    """
    targets, excluded, saved, layers = (
        content.get(name) for name in ("target_modules", "exclude_modules", "modules_to_save", "layers_to_transform")
    )
    if _ends_with(module, excluded) or any(
        f".{name}." in f".{module}." for name in (saved if isinstance(saved, list) else ())
    ):
        return False
    if not isinstance(targets, list) or module in targets:
        return True
    if not _ends_with(module, targets) or layers is None or layers == []:
        return _ends_with(module, targets)
    layer = next((part for part in module.split(".")[2:-1] if part.isdecimal()), "")
    return layer in map(str, layers if isinstance(layers, list) else [layers])


def _ends_with(module: str, names: object) -> bool:
    """Tell whether a module has one of these names, without those of the modules that it is in."""
    return isinstance(names, list) and any(f".{module}".endswith(f".{name}") for name in names)


def _factor_b(stored: Mapping[str, Tensor], name: str, path: Path) -> Tensor:
    """Return the factor B that belongs to a factor A."""
    name_of_b = name.replace(".lora_A.", ".lora_B.").replace(".lora_embedding_A", ".lora_embedding_B")
    if name_of_b not in stored or stored[name_of_b].dim() != 2 or stored[name].dim() != 2:
        raise ModelError(f"its {shorten(name)} lacks its other factor", file=str(path))
    if not len(stored[name]) or stored[name_of_b].shape[1] != len(stored[name]):
        raise ModelError(f"the factors of {shorten(name)} do not fit each other", file=str(path))
    return stored[name_of_b]


def _add(weights: dict[str, Tensor], name: str, scale: float, factors: tuple[Tensor, Tensor], path: Path) -> None:
    """Add a scaled product to a weight of its shape; the shapes are checked before the product is computed."""
    weight, (up, down) = weights.get(name), factors
    if weight is None or tuple(weight.shape) != (up.shape[0], down.shape[1]):
        raise ModelError(f"it changes {shorten(name)}, which its model does not have in that shape", file=str(path))
    merged = weight.float() + scale * (up.float() @ down.float())
    _set(weights, name, merged.to(weight.dtype))


def _replace_table(weights: dict[str, Tensor], name: str, tensor: Tensor, path: Path) -> None:
    """Set a larger embedding table, which peft saves if tokens were added before training.

    A table of the same size was trained in addition to the one that the model reads (`modules_to_save`). Whether the
    model uses it depends on how its tables were tied, which no file records.
    """
    if name.endswith("lm_head.weight") and name not in weights:
        return  # tied to the embedding
    if name not in weights or weights[name].shape[1:] != tensor.shape[1:] or len(weights[name]) == len(tensor):
        message = f"it has a separate {shorten(name)}, and its files do not say where the model uses it"
        raise ModelError(message, file=str(path), hint=MERGE)
    _set(weights, name, tensor)


def _set(weights: dict[str, Tensor], name: str, tensor: Tensor) -> None:
    """Set a weight under each name that shares its memory: tied embedding tables have several."""
    old = weights[name]
    for tied, weight in list(weights.items()):
        if weight.data_ptr() == old.data_ptr() and weight.shape == old.shape:
            weights[tied] = tensor
