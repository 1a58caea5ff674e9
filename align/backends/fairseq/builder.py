"""From a fairseq checkpoint's settings and weights to a Transformer that is run without fairseq."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from align.backends.fairseq.dictionary import PAD
from align.backends.fairseq.weights import Weights
from align.backends.transformer.forward import Layer, Stack, Transformer
from align.backends.transformer.layers import Block, CrossAttention, Embedding, Norm, SelfAttention, Sinusoids
from align.backends.transformer.linear import Activation, Linear, make_linear
from align.types import Dtype

SINUSOIDS = 100_000
"""fairseq computes no more positions than these."""

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "tanh": "tanh",
    "linear": "none",
}
"""fairseq's names."""


def build_transformer(
    settings: Namespace, weights: Mapping[str, Tensor], device: str = "cpu", dtype: Dtype = "float32"
) -> Transformer:
    """The Transformer that a checkpoint describes.

    Args:
        settings: of `align.backends.fairseq.settings.model_settings`.
        weights: by name.
        device: where it is to run.
        dtype: of its products; see `align.backends.transformer.linear`.

    Raises:
        ValueError: settings and weights do not fit each other, or it is not a Transformer that can be run here.
    """
    if getattr(settings, "cross_self_attention", False):
        raise ValueError("its decoder attends to source and target at once (cross_self_attention)")
    builder = _Builder(settings, Weights(weights), device, dtype)
    transformer = Transformer(builder.stack("encoder"), builder.stack("decoder"))
    if left := builder.weights.left():
        raise ValueError(f"it has {left[0]}, which is no part of a Transformer for translation as its settings have it")
    return transformer


def max_positions(settings: Namespace, weights: Mapping[str, Tensor]) -> tuple[int, int]:
    """The most pieces that a model has positions for, on the source's and the target's side."""
    most = []
    for side, name in (("encoder", "max_source_positions"), ("decoder", "max_target_positions")):
        asked: int = getattr(settings, name, 1024)
        table = weights.get(f"{side}.embed_positions.weight")
        learned = table is not None and getattr(settings, f"{side}_learned_pos", False)
        there = len(table) - PAD - 1 if table is not None and learned else SINUSOIDS
        most.append(asked if getattr(settings, "no_token_positional_embeddings", False) else min(asked, there))
    return most[0], most[1]


