"""Build a Transformer from a model's shape and its weights.

The names of weights are those of fairseq, and of the many models derived from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from align.core.types import Dtype
from align.models.engine.forward import (
    Block,
    CrossAttention,
    Embedding,
    Layer,
    Norm,
    SelfAttention,
    SimpleRecurrence,
    Sinusoids,
    Stack,
    Transformer,
    compact_table,
)
from align.models.engine.linear import Activation, Identity, Projection, make_linear
from align.models.engine.weights import Weights

CELL = "ssru"
"""Part of the names of a decoder layer's weights, if it has a recurrent unit in the place of self-attention."""

KEPT = "kept_heads"  # name of a weight that lists the remaining heads of an attention, if some were pruned

Positions = Literal["learned", "sinusoids", "beyond", "none"]
"""Kinds of position embeddings; see `align.models.engine.forward.Sinusoids`."""


@dataclass(frozen=True)
class Side:
    """The shape of an encoder or a decoder."""

    layers: int
    heads: int
    width: int  # D
    before: bool  # whether layer norms come before attention and feed-forward networks or after the sum
    last_norm: bool  # whether the output has a separate layer norm; a decoder's is for translating only
    positions: Positions
    first: int  # row or number of the first position
    causal: bool = True  # whether each step of a decoder attends only to itself and those before it


@dataclass(frozen=True)
class Architecture:
    """The shape of a model."""

    encoder: Side
    decoder: Side | None  # None for an encoder alone
    activation: Activation  # of the feed-forward networks
    scaled: bool  # whether the vectors of pieces are multiplied by the root of D
    epsilon: float = 1e-5  # added to the variance in layer norms


def build_transformer(
    architecture: Architecture, weights: Weights, device: str = "cpu", dtype: Dtype = "float32"
) -> Transformer:
    """Return the Transformer of a shape."""
    return Transformer(*build_stacks(architecture, weights, device, dtype))


