"""Masking of heads in both forms of a model: its framework's native module, and our engine, which records attention."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from align.analysis.models.heads import AttentionBlock, AttentionHead, masked
from align.core.types import Part
from align.models.engine.forward import Layer, Transformer
from align.models.engine.linear import Projection
from align.models.recorder import ModelRecorder


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
    """Mask some heads of a model within the context, in `recorder.transformer` and in its native module.

    Args:
        recorder: recorder of the model; not thread-safe.
        blocks: blocks of `own_model(recorder)`.
        heads: heads to mask.

    Raises:
        ValueError: the model does not have the head.
    """
    whole = recorder.transformer
    with masked(blocks, heads):
        recorder.transformer = gate_heads(whole, heads)
        try:
            yield
        finally:
            recorder.transformer = whole


def gate_heads(transformer: Transformer, heads: Collection[AttentionHead]) -> Transformer:
    """Return a copy of a Transformer with the output of some heads set to zero."""
    encoder, decoder = transformer.encoder, transformer.decoder
    return Transformer(
        replace(encoder, layers=[_gate(layer, "encoder", n, heads) for n, layer in enumerate(encoder.layers, 1)]),
        replace(decoder, layers=[_gate(layer, "decoder", n, heads) for n, layer in enumerate(decoder.layers, 1)]),
    )


def _gate(layer: Layer, part: Part, number: int, heads: Collection[AttentionHead]) -> Layer:
    """Return a layer with those of the heads that are in it masked."""

    def numbers(which: str) -> list[int]:
        return [head - 1 for part, layer, head in heads if (part, layer) == (which, number)]

    self_heads, cross_heads = numbers(part), numbers("cross") if part == "decoder" else []
    if self_heads:
        block = layer.attention_block
        layer = replace(layer, attention_block=replace(block, out=_gated(block.out, self_heads, layer.attention.heads)))
    if cross_heads and layer.cross and layer.cross_block:
        out_proj = layer.cross.out_proj.clone()  # [H, d, D]
        out_proj[cross_heads] = 0
        out = _gated(layer.cross_block.out, cross_heads, layer.cross.heads)
        layer = replace(
            layer, cross=replace(layer.cross, out_proj=out_proj), cross_block=replace(layer.cross_block, out=out)
        )
    return layer


def _gated(projection: Projection, closed: Sequence[int], heads: int) -> Gated:
    weight = projection.weight()
    gates = torch.ones(weight.shape[1], device=weight.device)
    gates.view(heads, -1)[list(closed)] = 0
    return Gated(projection, gates)
