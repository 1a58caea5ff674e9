"""Differences between the model types; a new type is an entry in FAMILIES.

All of these but T5 and its variants derive from fairseq's Transformer, and use its names of weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from align.core.types import Dtype
from align.models.causal.families import ACTIVATIONS
from align.models.engine.builder import Architecture, Positions, Side, build_transformer
from align.models.engine.forward import Transformer
from align.models.engine.weights import Weights
from align.models.huggingface.t5 import MAX_LAYERS, build_t5
from align.models.settings import Config

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
    # what the encoder reads: "pieces", and around them "eos", "bos", or a language, "source" or "target"
    source: str
    steps: str  # what the decoder reads before the first piece: these, or its "start"
    tokenizers: str  # classes of transformers that are read, without `Tokenizer` and `TokenizerFast`
    code: str = ""  # form of the pieces that stand for languages, with the code as its group
    languages: str = ""  # key of LANGUAGES: these follow the pieces of sentencepiece, whose ids are shifted by one
    # whether a tag for the target language comes before the source, if the vocabulary has such tags
    tagged: bool = False


SPECIAL_CODE = r"(?:__)?((?!_)[\w-]{1,30}?)(?:__)?"
"""Special pieces `deu_Latn`, `de_DE`, or `__de__` for `de`."""

T5 = Family(True, "none", 0, "pieces eos", "start", "T5 MT5 ByT5 Roberta", r"<2(\w[\w-]{0,29})>", tagged=True)

FAMILIES = {
    "bart": Family(False, "learned", 2, "bos pieces eos", "start bos", "Bart Barthez Roberta T5"),
    "fsmt": Family(False, "sinusoids", None, "pieces eos", "start", "FSMT Marian"),
    "m2m_100": Family(  # and NLLB
        True, "sinusoids", None, "source pieces eos", "eos target", "M2M100 Nllb", SPECIAL_CODE, "nllb"
    ),
    "marian": Family(False, "beyond", 0, "pieces eos", "start", "Marian", r">>([\w-]{1,30})<<", tagged=True),
    "mbart": Family(True, "learned", 2, "pieces eos source", "target", "MBart MBart50", SPECIAL_CODE, "mbart"),
    "mbart-50": Family(True, "learned", 2, "source pieces eos", "eos target", "MBart50", SPECIAL_CODE, "mbart-50"),
    "mt5": T5,
    "pegasus": Family(True, "beyond", 0, "pieces eos", "start", "Pegasus"),
    "small100": Family(True, "sinusoids", None, "target pieces eos", "eos", "SMALL100", SPECIAL_CODE),
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
