"""BERT-like encoders saved by transformers, as `Inspected`, and as their native modules.

A folder has config.json, model.safetensors and tokenizer.json. None of them is trusted: settings are selected by name
and checked against the weights, weights are safetensors, and no code from a folder is run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from align.analysis.maps import SPECIAL, Encoded, Inspected, Maps, States, Tokens
from align.analysis.models.native import build_module
from align.analysis.recording import sentence_maps, split_heads, with_norms
from align.core.errors import ModelError, PairError, show_value
from align.core.scores import head_products
from align.core.types import Pair, Part
from align.models.huggingface.files import read_weights, weight_files
from align.models.huggingface.tokenizer_json import JsonTokenizer, call_library
from align.models.recognise import find_checkpoint
from align.models.recorder import fingerprint
from align.models.settings import read_config


class Kind(NamedTuple):
    """Names in transformers for the parts of an encoder."""

    config: str  # class of its settings
    model: str  # class of its module
    layers: str = "encoder.layer"  # module that holds the layers
    value: str = "attention.self.value"  # in a layer, the projection to value vectors
    out: str = "attention.output.dense"  # in a layer, the projection of the heads' output
    options: Mapping[str, bool] = {"add_pooling_layer": False}  # arguments of the module's constructor
    before: bool = False  # whether positions start after the padding id, as in RoBERTa


KINDS = {
    "bert": Kind("BertConfig", "BertModel"),
    "camembert": Kind("CamembertConfig", "CamembertModel", before=True),
    "distilbert": Kind(
        "DistilBertConfig", "DistilBertModel", "transformer.layer", "attention.v_lin", "attention.out_lin", {}
    ),
    "electra": Kind("ElectraConfig", "ElectraModel", options={}),
    "roberta": Kind("RobertaConfig", "RobertaModel", before=True),
    "xlm-roberta": Kind("XLMRobertaConfig", "XLMRobertaModel", before=True),
}
"""Supported encoders by `model_type` of config.json."""

SAVE_AGAIN = "load it with transformers and save it again with save_pretrained, model and fast tokenizer"


def is_encoder(folder: Path) -> bool:
    """Tell whether a folder contains a BERT-like encoder, according to its config.json."""
    try:
        return read_config(folder / "config.json").kind in KINDS
    except ModelError:
        return False


def load_model(folder: Path) -> tuple[Any, int]:
    """Load the module of a folder; return it with its maximum number of pieces, special ones included."""
    config, checkpoint = read_config(folder / "config.json"), find_checkpoint(folder)[1]
    kind, weights = KINDS[config.kind], read_weights(checkpoint)
    longest = max((max(weight.shape) for weight in weights.values() if weight.dim()), default=1)
    positions = config.size("max_position_embeddings", 512, most=longest)
    settings = {"max_position_embeddings": positions}
    eager = "eager"  # the only implementation that returns weights
    model, report = build_module(
        (kind.config, kind.model), config, weights, settings, str(folder), attn_implementation=eager, **kind.options
    )
    if missing := sorted(report["missing_keys"]):
        raise ModelError(f"it has no {missing[0]}", file=str(checkpoint))
    encoder_weight = re.compile(rf"(.*\.)?(embeddings|{re.escape(kind.layers)})\.(?!position_ids$|token_type_ids$).+")
    # other unexpected weights belong to heads, e.g. for pretraining
    if unused := sorted(filter(encoder_weight.fullmatch, report["unexpected_keys"])):
        raise ModelError(f"its settings have no place for {unused[0]}", file=str(checkpoint))
    return model.float().eval(), positions - (model.config.pad_token_id + 1 if kind.before else 0)


def load_tokenizer(folder: Path, vocab_size: int) -> Any:
    """Load the tokenizer of a folder with the library tokenizers, for text that is already split into words."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ModelError("no tokenizer.json in this folder", file=str(folder), hint=SAVE_AGAIN)
    tokenizer = JsonTokenizer(path).tokenizer
    if hasattr(tokenizer.pre_tokenizer, "add_prefix_space"):
        tokenizer.pre_tokenizer.add_prefix_space = True  # each word is split as after a space
    last, number = max(tokenizer.get_vocab().items(), key=lambda piece: piece[1])
    if number >= vocab_size:
        message = f"piece {show_value(last)} is number {number:,}, but the model has {vocab_size:,}"
        raise ModelError(message, file=str(path))
    return tokenizer


