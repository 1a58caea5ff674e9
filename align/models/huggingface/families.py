"""Differences between the model types; a new type is an entry in FAMILIES.

All of these but T5 and its variants derive from fairseq's Transformer, and use its names of weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from align.core.types import Dtype
from align.models.causal.families import ACTIVATIONS
from align.models.engine.builder import Architecture, Positions, Side, build_transformer
from align.models.engine.forward import Transformer
from align.models.engine.weights import Weights
from align.models.huggingface.t5 import MAX_LAYERS, build_t5
from align.models.settings import Config

Special = Literal["pieces", "eos", "bos", "start", "source", "target"]
"""The pieces of a sentence, or what surrounds them: an end, a beginning, the decoder's start, a language."""

UNUSED = (
    r"lm_head\.(weight|bias)",
    r"final_logits_bias",
    r"decoder\.output_projection\.weight",
    r"shared\.weight",
    r"(en|de)coder\.version",
)
"""Weights that attention does not depend on."""


@dataclass(frozen=True)
class Family:
    """A family of models."""

    before: bool  # whether layer norms come before attention and feed-forward networks (pre-norm)
    positions: Positions  # the kind of position embeddings
    first: int | None  # row or number of the first position; None: the one after the id of padding
    source: Sequence[Special]  # what the encoder reads
    steps: Sequence[Special]  # what the decoder reads before the first piece
    # whether a tag for the target language comes before the source, if the vocabulary has such tags
    tagged: bool = False


T5 = Family(True, "none", 0, ("pieces", "eos"), ("start",), tagged=True)

FAMILIES = {
    "bart": Family(False, "learned", 2, ("bos", "pieces", "eos"), ("start", "bos")),
    "fsmt": Family(False, "sinusoids", None, ("pieces", "eos"), ("start",)),
    "m2m_100": Family(True, "sinusoids", None, ("source", "pieces", "eos"), ("eos", "target")),  # and NLLB
    "marian": Family(False, "beyond", 0, ("pieces", "eos"), ("start",), tagged=True),
    "mbart": Family(True, "learned", 2, ("pieces", "eos", "source"), ("target",)),
    "mbart-50": Family(True, "learned", 2, ("source", "pieces", "eos"), ("eos", "target")),
    "mt5": T5,
    "pegasus": Family(True, "beyond", 0, ("pieces", "eos"), ("start",)),
    "small100": Family(True, "sinusoids", None, ("target", "pieces", "eos"), ("eos",)),
    "t5": T5,
    "umt5": T5,
}
"""Families by the `model_type` of config.json. The tokenizer tells mBART-50 from mBART, and SMaLL-100 from M2M100."""


def transformer_of(
    family: Family, config: Config, weights: dict[str, Tensor], device: str = "cpu", dtype: Dtype = "float32"
) -> Transformer:
    """Return the Transformer with a model's settings and weights."""
    if family is T5:
        return build_t5(config, weights, device, dtype)
    activation = ACTIVATIONS[config.one_of("activation_function", ACTIVATIONS, "gelu")]
    pad = config.id("pad_token_id")
    first = family.first if family.first is not None else (1 if pad is None else pad) + 1
    encoder, decoder = (
        Side(
            layers=config.size(f"{side}_layers", most=MAX_LAYERS),
            heads=config.size(f"{side}_attention_heads"),
            width=config.size("d_model"),
            before=family.before,
            last_norm=family.before,
            positions=family.positions,
            first=first,
        )
        for side in ("encoder", "decoder")
    )
    shape = Architecture(encoder, decoder, activation, scaled=config.switch("scale_embedding", False))

    # The names that `align.models.engine.builder` expects; an embedding of both sides is stored once
    renamed = {name.removeprefix("model."): weights.pop(name) for name in list(weights)}
    tables = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    shared = next((renamed[table] for table in tables if table in renamed), None)
    if shared is not None:
        for side in ("encoder", "decoder"):
            renamed.setdefault(f"{side}.embed_tokens.weight", shared)
    computed = () if family.positions == "learned" else (r"(en|de)coder\.embed_positions\.(weights?|_float_tensor)",)
    return build_transformer(shape, Weights(renamed, (*UNUSED, *computed)), device, dtype)
