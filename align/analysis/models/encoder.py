"""BERT-like encoders saved by transformers, as `Inspected`, and as their native modules.

A folder has config.json, model.safetensors and tokenizer.json. None of them is trusted: settings are selected by name
and checked against the weights, weights are safetensors, and no code from a folder is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from align.analysis.maps import SPECIAL, Maps, Numbers, Tokens
from align.analysis.models.native_transformers import import_transformers, silent
from align.analysis.models.stream import BatchedModel, Encoded, sentence_maps
from align.analysis.recording import LayerAttention, split_heads, with_norms
from align.core.errors import ModelError, PairError, one_line, show_value
from align.core.scores import head_products
from align.core.types import Pair, Part
from align.models.huggingface.config import Config, read_config
from align.models.huggingface.files import read_weights, weight_files
from align.models.huggingface.tokenizer_json import JsonTokenizer
from align.models.recorder import fingerprint


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

LAYERS = ("num_hidden_layers", "n_layers")
SIZES = (
    "vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings",
    "type_vocab_size", "embedding_size", "dim", "n_heads", "hidden_dim",
)  # fmt: skip
SHARES = ("layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")
WORDS = ("hidden_act", "activation")

SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")

SAVE_AGAIN = "load it with transformers and save it again with save_pretrained, model and fast tokenizer"


def is_encoder(folder: Path) -> bool:
    """Tell whether a folder contains a BERT-like encoder, according to its config.json."""
    path = folder / "config.json"
    try:
        return path.is_file() and read_config(path).kind in KINDS
    except ModelError:
        return False


def weights_file(folder: Path) -> Path:
    """Return the file of the weights, or the index of their files."""
    for name in SAFETENSORS:
        if (folder / name).is_file():
            return folder / name
    raise ModelError("no model.safetensors in this folder", file=str(folder), hint=SAVE_AGAIN)


def load_model(folder: Path) -> tuple[Any, int]:
    """Load the module of a folder; return it with its maximum number of pieces, special ones included."""
    hf = import_transformers("a BERT-like encoder")
    config, checkpoint = read_config(folder / "config.json"), weights_file(folder)
    if config.kind not in KINDS:
        message = f"a model of type {config.kind or 'unknown'}, not one of {', '.join(KINDS)}"
        raise ModelError(message, file=config.file)
    kind = KINDS[config.kind]
    weights = read_weights(checkpoint)
    settings = _settings(config, weights, hf.activations.ACT2FN)
    try:
        with silent(hf.logging):
            model, report = getattr(hf, kind.model).from_pretrained(
                None,
                config=getattr(hf, kind.config)(**settings),
                state_dict=weights,
                attn_implementation="eager",  # the only implementation that returns weights
                ignore_mismatched_sizes=True,  # `_check_fit` reports them
                output_loading_info=True,
                **kind.options,
            )
    except Exception as error:  # transformers raises many types for unusual settings
        if isinstance(error, MemoryError):
            raise
        raise ModelError(f"transformers cannot build this model: {one_line(error)}", file=str(folder)) from None
    model = model.float().eval()
    _check_fit(model, report, kind, str(checkpoint))
    positions = model.config.max_position_embeddings
    max_pieces = positions - (model.config.pad_token_id + 1 if kind.before else 0)
    return model, max_pieces


def _check_fit(model: nn.Module, report: Mapping[str, Any], kind: Kind, file: str) -> None:
    """Check that all weights of a module came from its file, and that no weight of the file's encoder is unused."""
    if missing := sorted(report["missing_keys"]):
        raise ModelError(f"it has no {missing[0]}", file=file)
    if wrong := sorted(report["mismatched_keys"]):
        name, *shapes = wrong[0]
        actual, expected = ("x".join(map(str, shape)) or "one number" for shape in shapes)
        raise ModelError(f"{name} is {actual}, where its settings make {expected}", file=file)
    encoder_weight = re.compile(rf"(.*\.)?(embeddings|{re.escape(kind.layers)})\.(?!position_ids$|token_type_ids$).+")
    # other unexpected weights belong to heads, e.g. for pretraining
    if unused := sorted(filter(encoder_weight.fullmatch, report["unexpected_keys"])):
        raise ModelError(f"its settings have no place for {unused[0]}", file=file)
    if bad := next((name for name, weight in model.named_parameters() if not weight.isfinite().all()), None):
        raise ModelError(f"{bad} has numbers that are not finite; the training has failed", file=file)


