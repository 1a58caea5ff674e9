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
from align.models.settings import Config

MAX_LAYERS = 512  # maximum number of layers per side

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
    """Bias of each head's scores by the distance of column and row, from a table `[buckets, H]`.

    Large distances share a bias: half of the buckets hold single distances, the others grow logarithmically up to
    `most`. With `both_ways` columns after a row have separate buckets.
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
    stored = Weights(weights, UNUSED)
    width, heads, hidden = config.size("d_model"), config.size("num_heads"), config.size("d_ff")
    inner = heads * config.size("d_kv")
    activation, gated = FEED_FORWARD[config.one_of("feed_forward_proj", FEED_FORWARD, "relu")]
    linear: Callable[..., Projection] = partial(make_linear, bias=None, dtype=dtype)
    table = stored.borrow("shared.weight", stored.shape("shared.weight")[0], width)
    pieces = compact_table(table, dtype).to(device)

    def matrix(name: str, *shape: int) -> Tensor:
        """Return a weight in float32 without copying it first: packing it for products copies it."""
        return stored.borrow(f"{name}.weight", *shape).float().to(device)

    def norm(name: str) -> RootNorm:
        return RootNorm(stored.take(f"{name}.weight", width).to(device))

    def positions(side: str, name: str) -> RelativePositions:
        buckets = config.size("relative_attention_num_buckets", 32, least=4)
        distance = config.size("relative_attention_max_distance", 128, least=buckets)
        table = stored.take(f"{name}.0.SelfAttention.relative_attention_bias.weight", buckets, heads)
        return RelativePositions(table.to(device), distance, both_ways=side == "encoder")

    def block(name: str, out: str, size: int) -> Block:
        return Block(norm(f"{name}.layer_norm"), True, linear(matrix(f"{name}.{out}", width, size)))

    def feed_forward(name: str) -> Linear:
        if not gated:
            return linear(matrix(f"{name}.wi", hidden, width), activation=activation)
        gate = linear(matrix(f"{name}.wi_0", hidden, width), activation=activation)
        return GatedLinear(gate, linear(matrix(f"{name}.wi_1", hidden, width)))

    def cross(name: str) -> tuple[CrossAttention, Block]:
        attention = f"{name}.EncDecAttention"
        query, key, value = (matrix(f"{attention}.{part}", inner, width) for part in "qkv")
        out = matrix(f"{attention}.o", width, inner)
        out_proj = out.view(width, heads, -1).permute(1, 2, 0).clone()  # [H, d, D]
        attend = CrossAttention(linear(query), linear(torch.cat((key, value))), heads, out_proj)
        return attend, Block(norm(f"{name}.layer_norm"), True, linear(out))

    def layer(side: str, name: str, bias: RelativePositions) -> Layer:
        projections = torch.cat([matrix(f"{name}.0.SelfAttention.{part}", inner, width) for part in "qkv"])
        attention = SelfAttention(linear(projections), heads, side == "decoder", bias)
        last = f"{name}.{1 if side == 'encoder' else 2}"
        parts = attention, block(f"{name}.0", "SelfAttention.o", inner), feed_forward(f"{last}.DenseReluDense")
        feed_forward_block = block(last, "DenseReluDense.wo", hidden)
        return Layer(*parts, feed_forward_block, *(cross(f"{name}.1") if side == "decoder" else ()))

    def stack(side: str) -> Stack:
        count = config.size("num_layers", most=MAX_LAYERS)
        if side == "decoder":
            count = config.size("num_decoder_layers", count, most=MAX_LAYERS)
        names = [f"{side}.block.{n}.layer" for n in range(count)]
        if config.kind == "umt5":
            biases = [positions(side, name) for name in names]
        else:
            biases = [positions(side, names[0])] * count
        layers = [layer(side, name, bias) for name, bias in zip(names, biases, strict=True)]
        return Stack(Embedding(pieces, None), layers, norm(f"{side}.final_layer_norm"))

    transformer = Transformer(stack("encoder"), stack("decoder"))
    stored.check_all_taken()
    return transformer
