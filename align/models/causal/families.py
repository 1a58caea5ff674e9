"""Tell families of decoder-only models apart, and build their Transformers, one matrix at a time.

Settings of config.json are not trusted.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from align.core.errors import ModelError, shorten
from align.core.types import Dtype
from align.io.process import release_freed_memory
from align.models.causal.forward import CausalTransformer, GroupedAttention, Layer
from align.models.engine.forward import Block, Embedding, RootNorm, compact_table
from align.models.engine.linear import Activation, GatedLinear, Projection, make_linear
from align.models.engine.weights import Weights
from align.models.settings import Config

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

MAX_LAYERS, MAX_HEAD_WIDTH = 1000, 1 << 17

SLIDING, FULL = "sliding_attention", "full_attention"


_GEMMA: dict[str, Any] = {
    "hidden_activation": "gelu_pytorch_tanh", "head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 4096,
    "num_key_value_heads": 4,
}  # fmt: skip
DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": 4096, "num_key_value_heads": 8},
    "qwen2": {},
    "qwen3": {"head_dim": 128},
    "gemma2": {**_GEMMA, "attn_logit_softcapping": 50.0},
    "gemma3_text": {**_GEMMA, "num_attention_heads": 8, "rope_theta": 1e6},
}
"""Settings that a config.json may leave out, by `model_type`; Gemma 3 models that read images (`gemma3`) have the last
type within them.
"""

KINDS = (*DEFAULTS, "gemma3")  # values of `model_type` that are read

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
    return Config({**DEFAULTS[kind], **content, "model_type": kind}, config.file)


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
    base = config.positive("rope_theta", 10_000)
    scaling = parameters if parameters.content else config.inner("rope_scaling")
    if config.kind == "gemma3_text" and kind == SLIDING and not parameters.content:
        base, scaling = config.positive("rope_local_base_freq", 10_000), Config({}, config.file)
    base = parameters.positive("rope_theta", base)
    speeds = base ** -(torch.arange(0, size, 2, dtype=torch.int64).float() / size)
    method = scaling.word("rope_type", "") or scaling.word("type", "default")
    if method == "default":
        return speeds
    if method == "linear":
        return speeds / scaling.positive("factor", 1)
    if method == "llama3":  # slow ones are divided by a factor, as in Llama 3.1
        factor, length = scaling.positive("factor", 8), scaling.positive("original_max_position_embeddings", 8192)
        low, high = scaling.positive("low_freq_factor", 1), scaling.positive("high_freq_factor", 4)
        turns = length * speeds / (2 * math.pi)
        unscaled = ((turns - low) / max(high - low, 1e-9)).clamp(0, 1)
        return (1 - unscaled) * speeds / factor + unscaled * speeds
    message = f"its positions are scaled by {shorten(method)}, which is not supported (default, linear and llama3 are)"
    raise ModelError(message, file=config.file)


def renamed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weights without the beginnings of their names, which differ between versions of transformers."""
    prefixes = ("model.language_model.", "language_model.model.", "model.", "language_model.")
    renamed = {}
    for name in list(weights):
        prefix = next((prefix for prefix in prefixes if name.startswith(prefix)), "")
        renamed[name.removeprefix(prefix)] = weights.pop(name)
    return renamed


