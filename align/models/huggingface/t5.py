"""Build T5 models: layer norms without means or biases, attention without scale, positions as biases of attention.

Raffel et al. (2020), section 2.1. All layers of a T5 or mT5 have the biases of the first one; each layer of a umT5 has
its own (Chung et al. 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from align.core.errors import ModelError
from align.core.types import Dtype
from align.models.engine.forward import (
    Block,
    CrossAttention,
    Embedding,
    Layer,
    RootNorm,
    SelfAttention,
    Stack,
    Transformer,
    compact_table,
)
from align.models.engine.linear import Activation, GatedLinear, Linear, Projection, make_linear
from align.models.engine.weights import Weights
from align.models.huggingface.config import Config

MAX_LAYERS = 512
"""Maximum number of layers per side."""

FEED_FORWARD: dict[str, tuple[Activation, bool]] = {
    "relu": ("relu", False),
    "gated-gelu": ("gelu_tanh", True),
    "gated-silu": ("silu", True),
}
"""Activation by `feed_forward_proj`, and whether the network is gated: multiplied by another product of its input."""

UNUSED = (
    r"lm_head\.weight",
    r"(en|de)coder\.embed_tokens\.weight",  # stored as shared.weight
    r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",  # old files have it; unused
)
"""Weights that attention does not depend on."""


class RelativePositions:
    """Bias of each head's scores by the distance of column and row.

    Large distances share a bias: half of the buckets hold single distances, the others grow logarithmically.

    Args:
        table: a bias for each bucket and head `[buckets, H]`.
        most: distance from which on all distances share a bucket.
        both_ways: whether columns after a row have separate buckets.
    """

    def __init__(self, table: Tensor, most: int, both_ways: bool) -> None:
        self._table, self._most, self._both_ways = table, most, both_ways

    def __call__(self, length: int, first: int = 0) -> Tensor:
        """Return the biases of rows from a number on `[1, H, L - first, L]`."""
        places = torch.arange(length, device=self._table.device)
        distances = places[first:, None] - places  # from a column to its row
        count = len(self._table)
        buckets = torch.zeros_like(distances)
        if self._both_ways:
            count //= 2
            buckets = (distances < 0) * count
            distances = distances.abs()
        else:
            distances = distances.clamp(min=0)
        single = count // 2
        growing = torch.log(distances.clamp(min=1) / single) / math.log(self._most / single) * (count - single)
        far = (single + growing.long()).clamp(max=count - 1)
        buckets = buckets + torch.where(distances < single, distances, far)
        return self._table[buckets].permute(2, 0, 1)[None]


def build_t5(config: Config, weights: dict[str, Tensor], device: str = "cpu", dtype: Dtype = "float32") -> Transformer:
    """Build the Transformer of a T5, mT5, umT5 or ByT5 checkpoint."""
    named_weights = Weights(weights, UNUSED)
    builder = _Builder(config, named_weights, device, dtype)
    transformer = Transformer(builder.stack("encoder"), builder.stack("decoder"))
    named_weights.check_all_taken()
    return transformer


class _Builder:
    """Builds the parts of a Transformer from named weights."""

    def __init__(self, config: Config, weights: Weights, device: str, dtype: Dtype) -> None:
        self._config, self._weights, self._device = config, weights, device
        self._linear: Callable[..., Projection] = partial(make_linear, bias=None, dtype=dtype)
        self._width, self._heads = config.size("d_model"), config.size("num_heads")
        self._bias_in_each_layer = config.kind == "umt5"
        self._inner = self._heads * config.size("d_kv")
        feed_forward = config.word("feed_forward_proj", "relu")
        if feed_forward not in FEED_FORWARD:
            message = f"its feed_forward_proj is {feed_forward}, not one of {', '.join(FEED_FORWARD)}"
            raise ModelError(message, file=config.file)
        self._activation, self._gated = FEED_FORWARD[feed_forward]
        rows = weights.shape("shared.weight")[0]
        table = weights.borrow("shared.weight", rows, self._width)
        self._pieces = compact_table(table, dtype).to(device)

    def stack(self, side: str) -> Stack:
        """Return the encoder or the decoder."""
        layers = self._config.size("num_layers", most=MAX_LAYERS)
        if side == "decoder":
            layers = self._config.size("num_decoder_layers", layers, most=MAX_LAYERS)
        blocks = [f"{side}.block.{n}.layer" for n in range(layers)]
        stored_biases = [self._bias(side, name) for name in blocks[: None if self._bias_in_each_layer else 1]]
        biases = stored_biases if self._bias_in_each_layer else stored_biases * layers
        stack_layers = [self._layer(side, name, bias) for name, bias in zip(blocks, biases, strict=True)]
        return Stack(Embedding(self._pieces, None), stack_layers, self._norm(f"{side}.final_layer_norm"))

    def _bias(self, side: str, name: str) -> RelativePositions:
        buckets = self._config.size("relative_attention_num_buckets", 32, least=4)
        distance = self._config.size("relative_attention_max_distance", 128, least=buckets)
        table = self._take(f"{name}.0.SelfAttention.relative_attention_bias.weight", buckets, self._heads)
        return RelativePositions(table, distance, both_ways=side == "encoder")

    def _take(self, name: str, *shape: int) -> Tensor:
        return self._weights.take(name, *shape).to(self._device)

    def _matrix(self, name: str, *shape: int) -> Tensor:
        """Return a weight in float32 without copying it first: packing it for products copies it."""
        return self._weights.borrow(name, *shape).float().to(self._device)

    def _norm(self, name: str) -> RootNorm:
        return RootNorm(self._take(f"{name}.weight", self._width))

    def _layer(self, side: str, name: str, bias: RelativePositions) -> Layer:
        projections = [
            self._matrix(f"{name}.0.SelfAttention.{part}.weight", self._inner, self._width) for part in "qkv"
        ]
        attention = SelfAttention(self._linear(torch.cat(projections)), self._heads, side == "decoder", bias)
        block = self._block(f"{name}.0", "SelfAttention.o", self._inner)
        feed_forward_name = f"{name}.{1 if side == 'encoder' else 2}"
        hidden = self._config.size("d_ff")
        feed_forward = self._feed_forward(f"{feed_forward_name}.DenseReluDense", hidden)
        feed_forward_block = self._block(feed_forward_name, "DenseReluDense.wo", hidden)
        if side == "encoder":
            return Layer(attention, block, feed_forward, feed_forward_block)
        cross, cross_block = self._cross(f"{name}.1")
        return Layer(attention, block, feed_forward, feed_forward_block, cross, cross_block)

    def _block(self, name: str, out: str, size: int) -> Block:
        projection = self._linear(self._matrix(f"{name}.{out}.weight", self._width, size))
        return Block(self._norm(f"{name}.layer_norm"), True, projection)

    def _feed_forward(self, name: str, hidden: int) -> Linear:
        if not self._gated:
            return self._linear(self._matrix(f"{name}.wi.weight", hidden, self._width), activation=self._activation)
        gate, linear = (self._matrix(f"{name}.wi_{n}.weight", hidden, self._width) for n in range(2))
        return GatedLinear(self._linear(gate, activation=self._activation), self._linear(linear))

    def _cross(self, name: str) -> tuple[CrossAttention, Block]:
        attention = f"{name}.EncDecAttention"
        query, key, value = (self._matrix(f"{attention}.{part}.weight", self._inner, self._width) for part in "qkv")
        out = self._matrix(f"{attention}.o.weight", self._width, self._inner)
        out_proj = out.view(self._width, self._heads, -1).permute(1, 2, 0).clone()  # [H, d, D]
        key_value = self._linear(torch.cat((key, value)))
        cross = CrossAttention(self._linear(query), key_value, self._heads, out_proj)
        return cross, Block(self._norm(f"{name}.layer_norm"), True, self._linear(out))
