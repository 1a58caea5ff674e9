"""Read what only translating needs of a Hugging Face model: its output layer, and pieces that are not generated."""

from __future__ import annotations

import warnings

from align.core.errors import ModelError
from align.core.types import TextWarning
from align.models.engine.linear import make_linear
from align.models.engine.search import Output
from align.models.engine.weights import Weights
from align.models.huggingface.config import Config, read_json
from align.models.huggingface.files import read_model_weights
from align.models.huggingface.text import Text
from align.models.recorder import ModelRecorder

T5_KINDS = ("t5", "mt5", "umt5")

OWN_TABLES = ("lm_head.weight", "decoder.output_projection.weight")
SHARED_TABLES = ("decoder.embed_tokens.weight", "shared.weight", "encoder.embed_tokens.weight")
"""Weights of the output layer: its own, or those of embeddings, in search order."""

NOT_FOLLOWED = {
    "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "repetition_penalty": 1,
    "encoder_repetition_penalty": 1, "min_length": 0, "min_new_tokens": 0, "num_beam_groups": 1,
    "exponential_decay_length_penalty": None, "forced_decoder_ids": None, "sequence_bias": None,
    "begin_suppress_tokens": None,
}  # fmt: skip
"""Generation settings that change translations, with the value that means "unused"; our search has none of them."""


def output_of(text: Text, recorder: ModelRecorder) -> Output:
    """Return the output layer of a model, whose file is read again.

    Args:
        text: text processing of the model.
        recorder: the model.

    Raises:
        ModelError: it has no such weights, or they do not fit its settings.

    Warns:
        TextWarning: the model asks for a search that differs from ours.
    """
    folder, device, dtype = recorder.origin
    config = Config(read_json(folder.root / "config.json"), str(folder.root / "config.json"))
    rows, width = len(recorder.transformer.decoder.embedding.pieces), config.size("d_model")
    stored = read_model_weights(folder, mapped=True)
    weights = Weights({name.removeprefix("model."): stored.pop(name) for name in list(stored)})
    is_t5 = config.kind in T5_KINDS
    tied = is_t5 or config.switch("tie_word_embeddings", config.kind != "fsmt")
    table = next((name for name in (*OWN_TABLES, *(SHARED_TABLES if tied else ())) if name in weights), None)
    if table is None:
        own = OWN_TABLES[config.kind == "fsmt"]
        raise ModelError(f"it has no {own}, which translating needs", file=str(folder.checkpoint))
    try:
        weight, bias = weights.take(table, rows, width).to(device), weights.optional("final_logits_bias", 1, rows)
    except ValueError as error:
        raise ModelError(f"its output layer does not fit: {error}", file=str(folder.checkpoint)) from None
    scaled = config.switch("scale_decoder_outputs", config.switch("tie_word_embeddings", True))
    if is_t5 and config.kind != "mt5" and scaled:  # T5 1.1 is told from the first T5 by its lack of tied tables
        weight *= width**-0.5
    linear = make_linear(weight, None if bias is None else bias[0].to(device), dtype=dtype)
    end, pad = config.id("eos_token_id"), config.id("pad_token_id")
    assert end is not None  # as loading has checked
    path = folder.root / "generation_config.json"
    settings = Config(read_json(path), str(path)) if path.is_file() else config
    unlike = [name for name, unused in NOT_FOLLOWED.items() if settings.content.get(name) not in (None, unused)]
    never = {pad}
    for name in ("bad_words_ids", "suppress_tokens"):
        listed = settings.content.get(name) or []
        for ids in listed if isinstance(listed, list) else [listed]:
            piece = ids[0] if isinstance(ids, list) and len(ids) == 1 else ids
            if isinstance(piece, int) and 0 <= piece < rows:
                never.add(piece)
            else:
                unlike.append(name)
    if unlike:
        message = f"{settings.file}: {', '.join(dict.fromkeys(unlike))} is not followed here: translations may differ "
        warnings.warn(message + "from those of transformers", TextWarning, stacklevel=2)
    pieces = {number: piece for piece, number in text.known.items()}
    return Output(linear, end, sorted(n for n in never - {end} if n is not None), pieces, text.join)
