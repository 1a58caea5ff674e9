"""Load a recorder from the folder of a CTranslate2 model, none of whose files is trusted.

Names of variables: `specs/transformer_spec.py` of CTranslate2.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from align.core.errors import ModelError, shorten
from align.core.types import Dtype
from align.models.assemble import assemble, fitting, is_raw, preprocessor, text_fingerprint
from align.models.ctranslate2.files import read_variables, read_vocabulary, take_settings
from align.models.engine.builder import Architecture, Side, build_transformer
from align.models.engine.linear import Activation, make_linear
from align.models.engine.search import Output
from align.models.engine.weights import Weights
from align.models.folder import ModelFolder
from align.models.ids import tags_of
from align.models.languages import check_language, find_language
from align.models.preprocess import TextRules
from align.models.recorder import ModelParts, ModelRecorder
from align.models.settings import Config, read_config, read_json

ACTIVATIONS: dict[float, Activation] = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu", 4: "gelu_sigmoid", 5: "tanh"}

_LANGUAGE = re.compile(r"__([a-z]{2,3})__|([a-z]{3}_[A-Z][a-z]{3})|([a-z]{2}_[A-Z]{2})")
"""Pieces that stand for languages, in M2M100, in NLLB and in mBART."""

_IGNORED = frozenset((
    *("activation", "alignment_heads", "alignment_layer", "embeddings_merge", "num_heads", "pre_norm"),
    "layernorm_embedding",  # a switch, next to the weights of this norm
    *("multi_query", "multi_query_attention"),  # which version 4.3 says of all decoders: the shape of the weights tells
    *("scale_embeddings", "start_from_zero_embedding", "alibi_use_positive_positions", "scale_alibi"),
))  # fmt: skip
_OFF = frozenset(("alibi", "with_relative_position"))  # settings that must be off
_EPSILON = 1e-5  # of layer norms, where config.json has none


def load_ctranslate2(folder: ModelFolder, device: str = "cpu", dtype: Dtype = "float32") -> ModelRecorder:
    """Load a model of CTranslate2 with its vocabularies; CTranslate2 is not needed."""
    kind, tensors = read_variables(folder.checkpoint)
    if kind != "TransformerSpec":
        message = f"a CTranslate2 model of kind {shorten(kind)}, not a Transformer that translates"
        raise ModelError(message, file=str(folder.checkpoint))
    with fitting(folder.checkpoint, prefix=""):
        older = take_settings(tensors)
    path = folder.checkpoint.parent / "config.json"
    newer = read_json(path) if path.exists() else {}  # early versions have none
    settings = Config(older | newer, str(path))
    paths = _vocabularies(folder.checkpoint.parent)
    source, target = map(read_vocabulary, paths)
    languages, codes = _languages(folder, source)
    output, bias = (tensors.pop(f"decoder/projection/{name}", None) for name in ("weight", "bias"))
    if output is tensors.get("decoder/embeddings/weight"):
        output = None  # tied
    from_zero = bool(_number(tensors, "decoder/start_from_zero_embedding", 0))
    with fitting(folder.checkpoint):
        transformer = build_transformer(*_engine_model(tensors, settings, from_zero), device, dtype)
    rules = _rules(folder, languages[0], 0, source), _rules(folder, languages[1], 1, target)
    table = transformer.decoder.embedding.pieces
    rows = len(table) - from_zero
    unknown, end = settings.word("unk_token", "<unk>"), settings.word("eos_token", "</s>")
    unknown_ids = _id(source, unknown, settings), _id(target, unknown, settings)
    tags, tag = tags_of(source, None if languages[1] == "target" else languages[1], paths[0])
    before, after, start = _surroundings(settings, source, target, codes, rows if from_zero else None)
    epsilon = settings.number("layer_norm_epsilon", _EPSILON)
    further = (before, after, start) if epsilon == _EPSILON else (before, after, start, epsilon)
    marks = ("<s>", "</s>", "<unk>", "<blank>", "<pad>", "<mask>")
    special = [
        {n: piece for piece, n in ids.items() if piece in marks or piece in tags or _LANGUAGE.fullmatch(piece)}
        for ids in (source, target)
    ]

    def read_output(recorder: ModelRecorder) -> Output:
        """Return the output layer, which only translating needs."""
        named = {"weight": table[:rows] if output is None else output, "bias": bias}
        weights = Weights({name: weight for name, weight in named.items() if weight is not None})
        with fitting(folder.checkpoint):
            weight = weights.take("weight", rows, table.shape[1]).to(table.device)
            added = weights.optional("bias", rows)
        layer = make_linear(weight, None if added is None else added.to(table.device), dtype=dtype)
        never = [n for piece, n in target.items() if piece in ("<blank>", "<pad>")]
        words = {n: piece for piece, n in target.items() if n not in special[1]}
        return Output(layer, _id(target, end, settings), never, words)

    parts = ModelParts(
        transformer,
        languages,
        sides=(preprocessor(rules[0], source, unknown_ids[0]), preprocessor(rules[1], target, unknown_ids[1])),
        vocabularies=((paths[0], max(source.values()) + 1), (paths[1], max(target.values()) + 1)),
        special=(special[0], special[1]),
        pad=start[0],
        unk=unknown_ids[0],
        before=[*tag, *before],
        after=after,
        start=start,
        zero_start=from_zero,
        max_positions=(sys.maxsize, sys.maxsize),  # as many as the tables have
        digest=text_fingerprint([folder.checkpoint, *dict.fromkeys(paths)], rules, *further),
        load=load_ctranslate2,
        output=read_output,
        raw=is_raw(rules),
        tags=tags,
        multilingual=codes is not None or bool(tags),
    )
    return assemble(parts, folder, device, dtype)


def _id(ids: Mapping[str, int], piece: str, settings: Config) -> int:
    if piece not in ids:
        raise ModelError(f"its vocabulary has no {shorten(piece) or 'empty piece'}", file=settings.file)
    return ids[piece]


def _surroundings(
    settings: Config,
    source: Mapping[str, int],
    target: Mapping[str, int],
    codes: tuple[str, str] | None,
    zero: int | None,
) -> tuple[list[int], list[int], list[int]]:
    """Return the ids before and after a source, and those that the decoder reads first.

    `codes` are the pieces of the languages, if there are several; `zero` is the row that a decoder from zeros reads.
    """
    end = settings.word("eos_token", "</s>")
    is_given = settings.content.get("decoder_start_token", "") is not None
    first = settings.word("decoder_start_token", "<s>") if is_given else None
    if codes is None and first is None and zero is None:
        hint = "convert the model again with the languages in its settings"
        raise ModelError("no decoder_start_token is given", file=settings.file, hint=hint)
    start = [_id(target, first or end, settings) if zero is None else zero]
    begins = settings.switch("add_source_bos", False)
    before = [_id(source, settings.word("bos_token", "<s>"), settings)] if begins else []
    # converters of OpenNMT say whether sources end; those of transformers leave it to the tokenizer
    ends = settings.switch("add_source_eos", False) or zero is not None or codes is not None or first != "<s>"
    after = [_id(source, end, settings)] if ends else []
    if codes is None:
        return before, after, start
    languages = _id(source, codes[0], settings), _id(target, codes[1], settings)
    if first is None and codes[0][2:3] == "_":  # the first mBART
        return before, [*after, languages[0]], [languages[1]]
    return [*before, languages[0]], after, [*start, languages[1]]


def _vocabularies(root: Path) -> tuple[Path, Path]:
    for source, target in (("shared_vocabulary",) * 2, ("source_vocabulary", "target_vocabulary")):
        for ending in (".json", ".txt"):
            if (root / f"{source}{ending}").exists() and (root / f"{target}{ending}").exists():
                return root / f"{source}{ending}", root / f"{target}{ending}"
    raise ModelError("no vocabulary (shared_vocabulary.json, or source_ and target_) next to the model", file=str(root))


def _languages(folder: ModelFolder, ids: Mapping[str, int]) -> tuple[tuple[str, str], tuple[str, str] | None]:
    """Return source and target language, and the pieces of a multilingual model that stand for them."""
    root, chosen = folder.checkpoint.parent, folder.options.languages
    codes = {match[1] or match[2] or match[3]: piece for piece in ids if (match := _LANGUAGE.fullmatch(piece))}
    package = next((path for path in (root, root.parent) if (path / "metadata.json").is_file()), None)
    if package and chosen == (None, None):
        metadata = read_config(package / "metadata.json")
        chosen = metadata.word("from_code", "") or None, metadata.word("to_code", "") or None
        with fitting(package / "metadata.json", prefix=""):
            for language in filter(None, chosen):
                check_language(language)
    if len(codes) < 10 and sum(piece[2:3] != "_" for piece in codes.values()) < 2:
        return (chosen[0] or "source", chosen[1] or "target"), None
    pieces: list[str] = []
    for name, code in zip(("source_lang", "target_lang"), chosen, strict=True):
        known = find_language(code, codes) if code else None
        if known is None:
            message = f"a model of {len(codes)} languages, and {code or 'none'} is given"
            raise ModelError(message, file=str(folder.checkpoint), hint=f"give ‹{name}›, such as {shorten(min(codes))}")
        pieces.append(codes[known])
    return (str(chosen[0]), str(chosen[1])), (pieces[0], pieces[1])


def _rules(folder: ModelFolder, language: str, side: int, ids: Mapping[str, int]) -> TextRules:
    """Return how one side's text is prepared, by the files next to the model or in the folder above."""
    root = folder.checkpoint.parent
    names = ("source.spm", "target.spm")[side], "sentencepiece.bpe.model", "sentencepiece.model"
    own = [("sentencepiece", place / name) for place in (root, root.parent) for name in names]
    rules = folder.rules(language, side, [*own, ("subword-nmt", root.parent / "bpe.model")])
    if sum(piece.startswith("\u0120") for piece in ids) * 10 > len(ids):  # a letter of Maltese, too
        raise ModelError("its pieces are of bytes, as BART's, which is not supported", file=str(root))
    is_cut = rules.subwords != "none" or folder.options.subwords is not None
    if not is_cut and any(piece.startswith("\u2581") for piece in ids):
        hint = "name its sentencepiece models with ‹subword_files›, or copy them next to the model"
        message = "no subwords next to the model (source.spm, sentencepiece.model, …)"
        raise ModelError(message, file=str(root), hint=hint)
    return rules