def build_causal(
    config: Config, weights: dict[str, Tensor], device: str = "cpu", dtype: Dtype = "float32"
) -> CausalTransformer:
    """Return the Transformer of a model; `weights` are emptied, so that only one matrix is in memory twice."""
    config = text_config(config)
    stored = Weights(renamed(weights), UNUSED)
    # Gemma's norms multiply by 1 + weight and also follow attention and network, and its embeddings are scaled.
    gemma, head_norms = config.kind.startswith("gemma"), config.kind in ("qwen3", "gemma3_text")
    width, heads = config.size("hidden_size"), config.size("num_attention_heads")
    groups = config.size("num_key_value_heads", heads)
    size = config.size("head_dim", width // heads, most=MAX_HEAD_WIDTH)
    if heads % groups or size % 2:
        message = f"{heads} heads of width {size} with {groups} key and value heads, which do not divide them evenly"
        raise ModelError(message, file=config.file)
    for name in ("partial_rotary_factor", "use_bidirectional_attention"):
        if config.has(name) and config.content[name] not in (1, 1.0, False):
            raise ModelError(f"its {name} is {shorten(str(config.content[name]))}: not supported", file=config.file)
    setting = "hidden_activation" if config.has("hidden_activation") else "hidden_act"
    activation = ACTIVATIONS[config.one_of(setting, ACTIVATIONS, "silu")]
    inner, of_heads, of_groups = config.size("intermediate_size"), heads * size, groups * size
    query_bias = config.switch("attention_bias", config.kind == "qwen2")
    output_bias, inner_bias = query_bias and config.kind != "qwen2", config.switch("mlp_bias", False)
    epsilon = config.positive("rms_norm_eps", 1e-6)
    scale = (config.positive("query_pre_attn_scalar", size) if gemma else size) ** -0.5
    cap = config.positive("attn_logit_softcapping", 1) if config.has("attn_logit_softcapping") else None
    window = config.size("sliding_window") if config.has("sliding_window") else None
    kinds = layer_kinds(config, config.size("num_hidden_layers", most=MAX_LAYERS))
    rotations = {kind: frequencies(config, kind, size).to(device) for kind in dict.fromkeys(kinds)}

    def norm(name: str, size: int = width) -> RootNorm:
        weight = stored.take(f"{name}.weight", size)
        return RootNorm((weight + 1 if gemma else weight).to(device), epsilon)

    def linear(parts: dict[str, int], columns: int, biased: bool, activation: Activation = "none") -> Projection:
        """Return projections in one, given their names and rows."""
        matrices = [stored.take(f"{name}_proj.weight", rows, columns) for name, rows in parts.items()]
        biases = [stored.take(f"{name}_proj.bias", rows) for name, rows in parts.items()] if biased else []
        matrix = torch.cat(matrices) if len(matrices) > 1 else matrices[0]
        return make_linear(matrix.to(device), torch.cat(biases).to(device) if biases else None, activation, dtype)

    def layer(name: str, kind: str) -> Layer:
        attention, network = f"{name}self_attn.", f"{name}mlp."
        parts = {f"{attention}q": of_heads, f"{attention}k": of_groups, f"{attention}v": of_groups}
        attend = GroupedAttention(
            linear(parts, width, query_bias),
            heads,
            groups,
            size,
            scale,
            list(rotations).index(kind),
            window if kind == SLIDING else None,
            cap,
            *(norm(f"{attention}{part}_norm", size) if head_norms else None for part in "qk"),
        )
        out = linear({f"{attention}o": width}, of_heads, output_bias)
        gate = linear({f"{network}gate": inner}, width, inner_bias, activation)
        gated = GatedLinear(gate, linear({f"{network}up": inner}, width, inner_bias))
        down = linear({f"{network}down": width}, inner, inner_bias)
        after = [norm(f"{name}post_{p}_layernorm") if gemma else None for p in ("attention", "feedforward")]
        before_network = norm(f"{name}{'pre_feedforward' if gemma else 'post_attention'}_layernorm")
        block = Block(norm(f"{name}input_layernorm"), True, out, outer_norm=after[0])
        return Layer(attend, block, gated, Block(before_network, True, down, outer_norm=after[1]))

    rows, _ = stored.shape("embed_tokens.weight")
    table = compact_table(stored.borrow("embed_tokens.weight", rows, width), dtype).to(device)
    embedding = Embedding(table, None, scale=math.sqrt(width) if gemma else 1.0)
    layers = []
    for number, kind in enumerate(kinds):
        layers.append(layer(f"layers.{number}.", kind))
        release_freed_memory()  # of float32 copies: as much as the model again
    transformer = CausalTransformer(embedding, layers, list(rotations.values()), norm("norm"))
    stored.check_all_taken()
    return transformer
