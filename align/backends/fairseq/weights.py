"""From a fairseq checkpoint's settings and weights to a Transformer that is run without fairseq."""

from __future__ import annotations

import math
import re
from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from align.backends.fairseq.dictionary import PAD
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

UNUSED = (
    r"(en|de)coder\.version",
    r"(en|de)coder\.embed_positions\.(_float_tensor|weights)",
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)",  # fairseq 0.12 copies what a layer has
    r"decoder\.(output_projection\.weight|output_projection\.bias|embed_out|project_out_dim\.weight)",
    r"decoder\.adaptive_softmax\..*",
    r"(en|de)coder\.layer_norm\.(weight|bias)",  # the decoder's, and those that fairseq before 0.5 did not use
    r"classification_heads\..*",
)
"""Weights that attention does not depend on."""


class Weights:
    """A checkpoint's weights, each asked for by name and shape; what nobody has asked for is known in the end.

    Args:
        weights: by name.

    Raises:
        ValueError: from any method: a weight is missing, or has another shape.
    """

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self._weights = _upgraded(weights)
        self._asked: set[str] = set()
        self._room = 2 * stored_numbers(weights) + 1_000_000

    def __contains__(self, name: str) -> bool:
        return name in self._weights

    def take(self, name: str, *shape: int) -> Tensor:
        """A weight of that shape, in float32."""
        if name not in self._weights:
            raise ValueError(f"it has no {name}")
        weight = self._weights[name]
        if tuple(weight.shape) != shape:
            sizes = "x".join(map(str, weight.shape)) or "one number"
            raise ValueError(f"{name} is {sizes}, where its settings make {'x'.join(map(str, shape))}")
        self._asked.add(name)
        self._room -= weight.numel()
        if self._room < 0:
            raise ValueError("its layers share weights, and would be far larger than its file")
        if not weight.isfinite().all():
            raise ValueError(f"{name} has numbers that are not finite; the training has failed")
        return weight.float()

    def optional(self, name: str, *shape: int) -> Tensor | None:
        """A weight of that shape if there is one of that name."""
        return self.take(name, *shape) if name in self else None

    def number(self, name: str, otherwise: float) -> float:
        """A weight that is one number."""
        weight = self._weights.get(name)
        return float(weight.flatten()[0]) if weight is not None and weight.numel() else otherwise

    def shape(self, name: str) -> tuple[int, int]:
        """Rows and columns of a table."""
        table = self._weights.get(name)
        if table is None or table.dim() != 2:
            raise ValueError(f"it has no {name}" if table is None else f"{name} is not a table")
        return table.shape[0], table.shape[1]

    def layers(self, side: str) -> int:
        """How many layers a side has, if all of them have names."""
        return len({name.split(".")[2] for name in self._weights if name.startswith(f"{side}.layers.")})

    def left(self) -> list[str]:
        """Names of weights that attention may depend on, but that nobody has asked for."""
        unused = re.compile("|".join(UNUSED))
        return [name for name in self._weights if name not in self._asked and not unused.fullmatch(name)]


def stored_numbers(weights: Mapping[str, Tensor]) -> int:
    """How many numbers a file holds, each counted once, however many weights are made of it."""
    stored = {
        w.untyped_storage().data_ptr(): w.untyped_storage().nbytes() // w.element_size() for w in weights.values()
    }
    return sum(stored.values())


_OLD_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}


def _upgraded(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights by the names of fairseq 0.12: once layer norms had numbers, and three projections were one weight."""
    renamed: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if old := re.fullmatch(r"((en|de)coder)(\.layers\.\d+)\.layer_norms\.([0-2])(\.\w+)", name):
            norms = _OLD_NORMS[old[1]]
            new = norms[int(old[4])] if int(old[4]) < len(norms) else name
            renamed[f"{old[1]}{old[3]}.{new}{old[5]}"] = weight
        elif (old := re.fullmatch(r"(.*_attn)\.in_proj_(weight|bias)", name)) and weight.dim():
            third = len(weight) // 3
            for n, part in enumerate("qkv"):
                renamed[f"{old[1]}.{part}_proj.{old[2]}"] = weight[n * third : (n + 1) * third if n < 2 else None]
        else:
            renamed[name] = weight
    return renamed


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