def _number(tensors: Mapping[str, Tensor], name: str, default: float) -> float:
    value = tensors.get(name)
    return default if value is None or value.numel() != 1 else float(value.flatten()[0])


def _engine_model(tensors: dict[str, Tensor], settings: Config, from_zero: bool) -> tuple[Architecture, Weights]:
    """Return the shape of a model and its weights, with a row of zeros after all pieces for `from_zero`."""
    first = "embeddings_0" if "encoder/embeddings_0/weight" in tensors else "embeddings"
    sides, tables, scaled = [], [], set()
    for side, name in (("encoder", f"encoder/{first}/weight"), ("decoder", "decoder/embeddings/weight")):
        if name not in tensors or tensors[name].dim() != 2:
            raise ValueError(f"it has no table {name}")
        if f"{side}/position_encodings/encodings" not in tensors:
            raise ValueError("it has no table of positions, as models of OpenNMT-tf and with relative positions")
        heads, width = _number(tensors, f"{side}/num_heads", 8), tensors[name].shape[1]
        if not 1 <= heads <= width:
            raise ValueError(f"its {side} has {heads:g} heads")
        layers = len({match[2] for name in tensors if (match := _LAYER.fullmatch(name)) and match[1] == side})
        before = bool(_number(tensors, f"{side}/pre_norm", 1))
        last_norm = f"{side}/layer_norm/gamma" in tensors
        sides.append(Side(layers, int(heads), width, before, last_norm, "learned", 0))
        tables.append(tensors[name])
        scaled.add(_is_scaled(tensors, side, width))
    activation = ACTIVATIONS.get(_number(tensors, "decoder/activation", 0))
    if activation is None or len(scaled) != 1:
        raise ValueError("it has an activation, or scales of embeddings, that are not supported")
    for name in [*tensors]:
        last_part = name.split("/")[-1]
        if last_part in _OFF and _number(tensors, name, 0):
            raise ValueError(f"it has {name}, which is not supported")
        if last_part in _OFF or last_part in _IGNORED:
            del tensors[name]
    if from_zero:
        longer = {id(table): torch.cat((table, table.new_zeros(1, table.shape[1]))) for table in tables}
        tables = [longer[id(table)] for table in tables]  # tied ones stay one tensor
    weights = dict(_renamed(tensors))
    weights |= {"encoder.embed_tokens.weight": tables[0], "decoder.embed_tokens.weight": tables[1]}
    epsilon = settings.number("layer_norm_epsilon", _EPSILON)
    return Architecture(sides[0], sides[1], activation, scaled.pop(), epsilon), Weights(weights)


