"""Attention heads: those of a framework's native module, their effect on its loss, and masking.

Heads are masked in that module, and in our engine, which records attention.

A head's output enters the model only through its columns of the output projection. So zeroing these columns masks a
head exactly, in every framework. And if a gate multiplies the head's output, the gradient of a loss with respect to the
gate, at 1, is the inner product of these columns with their own gradient (Michel et al. 2019, eq. 2).

Letters: H heads, d head size, D model size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from align.core.types import PARTS, Part
from align.models.engine.forward import Block, Layer, Transformer
from align.models.engine.linear import Projection
from align.models.recorder import ModelRecorder

_KINDS = (
    # fairseq, and transformers' families derived from it
    (r"(encoder|decoder)\.layers\.(\d+)\.(self_attn|encoder_attn)", "out_proj", "num_heads"),
    # T5
    (r"(encoder|decoder)\.block\.(\d+)\.layer\.\d+\.(SelfAttention|EncDecAttention)", "o", "n_heads"),
    # BERT, RoBERTa, ELECTRA
    (r"(encoder)\.layer\.(\d+)\.(attention)", "output.dense", "self.num_attention_heads"),
    # DistilBERT
    (r"(transformer)\.layer\.(\d+)\.(attention)", "out_lin", "n_heads"),
)
"""Patterns of attention modules' names, with their output projections and attributes for the number of heads."""

_CROSS = ("encoder_attn", "EncDecAttention")


class AttentionHead(NamedTuple):
    """A head by its place; layers and heads count from 1."""

    part: Part
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.part} {self.layer}.{self.head}"


@dataclass(frozen=True)
class AttentionBlock:
    """Multi-head attention of one layer."""

    part: Part  # part of the model
    layer: int  # number of the layer, from 1
    heads: int  # number of heads, H
    projection: Any  # the module whose weight is the output projection `[D, H d]`

    @property
    def columns(self) -> Tensor:
        """The output projection, a view with a block of columns for each head `[D, H, d]`."""
        weight: Tensor = self.projection.weight
        return weight.detach().view(len(weight), self.heads, -1)


def attention_blocks(module: Any) -> list[AttentionBlock]:
    """Return all multi-head attention of a module: encoder, decoder, then cross-attention, lowest layers first.

    Args:
        module: fairseq's TransformerModel, an encoder-decoder of transformers of a family in
            `align.models.huggingface.families`, a BERT-like encoder of transformers, or a module that contains one.
    """
    blocks = []
    for name, attention in module.named_modules():
        for pattern, projection, heads in _KINDS:
            if match := re.fullmatch(rf"(?:.*\.)?{pattern}", name):
                side, layer, kind = match.groups()
                part: Part = "cross" if kind in _CROSS else "decoder" if side == "decoder" else "encoder"
                count: int = attrgetter(heads)(attention)
                blocks.append(AttentionBlock(part, int(layer) + 1, count, attrgetter(projection)(attention)))
    return sorted(blocks, key=lambda block: (PARTS.index(block.part), block.layer))


def all_heads(blocks: Sequence[AttentionBlock]) -> list[AttentionHead]:
    """Return every head of some blocks, in order."""
    return [AttentionHead(block.part, block.layer, n + 1) for block in blocks for n in range(block.heads)]


@contextmanager
def masked(blocks: Sequence[AttentionBlock], heads: Collection[AttentionHead]) -> Iterator[None]:
    """Set the output of some heads to zero within the context; the exit restores the weights exactly."""
    columns = {(block.part, block.layer): block.columns for block in blocks}
    whole = {place: columns[place].clone() for place in {(part, layer) for part, layer, _ in heads}}
    try:
        for part, layer, head in heads:
            columns[part, layer][:, head - 1] = 0
        yield
    finally:
        for place, saved in whole.items():
            columns[place].copy_(saved)


def gate_gradients(blocks: Sequence[AttentionBlock], loss: Callable[[], Tensor]) -> Tensor:
    """Return the gradient of a loss with respect to the gate of each head `[H]`."""
    weights = [block.projection.weight for block in blocks]
    try:
        for weight in weights:
            weight.requires_grad_(True)
        with torch.enable_grad():
            gradients = torch.autograd.grad(loss(), weights)
    finally:
        for weight in weights:
            weight.requires_grad_(False)
    shaped = (
        (block.columns, gradient.view_as(block.columns)) for block, gradient in zip(blocks, gradients, strict=True)
    )
    return torch.cat([(columns * gradient).sum((0, 2)) for columns, gradient in shaped])


@dataclass(frozen=True)
class Gated:
    """A projection whose inputs are first multiplied by gates `[I]`."""

    projection: Projection
    gates: Tensor

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """See `align.models.engine.linear.Linear`."""
        return self.projection(x * self.gates, residual)

    def weight(self) -> Tensor:
        """See `Projection`."""
        return self.projection.weight() * self.gates


@contextmanager
def without_heads(
    recorder: ModelRecorder, blocks: Sequence[AttentionBlock], heads: Collection[AttentionHead]
) -> Iterator[None]:
    """Mask some heads of a model within the context, in its Transformer and, by `blocks`, in its native module."""
    whole = recorder.transformer
    with masked(blocks, heads):
        recorder.transformer = gate_heads(whole, heads)
        try:
            yield
        finally:
            recorder.transformer = whole


def gate_heads(transformer: Transformer, heads: Collection[AttentionHead]) -> Transformer:
    """Return a copy of a Transformer with the output of some heads set to zero."""

    def gated(block: Block, closed: Sequence[int], count: int) -> Block:
        gates = torch.ones(count, block.out.weight().shape[1] // count)
        gates[closed] = 0
        return replace(block, out=Gated(block.out, gates.flatten().to(block.out.weight().device)))

    def closed_in(part: Part, number: int) -> list[int]:
        return [head - 1 for of_part, layer, head in heads if (of_part, layer) == (part, number)]

    def gate(layer: Layer, part: Part, number: int) -> Layer:
        if closed := closed_in(part, number):
            layer = replace(layer, attention_block=gated(layer.attention_block, closed, layer.attention.heads))
        if part == "decoder" and layer.cross and layer.cross_block and (closed := closed_in("cross", number)):
            out_proj = layer.cross.out_proj.clone()  # [H, d, D]
            out_proj[closed] = 0
            block = gated(layer.cross_block, closed, layer.cross.heads)
            layer = replace(layer, cross=replace(layer.cross, out_proj=out_proj), cross_block=block)
        return layer

    encoder, decoder = transformer.encoder, transformer.decoder
    return Transformer(
        replace(encoder, layers=[gate(layer, "encoder", n) for n, layer in enumerate(encoder.layers, 1)]),
        replace(decoder, layers=[gate(layer, "decoder", n) for n, layer in enumerate(decoder.layers, 1)]),
    )