def build_stacks(
    architecture: Architecture, weights: Weights, device: str = "cpu", dtype: Dtype = "float32"
) -> list[Stack]:
    """Return the encoder of a shape, and its decoder if there is one."""
    sides = {"encoder": architecture.encoder, **({"decoder": architecture.decoder} if architecture.decoder else {})}
    if not 0 <= architecture.epsilon < 1:
        raise ValueError(f"it adds {architecture.epsilon:g} to the variance in layer norms")
    for name, side in sides.items():
        if side.width % side.heads:
            raise ValueError(f"its {name} is {side.width} wide, which cannot be split among {side.heads} heads")

    def norm(name: str, size: int) -> Norm:
        weight, bias = (weights.take(f"{name}.{part}", size).to(device) for part in ("weight", "bias"))
        return Norm(weight, bias, architecture.epsilon)

    def optional_norm(name: str, size: int) -> Norm | None:
        return norm(name, size) if f"{name}.weight" in weights else None

    def projection(name: str, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
        weight = weights.borrow(f"{name}.weight", outputs, inputs).float()
        return weight, weights.take(f"{name}.bias", outputs)

    def linear(weight: Tensor, bias: Tensor | None, activation: Activation = "none") -> Projection:
        return make_linear(weight.to(device), None if bias is None else bias.to(device), activation, dtype)

    def joined(parts: Iterable[tuple[Tensor, Tensor]]) -> Projection:
        """Return projections of the same input in one."""
        matrices, biases = zip(*parts, strict=True)
        return linear(torch.cat(matrices), torch.cat(biases))

    tied = weights.are_tied("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    tables: list[Tensor] = []

    def positions(name: str, side: Side) -> Callable[[int], Tensor] | None:
        if side.positions != "learned":
            beyond = side.positions == "beyond"
            return None if side.positions == "none" else Sinusoids(side.width, side.first, device, beyond)
        rows, _ = weights.shape(f"{name}.embed_positions.weight")
        table = weights.take(f"{name}.embed_positions.weight", rows, side.width)[side.first :].to(device)
        return lambda length: table

    def embedding(name: str, side: Side) -> Embedding:
        rows, size = weights.shape(f"{name}.embed_tokens.weight")
        weight = weights.borrow(f"{name}.embed_tokens.weight", rows, size)
        if not tied or not tables:  # one table for both sides if their weights are tied
            tables.append(compact_table(weight, dtype).to(device))
        matrix = weights.optional(f"{name}.quant_noise.weight", size, size)
        noise = None if matrix is None else linear(matrix, None)
        projections = [noise] if noise and name == "decoder" else []
        if size != side.width:
            projections.append(linear(weights.take(f"{name}.project_in_dim.weight", side.width, size), None))
        last = noise if name == "encoder" else None
        scale = math.sqrt(side.width) if architecture.scaled else 1.0
        of_sum = optional_norm(f"{name}.layernorm_embedding", side.width)
        return Embedding(tables[-1], positions(name, side), projections, of_sum, last, scale)

    def kept_heads(name: str, side: Side) -> Sequence[int]:
        """Return the numbers of the heads that an attention has weights for, from 0 and in order."""
        return weights.chosen(f"{name}.{KEPT}", side.heads) or range(side.heads)

    def query_key_value(name: str, side: Side, inner: int, width: int) -> list[tuple[Tensor, Tensor]]:
        """Return the projections of queries, which are scaled by 1/sqrt(d), and of keys and values of a width."""
        weight, bias = projection(f"{name}.q_proj", inner, side.width)
        scale = (side.width // side.heads) ** -0.5
        others = [projection(f"{name}.{part}_proj", inner, width) for part in "kv"]
        return [(weight * scale, bias * scale), *others]

    def self_attention(layer: str, side: Side, causal: bool) -> tuple[SelfAttention, Projection]:
        """Return a layer's self-attention, and its output projection."""
        name, size = f"{layer}.self_attn", side.width // side.heads
        heads = len(kept_heads(name, side))
        weight, bias = projection(f"{name}.out_proj", side.width, heads * size)
        if (gains := weights.optional(f"{layer}.c_attn", side.heads)) is not None:  # fairseq's scale_heads
            each = gains.repeat_interleave(size)
            weight, bias = weight * each[:, None], bias * each
        parts = query_key_value(name, side, heads * size, side.width)
        return SelfAttention(joined(parts), heads, causal), linear(weight, bias)

    def recurrence(name: str, side: Side) -> tuple[SimpleRecurrence, Projection]:
        """Return a layer's recurrent unit, whose output has no projection."""
        weight, bias = projection(f"{name}.forget", side.width, side.width)
        new = weights.borrow(f"{name}.input.weight", side.width, side.width).float()
        both = joined([(new, torch.zeros_like(bias)), (weight, bias)])
        return SimpleRecurrence(both, side.heads), Identity(side.width)

    names = [f"decoder.layers.{n}.encoder_attn" for n in range(weights.layers("decoder"))]
    cross_heads = {name: kept_heads(name, sides["decoder"]) for name in names}

    def cross(layer: str, side: Side) -> tuple[CrossAttention, Block]:
        """Return a decoder layer's attention to the encoder's output.

        Heads keep their numbers: those of which only other layers have weights get zeros.
        """
        name, size = f"{layer}.encoder_attn", side.width // side.heads
        numbers = list(cross_heads[name])
        heads = 1 + max(of_layer[-1] for of_layer in cross_heads.values())

        def fill(weight: Tensor) -> Tensor:  # [n d, ...] to [H d, ...]
            if len(numbers) == heads:
                return weight
            full = weight.new_zeros(heads, size, *weight.shape[1:])
            full[numbers] = weight.reshape(len(numbers), size, *weight.shape[1:])
            return full.flatten(0, 1)

        inner = len(numbers) * size
        query, *key_value = query_key_value(name, side, inner, architecture.encoder.width)
        weight, bias = projection(f"{name}.out_proj", side.width, inner)
        weight = fill(weight.T).T.contiguous()
        out_proj = weight.to(device).view(side.width, heads, size).permute(1, 2, 0).clone()  # [H, d, D]
        filled = [(fill(matrix), fill(vector)) for matrix, vector in key_value]
        attention = CrossAttention(linear(fill(query[0]), fill(query[1])), joined(filled), heads, out_proj)
        before = norm(f"{layer}.encoder_attn_layer_norm", side.width)
        return attention, Block(before, side.before, linear(weight, bias))

    def layer(name: str, side: Side, decodes: bool) -> Layer:
        width, hidden = side.width, weights.shape(f"{name}.fc1.weight")[0]
        attention: SelfAttention | SimpleRecurrence
        if decodes and f"{name}.{CELL}.input.weight" in weights:
            attention, out = recurrence(f"{name}.{CELL}", side)
        else:
            attention, out = self_attention(name, side, decodes and side.causal)
        attention_block = Block(
            norm(f"{name}.self_attn_layer_norm", width),
            side.before,
            out,
            outer_norm=optional_norm(f"{name}.attn_ln", width),
        )
        residual_scale = weights.optional(f"{name}.w_resid", width)
        feed_forward_block = Block(
            norm(f"{name}.final_layer_norm", width),
            side.before,
            linear(*projection(f"{name}.fc2", width, hidden)),
            inner_norm=optional_norm(f"{name}.ffn_layernorm", hidden),
            residual_scale=None if residual_scale is None else residual_scale.to(device),
        )
        feed_forward = linear(*projection(f"{name}.fc1", hidden, width), architecture.activation)
        parts = attention, attention_block, feed_forward, feed_forward_block
        return Layer(*parts, *(cross(name, side) if decodes else ()))

    stacks = []
    for name, side in sides.items():
        layers = [layer(f"{name}.layers.{n}", side, name == "decoder") for n in range(side.layers)]
        last_norm = norm(f"{name}.layer_norm", side.width) if side.last_norm else None
        stacks.append(Stack(embedding(name, side), layers, last_norm, tabled=dtype == "float32"))
    weights.check_all_taken()
    return stacks
