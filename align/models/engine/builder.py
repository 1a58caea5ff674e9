"""Build a Transformer from a model's shape and its weights.

The names of weights are those of fairseq, and of the many models derived from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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

KEPT = "kept_heads"
"""Name of a weight that lists the remaining heads of an attention, if some were pruned."""

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


@dataclass(frozen=True)
class Architecture:
    """The shape of a model."""

    encoder: Side
    decoder: Side
    activation: Activation  # of the feed-forward networks
    scaled: bool  # whether the vectors of pieces are multiplied by the root of D
    epsilon: float = 1e-5  # added to the variance in layer norms


def build_transformer(
    architecture: Architecture, weights: Weights, device: str = "cpu", dtype: Dtype = "float32"
) -> Transformer:
    """Return the Transformer of a shape."""
    builder = _Builder(architecture, weights, device, dtype)
    transformer = Transformer(builder.stack("encoder"), builder.stack("decoder"))
    weights.check_all_taken()
    return transformer


class _Builder:
    """Builds the parts of a Transformer from named weights."""

    def __init__(self, architecture: Architecture, weights: Weights, device: str, dtype: Dtype) -> None:
        self._architecture, self.weights, self._device = architecture, weights, device
        self._linear, self._dtype = partial(make_linear, dtype=dtype), dtype
        self._tied = weights.are_tied("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
        self._table_of_both: Tensor | None = None
        self._sides = {"encoder": architecture.encoder, "decoder": architecture.decoder}
        if not 0 <= architecture.epsilon < 1:
            raise ValueError(f"it adds {architecture.epsilon:g} to the variance in layer norms")
        for name, side in self._sides.items():
            if side.width % side.heads:
                raise ValueError(f"its {name} is {side.width} wide, which cannot be split among {side.heads} heads")
        layers = [f"decoder.layers.{n}.encoder_attn" for n in range(weights.layers("decoder"))]
        self._cross_heads = {name: self._heads(name) for name in layers}

    def stack(self, side: str) -> Stack:
        shape = self._sides[side]
        layers = [self._layer(side, f"{side}.layers.{n}") for n in range(shape.layers)]
        norm = self._norm(f"{side}.layer_norm", shape.width) if shape.last_norm else None
        return Stack(self._embedding(side), layers, norm, tabled=self._dtype == "float32")

    def _to(self, weight: Tensor) -> Tensor:
        return weight.to(self._device)

    def _norm(self, name: str, size: int) -> Norm:
        take = self.weights.take
        weight, bias = self._to(take(f"{name}.weight", size)), self._to(take(f"{name}.bias", size))
        return Norm(weight, bias, self._architecture.epsilon)

    def _embedding(self, side: str) -> Embedding:
        take, width = self.weights.take, self._sides[side].width
        rows, size = self.weights.shape(f"{side}.embed_tokens.weight")
        scale = math.sqrt(width) if self._architecture.scaled else 1.0
        weight = self.weights.borrow(f"{side}.embed_tokens.weight", rows, size)
        if not self._tied or self._table_of_both is None:  # one table for both sides if their weights are tied
            self._table_of_both = self._to(compact_table(weight, self._dtype))
        pieces = self._table_of_both
        matrix = self.weights.optional(f"{side}.quant_noise.weight", size, size)
        noise = None if matrix is None else self._linear(self._to(matrix), None)
        projections = [noise] if noise and side == "decoder" else []
        if size != width:
            projections.append(self._linear(self._to(take(f"{side}.project_in_dim.weight", width, size)), None))
        norm = self._optional_norm(f"{side}.layernorm_embedding", width)
        last = noise if side == "encoder" else None
        return Embedding(pieces, self._positions(side, width), projections, norm, last, scale)

    def _positions(self, side: str, width: int) -> Callable[[int], Tensor] | None:
        shape = self._sides[side]
        if shape.positions == "none":
            return None
        if shape.positions == "learned":
            name = f"{side}.embed_positions.weight"
            table = self._to(self.weights.take(name, self.weights.shape(name)[0], width)[shape.first :])
            return lambda length: table
        return Sinusoids(width, shape.first, self._device, shape.positions == "beyond")

    def _layer(self, side: str, name: str) -> Layer:
        optional, width = self.weights.optional, self._sides[side].width
        hidden = self.weights.shape(f"{name}.fc1.weight")[0]
        self_attention: SelfAttention | SimpleRecurrence
        out: Projection
        if side == "decoder" and f"{name}.{CELL}.input.weight" in self.weights:
            # a recurrent unit, whose output has no projection
            weight, bias = self._projection(f"{name}.{CELL}.forget", width, width)
            new = self.weights.borrow(f"{name}.{CELL}.input.weight", width, width).float()
            both = self._make(torch.cat((new, weight)), torch.cat((torch.zeros_like(bias), bias)))
            self_attention, out = SimpleRecurrence(both, self._sides[side].heads), Identity(width)
        else:
            self_attention, out = self._self_attention(side, name)
        attention_block = Block(
            self._norm(f"{name}.self_attn_layer_norm", width),
            self._sides[side].before,
            out,
            outer_norm=self._optional_norm(f"{name}.attn_ln", width),
        )
        residual_scale = optional(f"{name}.w_resid", width)
        feed_forward_block = Block(
            self._norm(f"{name}.final_layer_norm", width),
            self._sides[side].before,
            self._make(*self._projection(f"{name}.fc2", width, hidden)),
            inner_norm=self._optional_norm(f"{name}.ffn_layernorm", hidden),
            residual_scale=None if residual_scale is None else self._to(residual_scale),
        )
        feed_forward = self._make(
            *self._projection(f"{name}.fc1", hidden, width), activation=self._architecture.activation
        )
        parts = self_attention, attention_block, feed_forward, feed_forward_block
        if side == "encoder":
            return Layer(*parts)
        return Layer(*parts, *self._cross(name))

    def _heads(self, name: str) -> tuple[int, ...]:
        """Return the numbers of the heads that an attention has weights for, from 0 and in order."""
        of = self._sides[name.partition(".")[0]].heads
        return self.weights.chosen(f"{name}.{KEPT}", of) or tuple(range(of))

    def _optional_norm(self, name: str, size: int) -> Norm | None:
        return self._norm(name, size) if f"{name}.weight" in self.weights else None

    def _projection(self, name: str, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
        weight = self.weights.borrow(f"{name}.weight", outputs, inputs).float()
        return weight, self.weights.take(f"{name}.bias", outputs)

    def _make(self, weight: Tensor, bias: Tensor, activation: Activation = "none") -> Projection:
        return self._linear(self._to(weight), self._to(bias), activation)

    def _query(self, side: str, name: str, inner: int) -> tuple[Tensor, Tensor]:
        """Return the projection of queries, scaled by 1/sqrt(d)."""
        width, heads = self._sides[side].width, self._sides[side].heads
        weight, bias = self._projection(f"{name}.q_proj", inner, width)
        scale = (width // heads) ** -0.5
        return weight * scale, bias * scale

    def _self_attention(self, side: str, layer: str) -> tuple[SelfAttention, Projection]:
        """Return a layer's self-attention, and its output projection."""
        shape, name = self._sides[side], f"{layer}.self_attn"
        heads = len(self._heads(name))
        inner = heads * shape.width // shape.heads
        weight, bias = self._projection(f"{name}.out_proj", shape.width, inner)
        if (gains := self.weights.optional(f"{layer}.c_attn", shape.heads)) is not None:  # fairseq's scale_heads
            each = gains.repeat_interleave(shape.width // len(gains))
            weight, bias = weight * each[:, None], bias * each
        parts = [self._query(side, name, inner)]
        parts += [self._projection(f"{name}.{part}_proj", inner, shape.width) for part in "kv"]
        weights, biases = zip(*parts, strict=True)
        attention = SelfAttention(self._make(torch.cat(weights), torch.cat(biases)), heads, causal=side == "decoder")
        return attention, self._make(weight, bias)

    def _cross(self, name: str) -> tuple[CrossAttention, Block]:
        """Return a decoder layer's attention to the encoder's output.

        Heads keep their numbers: those of which only other layers have weights get zeros.
        """
        shape, source, attention = self._sides["decoder"], self._sides["encoder"].width, f"{name}.encoder_attn"
        numbers, size = list(self._cross_heads[attention]), shape.width // shape.heads
        heads = 1 + max(of_layer[-1] for of_layer in self._cross_heads.values())

        def fill(weight: Tensor) -> Tensor:  # [n d, ...] to [H d, ...]
            if len(numbers) == heads:
                return weight
            full = weight.new_zeros(heads, size, *weight.shape[1:])
            full[numbers] = weight.reshape(len(numbers), size, *weight.shape[1:])
            return full.flatten(0, 1)

        inner = len(numbers) * size
        weight, bias = self._query("decoder", attention, inner)
        query = self._make(fill(weight), fill(bias))
        parts = [map(fill, self._projection(f"{attention}.{part}_proj", inner, source)) for part in "kv"]
        weights, biases = zip(*parts, strict=True)
        weight, bias = self._projection(f"{attention}.out_proj", shape.width, inner)
        weight = fill(weight.T).T.contiguous()
        out_proj = self._to(weight).view(shape.width, heads, -1).permute(1, 2, 0).clone()  # [H, d, D]
        cross = CrossAttention(query, self._make(torch.cat(weights), torch.cat(biases)), heads, out_proj)
        norm = self._norm(f"{name}.encoder_attn_layer_norm", shape.width)
        return cross, Block(norm, shape.before, self._make(weight, bias))
