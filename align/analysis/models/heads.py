"""Attention heads of a framework's own module: which there are, masking them, and what the loss loses by them.

A head's output enters the model through its columns of the output projection, and nowhere else. So a head is masked
exactly by zeroing them, whatever the framework; and the gradient of a loss with respect to a gate that the head's
output is multiplied by, at 1, is the inner product of these columns with their own gradient (Michel et al. 2019,
eq. 2).

Letters: H heads, d head size, D model size.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from align.core.types import Part

_KINDS = (
    # fairseq, and transformers' families that have come from it
    (r"(encoder|decoder)\.layers\.(\d+)\.(self_attn|encoder_attn)", "out_proj", "num_heads"),
    # T5
    (r"(encoder|decoder)\.block\.(\d+)\.layer\.\d+\.(SelfAttention|EncDecAttention)", "o", "n_heads"),
    # BERT, RoBERTa, ELECTRA
    (r"(encoder)\.layer\.(\d+)\.(attention)", "output.dense", "self.num_attention_heads"),
    # DistilBERT
    (r"(transformer)\.layer\.(\d+)\.(attention)", "out_lin", "n_heads"),
)
"""Names of attention modules, of their output projections, and of their numbers of heads."""

_CROSS = ("encoder_attn", "EncDecAttention")


class AttentionHead(NamedTuple):
    """A head by its place: layers and heads count from 1."""

    part: Part
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.part} {self.layer}.{self.head}"


@dataclass(frozen=True)
class AttentionBlock:
    """Multi-head attention of one layer.

    Attributes:
        part: of the model.
        layer: from 1.
        heads: H.
        projection: the module whose weight is the output projection `[D, H d]`.
    """

    part: Part
    layer: int
    heads: int
    projection: Any

    @property
    def columns(self) -> Tensor:
        """The output projection, a view with a block of columns for each head `[D, H, d]`."""
        weight: Tensor = self.projection.weight
        return weight.detach().view(len(weight), self.heads, -1)

    def gate_gradients(self) -> Tensor:
        """What the loss gains with each head's gate, by the gradient that its projection has now `[H]`."""
        gradient: Tensor = self.projection.weight.grad
        return (self.columns * gradient.view_as(self.columns)).sum((0, 2))


def attention_blocks(module: Any) -> list[AttentionBlock]:
    """All multi-head attention of a module, the encoder's before the decoder's, lowest layers first.

    Args:
        module: fairseq's TransformerModel, an encoder-decoder of transformers' of a family in
            `align.models.huggingface.families`, or a BERT-like encoder of transformers'; or what has one inside.

    Raises:
        ValueError: it has none that is known.
    """
    found = []
    for name, attention in module.named_modules():
        for pattern, projection, heads in _KINDS:
            if match := re.fullmatch(rf"(?:.*\.)?{pattern}", name):
                side, layer, kind = match.groups()
                part: Part = "cross" if kind in _CROSS else "decoder" if side == "decoder" else "encoder"
                count: int = attrgetter(heads)(attention)
                found.append(AttentionBlock(part, int(layer) + 1, count, attrgetter(projection)(attention)))
    if not found:
        raise ValueError(f"{type(module).__name__} has no attention that is known here")
    parts = ("encoder", "decoder", "cross")
    return sorted(found, key=lambda block: (parts.index(block.part), block.layer))


def all_heads(blocks: Sequence[AttentionBlock]) -> list[AttentionHead]:
    """Every head of these blocks, in order."""
    return [AttentionHead(block.part, block.layer, n + 1) for block in blocks for n in range(block.heads)]


@contextmanager
def masked(blocks: Sequence[AttentionBlock], heads: Collection[AttentionHead]) -> Iterator[None]:
    """With the output of some heads zero; leaving it gives the module its weights back, to the last bit.

    Args:
        blocks: of the module.
        heads: those to mask.

    Raises:
        ValueError: the module has no such head.
    """
    if unknown := set(heads) - set(all_heads(blocks)):
        raise ValueError(f"there is no head {min(unknown)}")
    of_block = [
        (block, [n for part, layer, n in heads if (part, layer) == (block.part, block.layer)]) for block in blocks
    ]
    kept = [(block, block.columns.clone()) for block, numbers in of_block if numbers]
    try:
        for block, numbers in of_block:
            block.columns[:, [n - 1 for n in numbers]] = 0
        yield
    finally:
        for block, columns in kept:
            block.columns.copy_(columns)


@contextmanager
def gradients_of(blocks: Sequence[AttentionBlock]) -> Iterator[None]:
    """With gradients of the output projections, and of no other weight that had none before.

    They add up until `zero_grad` of the module, as torch has it, and are gone on leaving.
    """
    weights = [block.projection.weight for block in blocks]
    before = [weight.requires_grad for weight in weights]
    try:
        for weight in weights:
            weight.requires_grad_(True)
        with torch.enable_grad():
            yield
    finally:
        for weight, was in zip(weights, before, strict=True):
            weight.grad = None
            weight.requires_grad_(was)