def _settings(config: Config, weights: Mapping[str, Tensor], functions: Collection[str]) -> dict[str, Any]:
    """Return the settings for transformers, limited by the sizes of the weights, so that nothing large is allocated."""
    numbers = {match[0] for name in weights if (match := re.search(r"(?<=layer\.)\d+(?=\.)", name))}
    widest = max((max(weight.shape) for weight in weights.values() if weight.dim()), default=1)
    readers: list[tuple[tuple[str, ...], Callable[[str], Any]]] = [
        (LAYERS, partial(config.size, most=len(numbers))),
        (SIZES, partial(config.size, most=widest)),
        (SHARES, config.share),
        (WORDS, lambda name: config.one_of(name, functions)),
        (("pad_token_id",), config.id),
    ]
    return {name: read(name) for names, read in readers for name in names if config.has(name)}


def load_tokenizer(folder: Path, config: Any) -> Any:
    """Load the tokenizer of a folder with the library tokenizers, for text that is already split into words."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ModelError("no tokenizer.json in this folder", file=str(folder), hint=SAVE_AGAIN)
    tokenizer = JsonTokenizer(path).tokenizer
    if config.pad_token_id is None or tokenizer.id_to_token(config.pad_token_id) is None:
        raise ModelError(f"no piece is number {config.pad_token_id}, which pads are said to be", file=str(path))
    pre_tokenizer = tokenizer.pre_tokenizer
    if hasattr(pre_tokenizer, "add_prefix_space"):
        pre_tokenizer.add_prefix_space = True  # each word is split as after a space
    try:  # one and two segments have special pieces
        encoded = [tokenizer.encode(["a"], second, is_pretokenized=True) for second in (None, ["a"])]
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # the library's own type, not an Exception
        raise ModelError(f"not a tokenizer ({one_line(error)})", file=str(path)) from None
    special = [piece for encoding in encoded for piece in zip(encoding.tokens, encoding.ids, strict=True)]
    last, number = max([*tokenizer.get_vocab().items(), *special], key=itemgetter(1))
    if number >= config.vocab_size:
        message = f"piece {show_value(last)} is number {number:,}, but the model has {config.vocab_size:,}"
        raise ModelError(message, file=str(path))
    return tokenizer


class EncoderModel(BatchedModel[Any]):
    """An encoder that provides its attention; see `Inspected`.

    A pair is one or two segments of text. In the tokens, the second segment's words follow the first's. Pieces like
    [CLS] and [SEP] belong to no word.

    Args:
        model: transformers' module, which returns attention weights.
        tokenizer: a tokenizer of the library tokenizers.
        kind: a key of `KINDS`.
        max_pieces: maximum number of pieces in the model's input.
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

    def read_batch(self, batch: Sequence[Encoded[Any]], parts: Collection[Part]) -> Iterator[Mapping[Part, Maps]]:
        """See `BatchedModel`."""
        recorded = self.record(*self._padded(batch))
        for n, tokens in enumerate(map(_tokens, batch)):
            yield {"encoder": sentence_maps(recorded, n, tokens, tokens)}

    def batch_states(self, batch: Sequence[Encoded[Any]]) -> Iterator[tuple[Tokens, Numbers]]:
        """See `BatchedModel`."""
        with torch.inference_mode():
            hidden = self._forward(*self._padded(batch), output_hidden_states=True).hidden_states
        states = torch.stack(hidden).transpose(0, 1).numpy(force=True)  # [B, L+1, S, D]
        for tokens, layers in zip(map(_tokens, batch), states, strict=True):
            yield tokens, layers[:, : len(tokens)]

    def record(self, ids: Tensor, mask: Tensor, segments: Tensor) -> list[LayerAttention]:
        """Return the attention of all layers.

        Args:
            ids: `[B, S]`, on the model's device.
            mask: False for padding `[B, S]`.
            segments: segment of each piece `[B, S]`.
        """
        values: list[Tensor] = []  # of each layer [B, S, H d]
        with ExitStack() as hooks, torch.inference_mode():
            for linear in self._values:
                hook = linear.register_forward_hook(lambda module, args, output: values.append(output))
                hooks.callback(hook.remove)
            weights = self._forward(ids, mask, segments, output_attentions=True).attentions
            layers = zip(weights, values, self._products, strict=True)
            return [
                with_norms("encoder", n, a, v.view(*v.shape[:2], self._heads, -1).transpose(1, 2), products)
                for n, (a, v, products) in enumerate(layers, 1)
            ]

    def pieces(self, words: Sequence[str]) -> tuple[Sequence[int], Sequence[int]] | None:
        """Return the ids of a segment with special pieces, and the word of each; None if it is blank or too long."""
        encoded = self.encode(Pair(tuple(words), (), 0))
        return (encoded.input.ids, _tokens(encoded).words) if encoded else None

    def _forward(self, ids: Tensor, mask: Tensor, segments: Tensor, **outputs: bool) -> Any:
        named = {"token_type_ids": segments} if hasattr(self.model.config, "type_vocab_size") else {}
        return self.model(input_ids=ids, attention_mask=mask.long(), **named, **outputs)

    def encode(self, pair: Pair, decoded: bool = False) -> Encoded[Any] | None:
        """See `BatchedModel`."""
        if not pair.source:
            return None
        second = list(pair.target) or None
        try:
            encoding = self._tokenizer.encode(list(pair.source), second, is_pretokenized=True)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:  # the library's own type, not an Exception
            if re.search("[\ud800-\udfff]", " ".join((*pair.source, *pair.target))):
                raise PairError("a word has half a character, a surrogate", line=pair.id) from None
            raise ModelError(f"its tokenizer fails over line {pair.id}: {type(error).__name__}") from None
        if len(encoding.ids) > self._max_pieces or all(word is None for word in encoding.word_ids):
            return None
        return Encoded(pair, encoding, (len(encoding.ids), 0))

    def _padded(self, batch: Sequence[Encoded[Any]]) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids, mask and segments of a batch `[B, S]`."""
        longest = max(len(encoded.input.ids) for encoded in batch)
        ids = torch.full((len(batch), longest), self.model.config.pad_token_id)
        segments = torch.zeros_like(ids)
        for row, encoded in enumerate(batch):
            ids[row, : len(encoded.input.ids)] = torch.tensor(encoded.input.ids)
            segments[row, : len(encoded.input.ids)] = torch.tensor(encoded.input.type_ids)
        segments.clamp_(max=getattr(self.model.config, "type_vocab_size", 1) - 1)
        lengths = torch.tensor([[len(encoded.input.ids)] for encoded in batch])
        mask = torch.arange(longest) < lengths
        device = self.model.device
        return ids.to(device), mask.to(device), segments.to(device)


def _tokens(encoded: Encoded[Any]) -> Tokens:
    """Return the pieces of a pair in the model's spelling, with their words."""
    encoding, first = encoded.input, len(encoded.pair.source)
    words = (
        SPECIAL if word is None else word + (first if segment else 0)
        for word, segment in zip(encoding.word_ids, encoding.sequence_ids, strict=True)
    )
    return Tokens(tuple(encoding.tokens), tuple(words), (*encoded.pair.source, *encoded.pair.target))


def load_encoder(folder: Path, device: str = "cpu") -> EncoderModel:
    """Load an encoder that was saved by transformers, with its tokenizer.

    Raises:
        ModelError: a file is missing, damaged, or from another model.
    """
    model, max_pieces = load_model(folder)
    tokenizer = load_tokenizer(folder, model.config)
    kind = model.config.model_type
    files = [folder / "config.json", folder / "tokenizer.json", *weight_files(weights_file(folder))]
    name = f"huggingface:{kind}@{fingerprint(files, '')}"
    return EncoderModel(model.requires_grad_(False).to(device), tokenizer, kind, max_pieces, name)
