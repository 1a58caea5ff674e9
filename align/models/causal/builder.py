"""Build a decoder-only Transformer from its weights, one matrix at a time."""

from __future__ import annotations

from torch import Tensor, cat

from align.core.types import Dtype
from align.io.process import release_freed_memory
from align.models.causal.families import UNUSED, Architecture
from align.models.causal.forward import CausalTransformer, GroupedAttention, Layer
from align.models.engine.forward import Block, Embedding, RootNorm, compact_table
from align.models.engine.linear import Activation, GatedLinear, Projection, make_linear
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
    """Builds the parts of a Transformer from named weights."""

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
        parts = {f"{attention}q": of_heads, f"{attention}k": of_groups, f"{attention}v": of_groups}
        norms = [
            self._norm(f"{attention}{part}_norm", shape.size) if shape.family.head_norms else None for part in "qk"
        ]
        attend = GroupedAttention(
            self._linear(parts, shape.width, shape.query_bias),
            shape.heads,
            shape.groups,
            shape.size,
            shape.scale,
            next(n for n, table in enumerate(self._tables) if table is shape.frequencies[number]),
            shape.windows[number],
            shape.cap,
            *norms,
        )
        out = self._linear({f"{attention}o": shape.width}, of_heads, shape.output_bias)
        gate = self._linear({f"{network}gate": shape.inner}, shape.width, shape.inner_bias, shape.activation)
        up = self._linear({f"{network}up": shape.inner}, shape.width, shape.inner_bias)
        down = self._linear({f"{network}down": shape.width}, shape.inner, shape.inner_bias)
        gemma = shape.family.gemma
        after = [self._norm(f"{name}post_{part}_layernorm") if gemma else None for part in ("attention", "feedforward")]
        before_network = "pre_feedforward" if gemma else "post_attention"
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

    def _linear(self, parts: dict[str, int], columns: int, biased: bool, activation: Activation = "none") -> Projection:
        """Return projections in one, given their names and rows."""
        weights = [self._weights.take(f"{name}_proj.weight", rows, columns) for name, rows in parts.items()]
        weight = cat(weights) if len(weights) > 1 else weights[0]
        biases = [self._weights.take(f"{name}_proj.bias", rows) for name, rows in parts.items()] if biased else []
        bias = cat(biases).to(self._device) if biases else None
        return make_linear(weight.to(self._device), bias, activation, self._dtype)
