"""What tells families of decoder-only models apart, by settings of config.json, which are not trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from align.core.errors import ModelError, shorten
from align.models.engine.linear import Activation
from align.models.huggingface.config import Config

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "swish": "silu",
    "silu": "silu",
    "tanh": "tanh",
}
"""Activations by their names in transformers."""

MAX_LAYERS, MAX_HEADS, MAX_WIDTH = 1000, 1024, 1 << 17

SLIDING, FULL = "sliding_attention", "full_attention"


@dataclass(frozen=True)
class Family:
    """What the models of a type have in common."""

    query_bias: bool = False  # default of whether queries, keys and values have biases
    head_norms: bool = False  # whether queries and keys of each head are normalised
    # whether norms multiply by 1 + weight and also follow attention and network, and embeddings are scaled
    gemma: bool = False
    # settings that a config.json of this type may leave out
    defaults: Mapping[str, Any] = field(default_factory=dict)


_GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "head_dim": 256, "query_pre_attn_scalar": 256}

FAMILIES = {
    "llama": Family(),
    "mistral": Family(defaults={"sliding_window": 4096, "num_key_value_heads": 8}),
    "qwen2": Family(query_bias=True),
    "qwen3": Family(head_norms=True, defaults={"head_dim": 128}),
    "gemma2": Family(
        gemma=True,
        defaults={**_GEMMA, "sliding_window": 4096, "attn_logit_softcapping": 50.0, "num_key_value_heads": 4},
    ),
    "gemma3_text": Family(
        head_norms=True,
        gemma=True,
        defaults={
            **_GEMMA,
            **{"sliding_window": 4096, "num_attention_heads": 8, "num_key_value_heads": 4, "rope_theta": 1e6},
        },
    ),
}
"""Families by `model_type`; Gemma 3 models that read images (`gemma3`) have the last one within them."""

KINDS = (*FAMILIES, "gemma3")
"""Values of `model_type` that are read."""

UNUSED = (
    r"lm_head\.weight",
    r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
    r"(vision_tower|multi_modal_projector)\..*",
)
"""Weights that attention does not depend on."""


def text_config(config: Config) -> Config:
    """Return the settings of the language model, the inner ones of a Gemma 3 that reads images, with its defaults."""
    content, kind = config.content, config.kind
    if kind == "gemma3":
        content, kind = config.inner("text_config").content, "gemma3_text"
    return Config({**FAMILIES[kind].defaults, **content, "model_type": kind}, config.file)


def positive(config: Config, name: str, otherwise: float) -> float:
    """Return a number above 0."""
    value = config.number(name, otherwise)
    if value <= 0:
        raise ModelError(f"its {name} is {value}, not above 0", file=config.file)
    return value


def layer_kinds(config: Config, layers: int) -> list[str]:
    """Return the kind of each layer, SLIDING or FULL."""
    if config.kind == "mistral":
        return [SLIDING] * layers
    if config.kind == "llama" or (config.kind.startswith("qwen") and not config.switch("use_sliding_window", False)):
        return [FULL] * layers
    listed = config.content.get("layer_types")
    if listed is not None:
        if not isinstance(listed, list) or len(listed) != layers or any(kind not in (SLIDING, FULL) for kind in listed):
            message = f"its layer_types are not {layers} of {SLIDING} and {FULL}"
            raise ModelError(message, file=config.file)
        return listed
    if config.kind.startswith("gemma"):  # every second or sixth one is full
        pattern = 2 if config.kind == "gemma2" else config.size("sliding_window_pattern", 6)
        return [SLIDING if (number + 1) % pattern else FULL for number in range(layers)]
    first = config.size("max_window_layers", 28, least=0)
    return [SLIDING if number >= first else FULL for number in range(layers)]


def frequencies(config: Config, kind: str, size: int) -> Tensor:
    """Return the angle per position of each pair of a head's numbers `[d/2]`."""
    parameters = config.inner("rope_parameters")
    if SLIDING in parameters.content or FULL in parameters.content:
        parameters = parameters.inner(kind)
    base = positive(config, "rope_theta", 10_000)
    scaling = parameters if parameters.content else config.inner("rope_scaling")
    if config.kind == "gemma3_text" and kind == SLIDING and not parameters.content:
        base, scaling = positive(config, "rope_local_base_freq", 10_000), Config({}, config.file)
    base = positive(parameters, "rope_theta", base)
    speeds = base ** -(torch.arange(0, size, 2, dtype=torch.int64).float() / size)
    method = scaling.word("rope_type", "") or scaling.word("type", "default")
    if method == "default":
        return speeds
    if method == "linear":
        return speeds / positive(scaling, "factor", 1)
    if method == "llama3":  # slow ones are divided by a factor, as in Llama 3.1
        factor, length = positive(scaling, "factor", 8), positive(scaling, "original_max_position_embeddings", 8192)
        low, high = positive(scaling, "low_freq_factor", 1), positive(scaling, "high_freq_factor", 4)
        turns = length * speeds / (2 * math.pi)
        unscaled = ((turns - low) / max(high - low, 1e-9)).clamp(0, 1)
        return (1 - unscaled) * speeds / factor + unscaled * speeds
    message = f"its positions are scaled by {shorten(method)}, which is not read (default, linear and llama3 are)"
    raise ModelError(message, file=config.file)
