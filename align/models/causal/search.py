"""Predict pieces with a decoder-only model, for translating."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from align.core.errors import ModelError
from align.core.types import Dtype
from align.models.causal.builder import renamed
from align.models.causal.forward import Cache, CausalTransformer
from align.models.engine.forward import State
from align.models.engine.linear import Linear, make_linear
from align.models.engine.weights import Weights
from align.models.folder import ModelFolder
from align.models.huggingface.files import read_model_weights


@dataclass(frozen=True)
class DecoderOnly:
    """Predicts what follows a prompt; see `align.models.engine.search.Predictor`."""

    transformer: CausalTransformer
    output: Linear

    def begin(self, sources: Tensor) -> tuple[Tensor, Sequence[State], Sequence[State]]:
        """See `Predictor.begin`; nothing is kept of prompts but states."""
        cache: Cache = []
        return self.output(self.transformer.advance(sources, cache)), cache, ()

    def advance(
        self, ids: Tensor, step: int, states: Sequence[State], sources: Sequence[State]
    ) -> tuple[Tensor, Sequence[State]]:
        """See `Predictor.advance`."""
        cache: Cache = [(keys, values) for keys, values in states]
        return self.output(self.transformer.advance(ids[:, None], cache)), cache


def output_layer(transformer: CausalTransformer, origin: tuple[ModelFolder, str, Dtype]) -> Linear:
    """Return the output layer of a model from the folder, device and dtype that it was loaded from.

    Raises:
        ModelError: the file has no such weights.
    """
    folder, device, dtype = origin
    weights = Weights(renamed(read_model_weights(folder, mapped=True)))
    table = "lm_head.weight" if "lm_head.weight" in weights else "embed_tokens.weight"
    try:
        weight = weights.take(table, *transformer.embedding.pieces.shape)
    except ValueError as error:
        message = f"weights and configuration do not fit: {error}"
        raise ModelError(message, file=str(folder.checkpoint)) from None
    return make_linear(weight.to(device), None, dtype=dtype)
