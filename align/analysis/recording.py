"""Records all attention of a Transformer in one forced pass: encoder, decoder and cross-attention."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from align.analysis.maps import Maps, Tokens
from align.core.errors import ModelError
from align.core.scores import gram, head_products, source_norms
from align.core.types import Part
from align.models.engine.forward import Layer, Layout, Padded, SelfAttention, Transformer


class LayerAttention(NamedTuple):
    """Attention of one layer in a batch, from T rows to S columns."""

    part: Part  # part of the model
    layer: int  # number of the layer, from 1
    weights: Tensor  # a `[B, H, T, S]`; padded rows are meaningless, padded columns are 0
    vectors: Tensor  # norm of each head's transformed vector, `||f(x)||` `[B, H, S]`


def with_norms(part: Part, layer: int, weights: Tensor, values: Tensor, products: list[Tensor]) -> LayerAttention:
    """Return a layer's attention with its norms, from its value vectors `[B, H, S, d]` and its `head_products`."""
    return LayerAttention(part, layer, weights, source_norms(gram(values, products)))


def sentence_maps(layers: Sequence[LayerAttention], number: int, rows: Tokens, columns: Tokens) -> Maps:
    """Return the attention of the layers of one part, lowest first, in the sentence of this number in a batch."""
    t, s = len(rows), len(columns)
    weights = np.stack([layer.weights[number, :, :t, :s].numpy(force=True) for layer in layers])
    vectors = np.stack([layer.vectors[number, :, :s].numpy(force=True) for layer in layers])
    return Maps(rows, columns, weights, vectors)


def split_heads(weight: Tensor, heads: int) -> Tensor:
    """Split an output projection by heads: `[D, H d]` to `[H, d, D]`."""
    return weight.view(len(weight), heads, -1).permute(1, 2, 0)


class Inside:
    """A Transformer that provides all its attention."""

    def __init__(self, transformer: Transformer) -> None:
        self._transformer = transformer
        self._products: dict[tuple[Part, int], list[Tensor]] = {}

    @property
    def shape(self) -> dict[Part, tuple[int, int]]:
        """Number of layers and of heads per layer, by part."""
        encoder, decoder = self._transformer.encoder.layers, self._transformer.decoder.layers
        return {
            "encoder": (len(encoder), encoder[0].attention.heads),
            "decoder": (len(decoder), decoder[0].attention.heads),
            "cross": (len(decoder), self._transformer.heads),
        }

    @torch.inference_mode()
    def record(self, source: Padded, steps: Padded | None, parts: Collection[Part]) -> list[LayerAttention]:
        """Return the attention of all layers of some parts; the pass stops once those are computed.

        Args:
            source: input of the encoder `[B, S]`, on the model's device.
            steps: input of the decoder `[B, T]`, on the model's device; None to run the encoder only.
        """
        columns = Layout.of(source.kept)
        stack = self._transformer.encoder
        x = stack.embedding(columns.flatten(source.ids[..., None])[:, 0], columns)
        recorded: list[LayerAttention] = []
        for number, layer in enumerate(stack.layers, 1):
            x = self._attend("encoder", number, layer, x, columns, recorded if "encoder" in parts else None)
            x = layer.feed(x)
        if steps is None:
            return recorded
        encoded = stack.norm(x) if stack.norm else x
        rows = Layout.of(steps.kept)
        stack = self._transformer.decoder
        x = stack.embedding(rows.flatten(steps.ids[..., None])[:, 0], rows)
        for number, layer in enumerate(stack.layers, 1):
            x = self._attend("decoder", number, layer, x, rows, recorded if "decoder" in parts else None)
            assert layer.cross
            assert layer.cross_block
            weights, values = layer.cross.weights(layer.cross_block.enter(x), rows, encoded, columns)
            if "cross" in parts:
                recorded.append(with_norms("cross", number, weights, values, layer.cross.products))
            x = layer.feed(layer.cross_block.leave(layer.cross.context(weights, values, rows), x))
        return recorded

    def _attend(
        self, part: Part, number: int, layer: Layer, x: Tensor, layout: Layout, recorded: list[LayerAttention] | None
    ) -> Tensor:
        """Apply a layer's self-attention `[N, D]`, and record it if there is a list."""
        if recorded is None:
            return layer.attend(x, layout)
        if not isinstance(layer.attention, SelfAttention):
            raise ModelError(f"the {part} has recurrent units in the place of self-attention")
        weights, values = layer.attention.weights(layer.attention_block.enter(x), layout)
        if (part, number) not in self._products:
            out_proj = split_heads(layer.attention_block.out.weight(), layer.attention.heads)
            self._products[part, number] = head_products(out_proj)
        recorded.append(with_norms(part, number, weights, values, self._products[part, number]))
        return layer.attention_block.leave(layer.attention.context(weights, values, layout), x)

    @torch.inference_mode()
    def states(self, source: Padded) -> Tensor:
        """Return the encoder's vectors: input of the first layer, and output of each layer `[B, L+1, S, D]`.

        The last is the encoder's output, after its final norm if it has one; vectors of padding are meaningless.
        """
        columns = Layout.of(source.kept)
        stack = self._transformer.encoder
        states = [stack.embedding(columns.flatten(source.ids[..., None])[:, 0], columns)]  # [N, D]
        for layer in stack.layers:
            states.append(layer.feed(layer.attend(states[-1], columns)))
        if stack.norm:
            states[-1] = stack.norm(states[-1])
        return torch.stack([columns.pad(state) for state in states], 1)