def _is_scaled(tensors: Mapping[str, Tensor], side: str, width: int) -> bool:
    """Tell whether embeddings are multiplied by the root of their width: a factor, or a switch."""
    name = f"{side}/scale_embeddings"
    value, stored = _number(tensors, name, 1), tensors.get(name)
    if stored is not None and stored.dtype == torch.int8:
        return bool(value)
    if stored is None or math.isclose(value, math.sqrt(width), rel_tol=1e-3):
        return True
    if value != 1.0:
        raise ValueError(f"embeddings are multiplied by {value:g}, which is not supported")
    return False


_BLOCKS = {
    "self_attention/layer_norm": "self_attn_layer_norm",
    "attention/layer_norm": "encoder_attn_layer_norm",
    "ffn/layer_norm": "final_layer_norm",
    "self_attention/linear_1": "self_attn.out_proj",
    "attention/linear_0": "encoder_attn.q_proj",
    "attention/linear_2": "encoder_attn.out_proj",
    "ffn/linear_0": "fc1",
    "ffn/linear_1": "fc2",
}
_JOINT = {"self_attention/linear_0": ("self_attn", "qkv"), "attention/linear_1": ("encoder_attn", "kv")}
_KINDS = {"gamma": "weight", "beta": "bias", "weight": "weight", "bias": "bias"}
_LAYER = re.compile(r"(encoder|decoder)/layer_([0-9]{1,3})/(.+)/(gamma|beta|weight|bias)")


def _renamed(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield all weights but those of embeddings by the names of `align.models.engine.builder`."""
    for name, tensor in tensors.items():
        match = _LAYER.fullmatch(name)
        if match and match[3] in _BLOCKS:
            yield f"{match[1]}.layers.{int(match[2])}.{_BLOCKS[match[3]]}.{_KINDS[match[4]]}", tensor
        elif match and match[3] in _JOINT:
            part, letters = _JOINT[match[3]]
            chunks = tensor.tensor_split(len(letters)) if tensor.dim() else [tensor] * len(letters)
            for letter, chunk in zip(letters, chunks, strict=True):
                yield f"{match[1]}.layers.{int(match[2])}.{part}.{letter}_proj.{_KINDS[match[4]]}", chunk
        elif (parts := name.split("/"))[1:] == ["position_encodings", "encodings"]:
            yield f"{parts[0]}.embed_positions.weight", tensor
        elif len(parts) == 3 and parts[1] in ("layer_norm", "layernorm_embedding"):
            yield f"{parts[0]}.{parts[1]}.{_KINDS.get(parts[2], parts[2])}", tensor
        elif len(parts) < 3 or not parts[1].startswith("embeddings"):
            yield name, tensor
