"""What the kinds of models differ in: a new one is an entry in FAMILIES.

All of these but T5 have come from fairseq's Transformer, and call their weights as it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from align.backends.huggingface.config import Config
from align.backends.huggingface.t5 import MOST_LAYERS, build_t5
from align.backends.transformer.builder import Architecture, Positions, Side, build_transformer
from align.backends.transformer.forward import Transformer
from align.backends.transformer.linear import Activation
from align.backends.transformer.weights import Weights
from align.errors import ModelError
from align.types import Dtype

Special = Literal["pieces", "eos", "bos", "start", "source", "target"]
"""A sentence's pieces, or what stands beside them: an end, a beginning, what the decoder starts with, a language."""

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "swish": "silu",
    "silu": "silu",
    "tanh": "tanh",
}
"""transformers' names."""

UNUSED = (
    r"lm_head\.(weight|bias)",
    r"final_logits_bias",
    r"decoder\.output_projection\.weight",
    r"shared\.weight",
    r"decoder\.layer_norm\.(weight|bias)",
    r"(en|de)coder\.version",
)
"""Weights that attention does not depend on."""

COMPUTED = (*UNUSED, r"(en|de)coder\.embed_positions\.(weights?|_float_tensor)")
"""The same where positions are computed."""


@dataclass(frozen=True)
class Family:
    """A kind of model.

    Attributes:
        before: whether layer norms come before attention and feed-forward networks (pre-norm).
        positions: the kind of vectors that say where a piece is.
        first: the row, or the number, of the first position.
        source: what the encoder reads.
        steps: what the decoder reads before the first piece.
    """

    before: bool
    positions: Positions
    first: int
    source: Sequence[Special]
    steps: Sequence[Special]


T5 = Family(True, "none", 0, ("pieces", "eos"), ("start",))

FAMILIES = {
    "bart": Family(False, "learned", 2, ("bos", "pieces", "eos"), ("start", "bos")),
    "fsmt": Family(False, "sinusoids", 2, ("pieces", "eos"), ("start",)),
    "m2m_100": Family(True, "sinusoids", 2, ("source", "pieces", "eos"), ("eos", "target")),  # and NLLB
    "marian": Family(False, "beyond", 0, ("pieces", "eos"), ("start",)),
    "mbart": Family(True, "learned", 2, ("pieces", "eos", "source"), ("target",)),
    "mbart-50": Family(True, "learned", 2, ("source", "pieces", "eos"), ("eos", "target")),
    "mt5": T5,
    "pegasus": Family(True, "beyond", 0, ("pieces", "eos"), ("start",)),
    "t5": T5,
}
"""By the `model_type` of config.json; mBART-50's is mBART's, and its tokenizer's name or languages tell them apart."""


def transformer_of(
    family: Family, config: Config, weights: Mapping[str, Tensor], device: str = "cpu", dtype: Dtype = "float32"
) -> Transformer:
    """The Transformer that a folder holds.

    Args:
        family: the kind of model.
        config: its settings.
        weights: by name.
        device: where it is to run.
        dtype: of its products; see `align.backends.transformer.linear`.

    Raises:
        ModelError: a setting is missing, or is not one of a model that can be run here.
        ValueError: settings and weights do not fit each other.
    """
    if family is T5:
        return build_t5(config, weights, device, dtype)
    return build_transformer(_architecture(family, config), _named(family, weights), device, dtype)


def _architecture(family: Family, config: Config) -> Architecture:
    """The shape of a model.

    Raises:
        ModelError: a setting is missing, or is not one of a model that can be run here.
    """
    name = config.word("activation_function", "gelu")
    if name not in ACTIVATIONS:
        raise ModelError(f"its activation_function is {name}, not one of {', '.join(ACTIVATIONS)}")
    encoder, decoder = (
        Side(
            layers=config.size(f"{side}_layers", most=MOST_LAYERS),
            heads=config.size(f"{side}_attention_heads"),
            width=config.size("d_model"),
            before=family.before,
            last_norm=family.before and side == "encoder",
            positions=family.positions,
            first=family.first,
        )
        for side in ("encoder", "decoder")
    )
    return Architecture(encoder, decoder, ACTIVATIONS[name], scaled=config.switch("scale_embedding", False))


def _named(family: Family, weights: Mapping[str, Tensor]) -> Weights:
    """Weights by the names that `align.backends.transformer.builder` asks for.

    Pieces that both sides share are stored once.
    """
    renamed = {name.removeprefix("model."): weight for name, weight in weights.items()}
    shared = renamed.get("shared.weight")
    if shared is None:
        sides = (renamed.get(f"{side}.embed_tokens.weight") for side in ("encoder", "decoder"))
        shared = next((table for table in (*sides, renamed.get("lm_head.weight")) if table is not None), None)
    if shared is not None:
        for side in ("encoder", "decoder"):
            renamed.setdefault(f"{side}.embed_tokens.weight", shared)
    return Weights(renamed, UNUSED if family.positions == "learned" else COMPUTED)
