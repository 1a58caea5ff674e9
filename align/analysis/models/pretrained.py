"""BERT-like encoders saved by transformers, as its native modules.

A folder has config.json, model.safetensors and tokenizer.json. None of them is trusted: settings are selected by name
and checked against the weights, weights are safetensors, and no code from a folder is run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from align.analysis.models.native_transformers import import_transformers, silent
from align.core.errors import ModelError, one_line, show_value
from align.models.huggingface.config import Config, read_json
from align.models.huggingface.files import read_weights
from align.models.huggingface.tokenizer_json import read_tokenizer


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
        return path.is_file() and Config(read_json(path), str(path)).kind in KINDS
    except ModelError:
        return False


def read_config(folder: Path) -> Config:
    """Read the settings of an encoder.

    Raises:
        ModelError: they are missing, damaged, or for another kind of model.
    """
    file = str(folder / "config.json")
    config = Config(read_json(folder / "config.json"), file)
    if config.kind not in KINDS:
        message = f"a model of type {config.kind or 'unknown'}, not one of {', '.join(KINDS)}"
        raise ModelError(message, file=file)
    return config


def weights_file(folder: Path) -> Path:
    """Return the file of the weights, or the index of their files.

    Raises:
        ModelError: there are no weights in safetensors.
    """
    for name in SAFETENSORS:
        if (folder / name).is_file():
            return folder / name
    raise ModelError("no model.safetensors in this folder", file=str(folder), hint=SAVE_AGAIN)


def load_model(folder: Path) -> tuple[Any, int]:
    """Load the module of a folder; return it with its maximum number of pieces, special ones included.

    Raises:
        ModelError: a file is missing or damaged, or settings and weights do not match.
    """
    hf = import_transformers("a BERT-like encoder")
    config, checkpoint = read_config(folder), weights_file(folder)
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
    """Check that all weights of a module came from its file, and that no weight of the file's encoder is unused.

    Raises:
        ModelError: a weight is missing, unused, of another shape, or not finite.
    """
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
    """Return the settings for transformers, limited by the sizes of the weights, so that nothing large is allocated.

    Raises:
        ModelError: a setting has another type, an unknown value, or is larger than every weight.
    """
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
    """Load the tokenizer of a folder with the library tokenizers, for text that is already split into words.

    Raises:
        ModelError: the tokenizer is missing or damaged, lacks a padding piece, or has a piece that the model lacks.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ModelError("no tokenizer.json in this folder", file=str(folder), hint=SAVE_AGAIN)
    tokenizer = read_tokenizer(path).tokenizer
    if config.pad_token_id is None or tokenizer.id_to_token(config.pad_token_id) is None:
        raise ModelError(f"no piece is number {config.pad_token_id}, which pads are said to be", file=str(path))
    pre_tokenizer = tokenizer.pre_tokenizer
    if hasattr(pre_tokenizer, "add_prefix_space"):
        pre_tokenizer.add_prefix_space = True  # each word is split as after a space
    last, number = max([*tokenizer.get_vocab().items(), *_read(tokenizer, str(path))], key=itemgetter(1))
    if number >= config.vocab_size:
        message = f"piece {show_value(last)} is number {number:,}, but the model has {config.vocab_size:,}"
        raise ModelError(message, file=str(path))
    return tokenizer


def _read(tokenizer: Any, file: str) -> list[tuple[str, int]]:
    """Return the pieces of one and of two segments, with their numbers, to include the special pieces of both.

    Raises:
        ModelError: the tokenizer fails.
    """
    try:
        encoded = [tokenizer.encode(["a"], second, is_pretokenized=True) for second in (None, ["a"])]
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # the library's own type, not an Exception
        raise ModelError(f"not a tokenizer ({one_line(error)})", file=file) from None
    return [
        (piece, number) for encoding in encoded for piece, number in zip(encoding.tokens, encoding.ids, strict=True)
    ]
