"""Build a decoder-only Transformer from its weights, one matrix at a time."""

from __future__ import annotations

from torch import Tensor, cat

from align.core.types import Dtype
from align.io.process import release_freed_memory
from align.models.causal.families import UNUSED, Architecture
from align.models.causal.forward import CausalTransformer, GroupedAttention, Layer
from align.models.engine.forward import Block, Embedding, RootNorm, compact_table
from align.models.engine.linear import GatedLinear, Projection, make_linear
from align.models.engine.weights import Weights

PREFIXES = ("model.language_model.", "language_model.model.", "model.", "language_model.")
"""Beginnings of the names of weights, which differ between versions of transformers."""


def build_causal(
    shape: Architecture, weights: dict[str, Tensor], device: str = "cpu", dtype: Dtype = "float32"
) -> CausalTransformer:
    """Return the Transformer with a model's weights.

    Args:
        weights: by name; emptied, so that no more than one matrix is in memory twice.
    """
    return _Builder(shape, Weights(renamed(weights), UNUSED), device, dtype).build()


def renamed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weights without the beginnings of their names."""
    renamed = {}
    for name in list(weights):
        prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")
        renamed[name.removeprefix(prefix)] = weights.pop(name)
    return renamed


class _Builder:
    def __init__(self, shape: Architecture, weights: Weights, device: str, dtype: Dtype) -> None:
        self._shape, self._weights, self._device, self._dtype = shape, weights, device, dtype
        self._tables = list({id(table): table for table in shape.frequencies}.values())

    def build(self) -> CausalTransformer:
        shape = self._shape
        rows, _ = self._weights.shape("embed_tokens.weight")
        table = self._weights.borrow("embed_tokens.weight", rows, shape.width)
        embedding = Embedding(compact_table(table, self._dtype).to(self._device), None, scale=shape.embedding_scale)
        del table
        layers = []
        for number in range(shape.layers):
            layers.append(self._layer(number))
            release_freed_memory()  # of float32 copies: as much as the model again
        norm = self._norm("norm")
        self._weights.check_all_taken()
        return CausalTransformer(embedding, layers, [table.to(self._device) for table in self._tables], norm)

    def _layer(self, number: int) -> Layer:
        shape, name = self._shape, f"layers.{number}."
        attention, network = f"{name}self_attn.", f"{name}mlp."
        of_heads, of_groups = shape.heads * shape.size, shape.groups * shape.size
        after = [self._norm(f"{name}post_{part}_layernorm") if shape.family.gemma else None for part in _PARTS]
        norms = [
            self._norm(f"{attention}{part}_norm", shape.size) if shape.family.head_norms else None for part in "qk"
        ]
        attend = GroupedAttention(
            self._joined(attention, {"q": of_heads, "k": of_groups, "v": of_groups}),
            shape.heads,
            shape.groups,
            shape.size,
            shape.scale,
            next(n for n, table in enumerate(self._tables) if table is shape.frequencies[number]),
            shape.windows[number],
            shape.cap,
            *norms,
        )
        out = self._linear(f"{attention}o_proj", shape.width, of_heads, shape.output_bias)
        gate, up = (
            self._linear(f"{network}{part}_proj", shape.inner, shape.width, shape.inner_bias, activation)
            for part, activation in (("gate", True), ("up", False))
        )
        down = self._linear(f"{network}down_proj", shape.width, shape.inner, shape.inner_bias)
        before_network = "pre_feedforward" if shape.family.gemma else "post_attention"
        return Layer(
            attend,
            Block(self._norm(f"{name}input_layernorm"), True, out, outer_norm=after[0]),
            GatedLinear(gate, up),
            Block(self._norm(f"{name}{before_network}_layernorm"), True, down, outer_norm=after[1]),
        )

    def _norm(self, name: str, size: int | None = None) -> RootNorm:
        weight = self._weights.take(f"{name}.weight", size or self._shape.width)
        weight = weight + 1 if self._shape.family.gemma else weight
        return RootNorm(weight.to(self._device), self._shape.epsilon)

    def _joined(self, prefix: str, rows: dict[str, int]) -> Projection:
        """Return the projections of queries, keys and values in one."""
        weights = [self._weights.take(f"{prefix}{part}_proj.weight", n, self._shape.width) for part, n in rows.items()]
        biases = (
            [self._weights.take(f"{prefix}{part}_proj.bias", n) for part, n in rows.items()]
            if self._shape.query_bias
            else []
        )
        bias = cat(biases).to(self._device) if biases else None
        return make_linear(cat(weights).to(self._device), bias, dtype=self._dtype)

    def _linear(self, name: str, rows: int, columns: int, biased: bool, activated: bool = False) -> Projection:
        weight = self._weights.take(f"{name}.weight", rows, columns).to(self._device)
        bias = self._weights.take(f"{name}.bias", rows).to(self._device) if biased else None
        return make_linear(weight, bias, self._shape.activation if activated else "none", self._dtype)


_PARTS = ("attention", "feedforward")