class _Builder:
    """Makes the parts of a Transformer out of named weights."""

    def __init__(self, settings: Namespace, weights: Weights, device: str, dtype: Dtype) -> None:
        self._settings, self.weights, self._device = settings, weights, device
        self._linear = partial(make_linear, dtype=dtype)
        name = getattr(settings, "activation_fn", "relu")
        self._activation = ACTIVATIONS[name]
        self._widths = {side: self._width(side) for side in ("encoder", "decoder")}

    def stack(self, side: str) -> Stack:
        """The encoder or the decoder."""
        layers = [self._layer(side, f"{side}.layers.{n}") for n in range(self._layers(side))]
        return Stack(self._embedding(side), layers, self._last_norm(side))

    def _last_norm(self, side: str) -> Norm | None:
        """The layer norm of a pre-norm stack's output; fairseq had none at first."""
        if side == "decoder" or not self._before(side) or self.weights.number(f"{side}.version", 1) < 2:
            return None
        return self._norm(f"{side}.layer_norm", self._widths[side])

    def _get(self, name: str, otherwise: Any) -> Any:
        return getattr(self._settings, name, otherwise)

    def _width(self, side: str) -> int:
        """D of a side."""
        width: int = self._get(f"{side}_embed_dim", 0) or self.weights.shape(f"{side}.embed_tokens.weight")[1]
        heads = self._heads(side)
        if width % heads:
            raise ValueError(f"its {side} is {width} wide, which cannot be split among {heads} heads")
        return width

    def _heads(self, side: str) -> int:
        heads: int | None = self._get(f"{side}_attention_heads", None)
        if heads is None:
            raise ValueError(f"its settings have no {side}_attention_heads")
        return heads

    def _layers(self, side: str) -> int:
        layers: int = self._get(f"{side}_layers", 0) or self.weights.layers(side)
        return layers

    def _before(self, side: str) -> bool:
        before: bool = self._get(f"{side}_normalize_before", False)
        return before

    def _to(self, weight: Tensor) -> Tensor:
        return weight.to(self._device)

    def _norm(self, name: str, size: int) -> Norm:
        take = self.weights.take
        return Norm(self._to(take(f"{name}.weight", size)), self._to(take(f"{name}.bias", size)))

    def _embedding(self, side: str) -> Embedding:
        take, width = self.weights.take, self._widths[side]
        rows, size = self.weights.shape(f"{side}.embed_tokens.weight")
        scale = 1.0 if self._get("no_scale_embedding", False) else math.sqrt(width)
        pieces = self._to(take(f"{side}.embed_tokens.weight", rows, size) * scale)
        noise = self._optional_projection(f"{side}.quant_noise.weight", size, size)
        first = [noise] if noise and side == "decoder" else []
        if size != width:
            first.append(self._linear(self._to(take(f"{side}.project_in_dim.weight", width, size)), None))
        named = f"{side}.layernorm_embedding"
        norm = self._norm(named, width) if f"{named}.weight" in self.weights else None
        last = noise if side == "encoder" else None
        return Embedding(pieces, self._positions(side, width), first, norm, last)

    def _optional_projection(self, name: str, *shape: int) -> Linear | None:
        weight = self.weights.optional(name, *shape)
        return None if weight is None else self._linear(self._to(weight), None)

    def _positions(self, side: str, width: int) -> Callable[[int], Tensor] | None:
        if self._get("no_token_positional_embeddings", False):
            return None
        if not self._get(f"{side}_learned_pos", False):
            return Sinusoids(width, PAD + 1, self._device)
        name = f"{side}.embed_positions.weight"
        table = self._to(self.weights.take(name, self.weights.shape(name)[0], width)[PAD + 1 :])
        return lambda length: table

    def _layer(self, side: str, name: str) -> Layer:
        optional, width = self.weights.optional, self._widths[side]
        hidden: int = self._get(f"{side}_ffn_embed_dim", 0) or self.weights.shape(f"{name}.fc1.weight")[0]
        weight, bias = self._projection(f"{name}.self_attn.out_proj", width, width)
        if (gains := optional(f"{name}.c_attn", self._heads(side))) is not None:  # fairseq's scale_heads
            each = gains.repeat_interleave(width // len(gains))
            weight, bias = weight * each[:, None], bias * each
        attention_block = Block(
            self._norm(f"{name}.self_attn_layer_norm", width),
            self._before(side),
            self._make(weight, bias),
            outer_norm=self._optional_norm(f"{name}.attn_ln", width),
        )
        residual_scale = optional(f"{name}.w_resid", width)
        feed_forward_block = Block(
            self._norm(f"{name}.final_layer_norm", width),
            self._before(side),
            self._make(*self._projection(f"{name}.fc2", width, hidden)),
            inner_norm=self._optional_norm(f"{name}.ffn_layernorm", hidden),
            residual_scale=None if residual_scale is None else self._to(residual_scale),
        )
        feed_forward = self._make(*self._projection(f"{name}.fc1", hidden, width), activation=self._activation)
        self_attention = self._self_attention(side, f"{name}.self_attn")
        parts = self_attention, attention_block, feed_forward, feed_forward_block
        return Layer(*parts, *self._cross(name)) if side == "decoder" else Layer(*parts)

    def _optional_norm(self, name: str, size: int) -> Norm | None:
        return self._norm(name, size) if f"{name}.weight" in self.weights else None

    def _projection(self, name: str, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
        return self.weights.take(f"{name}.weight", outputs, inputs), self.weights.take(f"{name}.bias", outputs)

    def _make(self, weight: Tensor, bias: Tensor, activation: Activation = "none") -> Linear:
        return self._linear(self._to(weight), self._to(bias), activation)

    def _query(self, name: str, width: int, heads: int) -> tuple[Tensor, Tensor]:
        """The projection of queries, scaled by 1/sqrt(d)."""
        weight, bias = self._projection(f"{name}.q_proj", width, width)
        scale = (width // heads) ** -0.5
        return weight * scale, bias * scale

    def _self_attention(self, side: str, name: str) -> SelfAttention:
        width, heads = self._widths[side], self._heads(side)
        parts = [self._query(name, width, heads)]
        parts += [self._projection(f"{name}.{part}_proj", width, width) for part in "kv"]
        weights, biases = zip(*parts, strict=True)
        return SelfAttention(self._make(torch.cat(weights), torch.cat(biases)), heads, causal=side == "decoder")

    def _cross(self, name: str) -> tuple[CrossAttention, Block]:
        """A decoder layer's attention to the encoder's output."""
        width, source, heads = self._widths["decoder"], self._widths["encoder"], self._heads("decoder")
        attention = f"{name}.encoder_attn"
        query = self._make(*self._query(attention, width, heads))
        parts = [self._projection(f"{attention}.{part}_proj", width, source) for part in "kv"]
        weights, biases = zip(*parts, strict=True)
        weight, bias = self._projection(f"{attention}.out_proj", width, width)
        out_proj = self._to(weight).view(-1, heads, width // heads).permute(1, 2, 0)  # [H, d, D]
        cross = CrossAttention(query, self._make(torch.cat(weights), torch.cat(biases)), heads, out_proj)
        norm = self._norm(f"{name}.encoder_attn_layer_norm", width)
        return cross, Block(norm, self._before("decoder"), self._make(weight, bias))