class EncoderModel(Inspected):
    """An encoder that provides its attention; see `Inspected`.

    A pair is one or two segments of text. In the tokens, the second segment's words follow the first's. Pieces like
    [CLS] and [SEP] belong to no word.
    """

    def __init__(self, model: Any, tokenizer: Any, kind: str, max_pieces: int, name: str) -> None:
        self.model, self.name = model, name
        self._tokenizer, self._max_pieces = tokenizer, max_pieces
        layers = model.get_submodule(KINDS[kind].layers)
        self._values = [layer.get_submodule(KINDS[kind].value) for layer in layers]
        self._heads: int = model.config.num_attention_heads
        outs = [layer.get_submodule(KINDS[kind].out) for layer in layers]
        self._products = [head_products(split_heads(out.weight.detach(), self._heads)) for out in outs]
        self.shape = {"encoder": (len(outs), self._heads)}

    def encode(self, pair: Pair, decoded: bool = False) -> Encoded | None:
        """See `Inspected`."""
        if not pair.source:
            return None
        second = list(pair.target) or None
        try:
            encoding = call_library(self._tokenizer.encode, list(pair.source), second, True)
        except ValueError as error:  # such as a word with half a character, a surrogate
            raise PairError(f"the model's tokenizer fails: {error}", line=pair.id) from None
        too_long = len(encoding.ids) > self._max_pieces
        self.too_long += too_long
        if too_long or all(word is None for word in encoding.word_ids):
            return None
        return Encoded(pair, encoding, (len(encoding.ids), 0))

    def pieces(self, words: Sequence[str]) -> tuple[Sequence[int], Sequence[int]] | None:
        """Return the ids of a segment with special pieces, and the word of each; None if it is blank or too long."""
        encoded = self.encode(Pair(tuple(words), (), 0))
        return (encoded.input.ids, _tokens(encoded).words) if encoded else None

    def read_batch(self, batch: Sequence[Encoded], parts: Collection[Part]) -> Iterator[Mapping[Part, Maps]]:
        """See `Inspected`."""
        out = self._forward(batch)
        recorded = []
        for n, weights in enumerate(out.attentions):
            values = self._values[n](out.hidden_states[n])  # [B, S, H d]
            values = values.view(*values.shape[:2], self._heads, -1).transpose(1, 2)
            recorded.append(with_norms("encoder", n + 1, weights, values, self._products[n]))
        for n, tokens in enumerate(map(_tokens, batch)):
            yield {"encoder": sentence_maps(recorded, n, tokens, tokens)}

    def batch_states(self, batch: Sequence[Encoded]) -> Iterator[States]:
        """See `Inspected`."""
        states = torch.stack(self._forward(batch).hidden_states, 1).numpy(force=True)  # [B, L+1, S, D]
        for tokens, layers in zip(map(_tokens, batch), states, strict=True):
            yield tokens, layers[:, : len(tokens)]

    @torch.inference_mode()
    def _forward(self, batch: Sequence[Encoded]) -> Any:
        """Run the module, and return its output with the weights and the hidden states of all layers."""
        config, rows = self.model.config, [encoded.input for encoded in batch]
        inputs = {
            "input_ids": ([row.ids for row in rows], config.pad_token_id),
            "attention_mask": ([[1] * len(row.ids) for row in rows], 0),
        }
        if hasattr(config, "type_vocab_size"):
            inputs["token_type_ids"] = ([np.minimum(row.type_ids, config.type_vocab_size - 1) for row in rows], 0)
        padded = {
            name: pad_sequence([torch.tensor(row) for row in values], True, pad).to(self.model.device)
            for name, (values, pad) in inputs.items()
        }
        return self.model(**padded, output_attentions=True, output_hidden_states=True)


def _tokens(encoded: Encoded) -> Tokens:
    """Return the pieces of a pair in the model's spelling, with their words."""
    encoding, first = encoded.input, len(encoded.pair.source)
    words = (
        SPECIAL if word is None else word + (first if segment else 0)
        for word, segment in zip(encoding.word_ids, encoding.sequence_ids, strict=True)
    )
    return Tokens(tuple(encoding.tokens), tuple(words), (*encoded.pair.source, *encoded.pair.target))


def load_encoder(folder: Path, device: str = "cpu") -> EncoderModel:
    """Load an encoder that was saved by transformers, with its tokenizer."""
    model, max_pieces = load_model(folder)
    tokenizer = load_tokenizer(folder, model.config.vocab_size)
    kind = model.config.model_type
    files = [folder / "config.json", folder / "tokenizer.json", *weight_files(find_checkpoint(folder)[1])]
    name = f"huggingface:{kind}@{fingerprint(files, '')}"
    return EncoderModel(model.requires_grad_(False).to(device), tokenizer, kind, max_pieces, name)
