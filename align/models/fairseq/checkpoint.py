"""Read a fairseq checkpoint from a file that torch saved, and its settings.

fairseq evaluates some settings as Python while it builds a model, opens files that other settings name, and follows
OmegaConf's interpolations. So no setting is passed on unchecked: the model is described by the few settings that a
Transformer's arithmetic depends on, each a number, a switch or one of a few words.
"""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from align.core.errors import show_value
from align.models.fairseq.architecture import ACTIVATIONS
from align.models.recognise import other_kind
from align.models.saved import NotWanted, load_saved, plain_weights
from align.models.settings import Config

SIDES = ("encoder", "decoder")
SWITCHES = (
    *(f"{side}_{name}" for side in SIDES for name in ("normalize_before", "learned_pos")),
    "share_decoder_input_output_embed", "share_all_embeddings", "no_token_positional_embeddings",
    "layernorm_embedding", "no_scale_embedding", "adaptive_input", "tie_adaptive_weights", "tie_adaptive_proj",
    "no_cross_attention", "cross_self_attention", "no_decoder_final_norm",
    "scale_attn", "scale_heads", "scale_fc", "scale_resids", "full_context",
)  # fmt: skip
SIZES = (
    *(f"{side}_{name}" for side in SIDES for name in ("embed_dim", "ffn_embed_dim", "attention_heads", "layers")),
    "decoder_input_dim", "decoder_output_dim", "max_source_positions", "max_target_positions",
    "quant_noise_pq_block_size",
)  # fmt: skip
NUMBERS = ("adaptive_softmax_factor", "quant_noise_pq")


def plain_dict(part: Any) -> dict[Any, Any]:
    """Return a part of a checkpoint's configuration, saved as a dict or a Namespace, as a dict; else an empty dict."""
    if isinstance(part, Namespace):
        return dict(vars(part))
    return part if type(part) is dict else {}


def text_setting(part: Any, name: str) -> str | None:
    """Return a short plain string from a part of the configuration; None for anything else."""
    value = plain_dict(part).get(name)
    return str(value) if isinstance(value, str) and 0 < len(value) < 100 else None


def saved_settings(state: Mapping[str, Any]) -> Any:
    """Return the model's settings in a checkpoint: "args", or the "model" of "cfg"."""
    return state["args"] if state.get("args") is not None else plain_dict(state.get("cfg")).get("model")


def model_settings(saved: Any, weights: Mapping[str, Tensor]) -> Namespace:
    """Return the settings listed above, with values that the weights account for, to build the model from."""
    flat = dict(plain_dict(saved))
    for side in SIDES:  # hydra nests some: `encoder: {layers: 6}` for `encoder_layers`
        table = plain_dict(flat.get(side))
        flat = flat | {f"{side}_{name}": value for name, value in table.items() if isinstance(name, str)}
    for name in ("decoder_input_dim", "decoder_output_dim"):
        if isinstance(flat.get(name), str):  # "${model.decoder.embed_dim}", fairseq's default
            flat.pop(name)
    flat |= {name: bool(flat[name]) for name in SWITCHES if isinstance(flat.get(name), int)}
    config = Config(flat, "")
    longest = max((length for weight in weights.values() if weight.numel() for length in weight.shape), default=0)
    architecture = text_setting(saved, "_name") or text_setting(saved, "arch")
    settings: dict[str, Any] = {"arch": architecture, "_name": architecture}
    settings |= {name: config.switch(name, False) for name in SWITCHES if config.has(name)}
    settings |= {name: config.number(name) for name in NUMBERS if config.has(name)}
    for name in filter(config.has, SIZES):
        settings[name] = config.size(name) if name.startswith("max_") else config.size(name, most=longest)
    if config.has("activation_fn"):
        settings["activation_fn"] = config.one_of("activation_fn", ACTIVATIONS)
    if (cutoff := flat.get("adaptive_softmax_cutoff")) is not None:  # [1000, 5000], as a list or as text
        if isinstance(cutoff, str) and re.fullmatch(r"[\[(]?[\d, ]{1,200}[\])]?", cutoff):
            cutoff = [int(number) for number in re.findall(r"\d+", cutoff)]
        if not (isinstance(cutoff, (list, tuple)) and all(type(number) is int for number in cutoff)):
            raise ValueError(f"its adaptive_softmax_cutoff is {show_value(cutoff)}, not a list of whole numbers")
        settings["adaptive_softmax_cutoff"] = list(cutoff)
    return Namespace(**settings)


def load_checkpoint(path: Path, mapped: bool = False) -> dict[str, Any]:
    """Read a fairseq checkpoint on the CPU, with torch's restricted unpickler.

    It has "model" (names to dense tensors of numbers) and "cfg" (a dict) or, before fairseq 0.10, "args" (a
    Namespace), whose content is as untrusted as the file: `model_settings` picks what is needed.
    """

    def checked(state: Any, size: int) -> dict[str, Any]:
        state = state if isinstance(state, dict) else {}
        weights = state.get("model")
        configured = isinstance(state.get("args"), argparse.Namespace) or isinstance(state.get("cfg"), dict)
        if configured and isinstance(weights, dict):
            return {**state, "model": plain_weights(weights, size)}
        if {"opt", "vocab"} <= state.keys():
            raise other_kind("an OpenNMT-py model")
        if state and all(isinstance(weight, Tensor) for weight in state.values()):
            raise other_kind("weights alone, as Hugging Face models have them")
        raise NotWanted("no model with its configuration in it")

    return load_saved(path, checked, "a fairseq checkpoint", mapped)
