"""Build a decoder-only Transformer from its weights, one matrix at a time."""

from __future__ import annotations

import math

from torch import Tensor, cat

from align.core.errors import ModelError, shorten
from align.core.types import Dtype
from align.io.process import release_freed_memory
from align.models.causal.families import (
    ACTIVATIONS,
    FAMILIES,
    MAX_HEADS,
    MAX_LAYERS,
    MAX_WIDTH,
    SLIDING,
    UNUSED,
    frequencies,
    layer_kinds,
    positive,
    text_config,
)
from align.models.causal.forward import CausalTransformer, GroupedAttention, Layer
from align.models.engine.forward import Block, Embedding, RootNorm, compact_table
from align.models.engine.linear import Activation, GatedLinear, Projection, make_linear
from align.models.engine.weights import Weights
from align.models.huggingface.config import Config


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
    family, stored = FAMILIES[config.kind], Weights(renamed(weights), UNUSED)
    width, heads = config.size("hidden_size", most=MAX_WIDTH), config.size("num_attention_heads", most=MAX_HEADS)
    groups = config.size("num_key_value_heads", heads, most=MAX_HEADS)
    size = config.size("head_dim", width // heads, most=MAX_WIDTH)
    if heads % groups or size % 2:
        message = f"{heads} heads of width {size} with {groups} key and value heads, which do not divide them evenly"
        raise ModelError(message, file=config.file)
    for name in ("partial_rotary_factor", "use_bidirectional_attention"):
        if config.has(name) and config.content[name] not in (1, 1.0, False):
            raise ModelError(f"its {name} is {shorten(str(config.content[name]))}, which is not read", file=config.file)
    activation = config.word("hidden_activation", "") or config.word("hidden_act", "silu")
    if activation not in ACTIVATIONS:
        raise ModelError(
            f"its activation is {shorten(activation)}, not one of {', '.join(ACTIVATIONS)}", file=config.file
        )
    inner, of_heads, of_groups = config.size("intermediate_size"), heads * size, groups * size
    query_bias = config.switch("attention_bias", family.query_bias)
    output_bias, inner_bias = query_bias and not family.query_bias, config.switch("mlp_bias", False)
    epsilon = positive(config, "rms_norm_eps", 1e-6)
    scale = (positive(config, "query_pre_attn_scalar", size) if family.gemma else size) ** -0.5
    cap = positive(config, "attn_logit_softcapping", 1) if config.has("attn_logit_softcapping") else None
    window = config.size("sliding_window") if config.has("sliding_window") else None
    kinds = layer_kinds(config, config.size("num_hidden_layers", most=MAX_LAYERS))
    rotations = {kind: frequencies(config, kind, size).to(device) for kind in dict.fromkeys(kinds)}

    def norm(name: str, size: int = width) -> RootNorm:
        weight = stored.take(f"{name}.weight", size)
        return RootNorm((weight + 1 if family.gemma else weight).to(device), epsilon)

    def linear(parts: dict[str, int], columns: int, biased: bool, activation: Activation = "none") -> Projection:
        """Return projections in one, given their names and rows."""
        matrices = [stored.take(f"{name}_proj.weight", rows, columns) for name, rows in parts.items()]
        biases = [stored.take(f"{name}_proj.bias", rows) for name, rows in parts.items()] if biased else []
        matrix = cat(matrices) if len(matrices) > 1 else matrices[0]
        return make_linear(matrix.to(device), cat(biases).to(device) if biases else None, activation, dtype)

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
            *(norm(f"{attention}{part}_norm", size) if family.head_norms else None for part in "qk"),
        )
        out = linear({f"{attention}o": width}, of_heads, output_bias)
        gate = linear({f"{network}gate": inner}, width, inner_bias, ACTIVATIONS[activation])
        gated = GatedLinear(gate, linear({f"{network}up": inner}, width, inner_bias))
        down = linear({f"{network}down": width}, inner, inner_bias)
        after = [norm(f"{name}post_{p}_layernorm") if family.gemma else None for p in ("attention", "feedforward")]
        before_network = norm(f"{name}{'pre_feedforward' if family.gemma else 'post_attention'}_layernorm")
        block = Block(norm(f"{name}input_layernorm"), True, out, outer_norm=after[0])
        return Layer(attend, block, gated, Block(before_network, True, down, outer_norm=after[1]))

    rows, _ = stored.shape("embed_tokens.weight")
    table = compact_table(stored.borrow("embed_tokens.weight", rows, width), dtype).to(device)
    embedding = Embedding(table, None, scale=math.sqrt(width) if family.gemma else 1.0)
    layers = []
    for number, kind in enumerate(kinds):
        layers.append(layer(f"layers.{number}.", kind))
        release_freed_memory()  # of float32 copies: as much as the model again
    transformer = CausalTransformer(embedding, layers, list(rotations.values()), norm("norm"))
    stored.check_all_taken()
    return transformer
