"""Read the shape of a decoder-only model from its config.json, which is not trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True)
class Architecture:
    """The shape of a model."""

    family: Family
    width: int  # D
    inner: int  # width of the feed-forward networks
    layers: int
    heads: int  # H, the query heads of a layer
    groups: int  # key and value heads of a layer
    size: int  # d, the width of a head
    activation: Activation
    epsilon: float
    scale: float  # factor of the scores of attention
    cap: float | None  # limit of the scores, as cap tanh(score / cap); None without
    windows: Sequence[int | None]  # pieces that each layer looks back, its own included; None for all of them
    frequencies: Sequence[Tensor]  # angles per position `[d/2]` of each layer; layers may share a tensor
    embedding_scale: float  # factor of embeddings
    query_bias: bool
    output_bias: bool
    inner_bias: bool


def text_config(config: Config) -> Config:
    """Return the settings of the language model: the inner ones of a Gemma 3 that reads images."""
    if config.kind != "gemma3":
        return config
    return Config({**config.inner("text_config").content, "model_type": "gemma3_text"}, config.file)


def read_architecture(config: Config) -> Architecture:
    """Return the shape of a model of one of KINDS."""
    config = text_config(config)
    family = FAMILIES[config.kind]
    config = Config({**family.defaults, **config.content}, config.file)
    width, heads = config.size("hidden_size", most=MAX_WIDTH), config.size("num_attention_heads", most=MAX_HEADS)
    layers = config.size("num_hidden_layers", most=MAX_LAYERS)
    groups = config.size("num_key_value_heads", heads, most=MAX_HEADS)
    size = config.size("head_dim", width // heads, most=MAX_WIDTH)
    if heads % groups or size % 2:
        message = f"{heads} heads of width {size} with {groups} key and value heads, which do not divide them evenly"
        raise ModelError(message, file=config.file)
    for name in ("partial_rotary_factor", "use_bidirectional_attention"):
        if config.has(name) and config.content[name] not in (1, 1.0, False):
            raise ModelError(f"its {name} is {shorten(str(config.content[name]))}, which is not read", file=config.file)
    name = config.word("hidden_activation", "") or config.word("hidden_act", "silu")
    if name not in ACTIVATIONS:
        raise ModelError(f"its activation is {shorten(name)}, not one of {', '.join(ACTIVATIONS)}", file=config.file)
    kinds = _layer_kinds(config, layers)
    window = config.size("sliding_window") if config.has("sliding_window") else None
    tables = {kind: _frequencies(config, kind, size) for kind in dict.fromkeys(kinds)}
    biased = config.switch("attention_bias", family.query_bias)
    return Architecture(
        family,
        width,
        inner=config.size("intermediate_size"),
        layers=layers,
        heads=heads,
        groups=groups,
        size=size,
        activation=ACTIVATIONS[name],
        epsilon=_positive(config, "rms_norm_eps", 1e-6),
        scale=(_positive(config, "query_pre_attn_scalar", size) if family.gemma else size) ** -0.5,
        cap=_positive(config, "attn_logit_softcapping", 1) if config.has("attn_logit_softcapping") else None,
        windows=[window if kind == SLIDING else None for kind in kinds],
        frequencies=[tables[kind] for kind in kinds],
        embedding_scale=math.sqrt(width) if family.gemma else 1.0,
        query_bias=biased,
        output_bias=biased and not family.query_bias,
        inner_bias=config.switch("mlp_bias", False),
    )


def _positive(config: Config, name: str, otherwise: float) -> float:
    """Return a number above 0."""
    value = config.number(name, otherwise)
    if value <= 0:
        raise ModelError(f"its {name} is {value}, not above 0", file=config.file)
    return value


def _layer_kinds(config: Config, layers: int) -> list[str]:
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


def _frequencies(config: Config, kind: str, size: int) -> Tensor:
    """Return the angle per position of each pair of a head's numbers `[d/2]`."""
    parameters = config.inner("rope_parameters")
    if SLIDING in parameters.content or FULL in parameters.content:
        parameters = parameters.inner(kind)
    base = _positive(config, "rope_theta", 10_000)
    scaling = parameters if parameters.content else config.inner("rope_scaling")
    if config.kind == "gemma3_text" and kind == SLIDING and not parameters.content:
        base, scaling = _positive(config, "rope_local_base_freq", 10_000), Config({}, config.file)
    base = _positive(parameters, "rope_theta", base)
    speeds = base ** -(torch.arange(0, size, 2, dtype=torch.int64).float() / size)
    method = scaling.word("rope_type", "") or scaling.word("type", "default")
    if method == "default":
        return speeds
    if method == "linear":
        return speeds / _positive(scaling, "factor", 1)
    if method == "llama3":
        return _llama3(speeds, scaling)
    message = f"its positions are scaled by {shorten(method)}, which is not read (default, linear and llama3 are)"
    raise ModelError(message, file=config.file)


def _llama3(speeds: Tensor, scaling: Config) -> Tensor:
    """Return speeds whose slow ones are divided by a factor, as in Llama 3.1."""
    factor, length = _positive(scaling, "factor", 8), _positive(scaling, "original_max_position_embeddings", 8192)
    low, high = _positive(scaling, "low_freq_factor", 1), _positive(scaling, "high_freq_factor", 4)
    turns = length * speeds / (2 * math.pi)
    unscaled = ((turns - low) / max(high - low, 1e-9)).clamp(0, 1)
    return (1 - unscaled) * speeds / factor + unscaled * speeds
