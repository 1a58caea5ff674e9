"""Run one forced pass through an encoder and the decoder layers that are needed, made of `layers`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import torch
from torch import Tensor

from align.core import types
from align.core.norms import head_products
from align.models.engine.layers import Block, CrossAttention, Embedding, Kept, Layout, Norm, RootNorm, SelfAttention
from align.models.engine.linear import Linear

# OpenMP's threads stay in the parent of a fork, and torch would wait for them forever.
os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


class Padded(NamedTuple):
    """Ids of a batch `[B, L]`, and a mask that is true for pieces; pads are at the end of each row."""

    ids: Tensor
    kept: Tensor


@dataclass(frozen=True)
class Layer:
    """A layer of the encoder, or with `cross` one of the decoder.

    Attributes:
        kept: remaining heads of its self-attention, if some were pruned.
        cross_kept: remaining heads of `cross`, if some were pruned.
    """

    attention: SelfAttention
    attention_block: Block
    feed_forward: Linear
    feed_forward_block: Block
    cross: CrossAttention | None = None
    cross_block: Block | None = None
    kept: Kept | None = None
    cross_kept: Kept | None = None

    @property
    def heads(self) -> int:
        """The number of attention heads, including pruned ones."""
        return self.kept.of if self.kept else self.attention.heads

    def attend(self, x: Tensor, layout: Layout) -> Tensor:
        """Return the output of the layer's self-attention `[N, D]`."""
        block = self.attention_block
        return block.leave(self.attention(block.enter(x), layout), x)

    def feed(self, x: Tensor) -> Tensor:
        """Return the output of the layer's feed-forward network `[N, D]`."""
        block = self.feed_forward_block
        return block.leave(self.feed_forward(block.enter(x)), x)

    @cached_property
    def shown(self) -> tuple[Tensor, list[Tensor]]:
        """The output projection of `cross`, with zeros for pruned heads `[H, d, D]`, and its products."""
        assert self.cross
        if self.cross_kept is None:
            return self.cross.out_proj, self.cross.products
        out_proj = self.cross_kept.spread(self.cross.out_proj, 0)
        return out_proj, head_products(out_proj)

    def record(self, number: int, weights: Tensor, values: Tensor) -> types.CrossAttention:
        """Return the attention of `cross`, with zeros for pruned heads; see `CrossAttention.weights`."""
        if self.cross_kept:
            weights, values = self.cross_kept.spread(weights, 1), self.cross_kept.spread(values, 1)
        return types.CrossAttention(number, weights, values, *self.shown)


@dataclass(frozen=True)
class Stack:
    """An encoder, or a decoder without its output layer."""

    embedding: Embedding
    layers: Sequence[Layer]
    norm: Norm | RootNorm | None


@dataclass(frozen=True)
class Transformer:
    """A model for inference, safe to use from any number of threads at once.

    Attributes:
        encoder: with the layer norm of its output, if it has one.
        decoder: without the layer norm of its output, and without its output layer.
    """

    encoder: Stack
    decoder: Stack

    @property
    def heads(self) -> int:
        """The number of attention heads in each of the decoder's layers."""
        return self.decoder.layers[0].heads

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        return self.encoder.embedding.pieces.device

    @torch.inference_mode()
    def encode(self, ids: Tensor, layout: Layout) -> Tensor:
        """Return the encoder's output `[N, D]` for source ids `[N]`."""
        x = self.encoder.embedding(ids, layout)
        for layer in self.encoder.layers:
            x = layer.feed(layer.attend(x, layout))
        return self.encoder.norm(x) if self.encoder.norm else x

    @torch.inference_mode()
    def record(self, source: Padded, steps: Padded, layers: Sequence[int]) -> Iterator[types.CrossAttention]:
        """Return the cross-attention of some decoder layers, from one pass that ends with the last of them.

        Args:
            source: the encoder's input `[B, S]`, on the model's device.
            steps: the decoder's input `[B, T]`, on the model's device.
            layers: from 1, lowest first.
        """
        columns, rows = Layout.of(source.kept), Layout.of(steps.kept)
        encoded = self.encode(columns.flatten(source.ids[..., None])[:, 0], columns)
        x = self.decoder.embedding(rows.flatten(steps.ids[..., None])[:, 0], rows)
        recorded: list[types.CrossAttention] = []
        for number, layer in enumerate(self.decoder.layers[: layers[-1]], 1):
            assert layer.cross
            assert layer.cross_block
            x = layer.attend(x, rows)
            entered = layer.cross_block.enter(x)
            weights, values = layer.cross.weights(entered, rows, encoded, columns)
            if number in layers:
                recorded.append(layer.record(number, weights, values))
            if number < layers[-1]:
                context = layer.cross.context(weights, values, rows)
                x = layer.feed(layer.cross_block.leave(context, x))
        return iter(recorded)
