"""Load a recorder from the folder of a CTranslate2 model, none of whose files is trusted.

Names of variables: `specs/transformer_spec.py` of CTranslate2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from align.core.errors import ModelError, shorten
from align.core.types import Dtype
from align.models.ctranslate2.files import Variables, read_settings, read_variables, read_vocabulary, take_settings
from align.models.detokenize import Detokenizer
from align.models.engine.builder import Architecture, Side, build_transformer
from align.models.engine.forward import Transformer
from align.models.engine.linear import Activation, Linear, make_linear
from align.models.engine.search import EngineTranslator
from align.models.engine.weights import Weights
from align.models.folder import ModelFolder
from align.models.huggingface.config import Config, read_json
from align.models.languages import check_language, find_language
from align.models.preprocess import Preprocessor, TextRules
from align.models.recorder import Framework, ModelRecorder, fingerprint, remember

FILES = ("model.bin", "model/model.bin")
"""Where models are; the latter in packages of Argos Translate."""

ACTIVATIONS: dict[int, Activation] = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu", 4: "gelu_sigmoid", 5: "tanh"}

_LANGUAGE = re.compile(r"__([a-z]{2,3})__|([a-z]{3}_[A-Z][a-z]{3})|([a-z]{2}_[A-Z]{2})")
"""Pieces that stand for languages, in M2M100, in NLLB and in mBART."""

_SUBWORDS = ("source.spm", "target.spm"), ("sentencepiece.bpe.model",) * 2, ("sentencepiece.model",) * 2
"""Names of sentencepiece models of source and target, next to the model or in the folder above."""

_IGNORED = frozenset((
    *("activation", "alignment_heads", "alignment_layer", "embeddings_merge", "num_heads", "pre_norm"),
    "layernorm_embedding",  # a switch, next to the weights of this norm
    *("multi_query", "multi_query_attention"),  # which version 4.3 says of all decoders: the shape of the weights tells
    *("scale_embeddings", "start_from_zero_embedding", "alibi_use_positive_positions", "scale_alibi"),
))  # fmt: skip
_OFF = frozenset(("alibi", "with_relative_position"))
"""Settings that must be off."""


def load_ctranslate2(folder: ModelFolder, device: str = "cpu", dtype: Dtype = "float32") -> ModelRecorder:
    """Load a model of CTranslate2 with its vocabularies; CTranslate2 is not needed.

    Raises:
        ValueError: a file is missing or damaged, or the model is of another kind; the message names it and the reason.
    """
    if folder.options.source_prefix:
        hint = "leave out ‹source_prefix›"
        raise ModelError("only Hugging Face models read a prefix", file=str(folder.checkpoint), hint=hint)
    root = folder.checkpoint.parent
    variables = read_variables(folder.checkpoint)
    if variables.kind != "TransformerSpec":
        message = f"a CTranslate2 model of kind {shorten(variables.kind)}, not a Transformer that translates"
        raise ModelError(message, file=str(folder.checkpoint))
    try:
        older = take_settings(variables.tensors)
    except ValueError as error:
        raise ModelError(str(error), file=str(folder.checkpoint)) from None
    settings = Config(older | read_settings(root), str(root / "config.json"))
    paths = _vocabularies(root)
    source, target = (_ids(path, settings) for path in paths)
    languages, codes = _languages(folder, source)
    tensors = variables.tensors
    output = tensors.pop("decoder/projection/weight", None), tensors.pop("decoder/projection/bias", None)
    if output[0] is tensors.get("decoder/embeddings/weight"):
        output = None, output[1]
    from_zero = bool(_number(variables.tensors, "decoder/start_from_zero_embedding", 0))
    transformer, rows = _build(variables, settings, from_zero, folder.checkpoint, device, dtype)
    for path, ids, count in zip(paths, (source, target), rows, strict=True):
        if len(ids) > count:
            message = f"{len(ids):,} pieces, but {folder.checkpoint} was trained with {count:,}"
            raise ModelError(message, file=str(path))
    rules = [
        _rules(folder, language, side, ids)
        for side, (language, ids) in enumerate(zip(languages, (source, target), strict=True))
    ]
    ends = _Ends.of(settings, target, codes, from_zero, rows[1])
    special = [{n: piece for piece, n in ids.items() if _is_special(piece)} for ids in (source, target)]
    unknown = settings.word("unk_token", "<unk>")
    begin = settings.word("bos_token", "<s>") if settings.switch("add_source_bos", False) else unknown
    for piece in (unknown, ends.piece, begin):
        if piece not in source or (piece not in target and piece != begin):
            raise ModelError(f"its vocabulary has no {shorten(piece) or 'empty piece'}", file=str(paths[0]))
    language = [source[codes[0]]] if codes else []
    before = [*([source[begin]] if settings.switch("add_source_bos", False) else []), *language]
    after = [source[ends.piece]] if ends.of_source else []
    if ends.language_last:
        before, after = before[: len(before) - len(language)], [*after, *language]
    subword_files = [rule.subword_file for rule in rules if rule.subword_file]
    spec = before, after, ends.start, [(rule.language, rule.case, rule.tokenizer, rule.subwords) for rule in rules]
    digest = fingerprint([folder.checkpoint, *dict.fromkeys(paths), *subword_files], repr(spec))
    words = {n: piece for piece, n in target.items() if n not in special[1]}
    never = [n for piece, n in target.items() if piece in ("<blank>", "<pad>")]
    translator = partial(
        EngineTranslator,
        partial(_output_layer, folder.checkpoint, output, transformer, rows[1], dtype),
        target[ends.piece],
        never,
        words,
        Detokenizer(rules[1]),
    )
    positions = [
        len(table(0)) for stack in (transformer.encoder, transformer.decoder) if (table := stack.embedding.positions)
    ]
    sides = [
        Preprocessor(rule, partial(_index, ids, ids[unknown]), ids)
        for rule, ids in zip(rules, (source, target), strict=True)
    ]
    recorder = ModelRecorder(
        transformer,
        (sides[0], sides[1]),
        (before, after),
        ends.start,
        framework=Framework(load_ctranslate2, _own_model, translator),
        origin=(folder.absolute(), device, dtype),
        name=f"ctranslate2:{'-'.join(languages)}@{digest}",
        languages=languages,
        text=", ".join(map(str, rules)),
        pad=ends.start[0],
        unk=source[unknown],
        special=(special[0], special[1]),
        max_positions=(positions[0], positions[1] - len(ends.start) + 1),
        multilingual=codes is not None,
        raw=all((rule.tokenizer, rule.subwords) == ("none", "sentencepiece") for rule in rules),
    )
    remember(recorder, folder, device, dtype)
    return recorder


def _own_model(recorder: ModelRecorder) -> Any:
    raise ModelError("models of CTranslate2 have no module that can be trained here", file=recorder.name)


def _index(ids: Mapping[str, int], unknown: int, piece: str) -> int:
    return ids.get(piece, unknown)


def _is_special(piece: str) -> bool:
    return piece in ("<s>", "</s>", "<unk>", "<blank>", "<pad>", "<mask>") or bool(_LANGUAGE.fullmatch(piece))


class _Ends(NamedTuple):
    """The special pieces around sentences.

    Attributes:
        piece: `</s>`, by its name.
        of_source: whether sources end in it.
        language_last: whether the source's language comes after it, as in the first mBART, and not before the text.
        start: ids that the decoder reads first.
    """

    piece: str
    of_source: bool
    language_last: bool
    start: list[int]

    @classmethod
    def of(
        cls, settings: Config, target: Mapping[str, int], codes: tuple[str, str] | None, from_zero: bool, rows: int
    ) -> _Ends:
        """Return them as the model's settings say.

        Raises:
            ModelError: the decoder's first piece is not given.
        """
        end = settings.word("eos_token", "</s>")
        is_given = settings.content.get("decoder_start_token", "") is not None
        first = settings.word("decoder_start_token", "<s>") if is_given else None
        if codes is None and first is None and not from_zero:
            hint = "convert the model again with the languages in its settings"
            raise ModelError("no decoder_start_token is given", file=settings.file, hint=hint)
        language_last = codes is not None and first is None and codes[0][2:3] == "_"
        start = [rows] if from_zero else [target[piece] for piece in (first or end,) if piece in target]
        missing = (first or end) if not start else codes[1] if codes and codes[1] not in target else None
        if missing is not None:
            raise ModelError(f"its vocabulary has no {shorten(missing)}", file=settings.file)
        # converters of OpenNMT say whether sources end; those of transformers leave it to the tokenizer
        ends = settings.switch("add_source_eos", False) or from_zero or codes is not None or first != "<s>"
        start = [*([] if language_last else start), *([target[codes[1]]] if codes else [])]
        return cls(end, ends, language_last, start)


def _vocabularies(root: Path) -> tuple[Path, Path]:
    for source, target in (("shared_vocabulary",) * 2, ("source_vocabulary", "target_vocabulary")):
        for ending in (".json", ".txt"):
            if (root / f"{source}{ending}").exists() and (root / f"{target}{ending}").exists():
                return root / f"{source}{ending}", root / f"{target}{ending}"
    raise ModelError("no vocabulary (shared_vocabulary.json, or source_ and target_) next to the model", file=str(root))


def _ids(path: Path, settings: Config) -> dict[str, int]:
    ids = {piece: n for n, piece in reversed([*enumerate(read_vocabulary(path))])}
    if not ids:
        raise ModelError("it has no pieces", file=str(path))
    return ids


def _languages(folder: ModelFolder, ids: Mapping[str, int]) -> tuple[tuple[str, str], tuple[str, str] | None]:
    """Return source and target language, and the pieces of a multilingual model that stand for them.

    Raises:
        ModelError: a multilingual model without languages, or a language that it does not have.
    """
    options, root = folder.options, folder.checkpoint.parent
    codes = {match[1] or match[2] or match[3]: piece for piece in ids if (match := _LANGUAGE.fullmatch(piece))}
    chosen: list[str | None] = [options.source_lang, options.target_lang]
    if options.reverse_of is not None:
        chosen = [code or other for code, other in zip(chosen, reversed(options.reverse_of), strict=True)]
    package = next((path for path in (root, root.parent) if (path / "metadata.json").is_file()), None)
    if package and chosen == [None, None]:
        metadata = Config(read_json(package / "metadata.json"), str(package / "metadata.json"))
        chosen = [metadata.word(name, "") or None for name in ("from_code", "to_code")]
        try:
            for language in filter(None, chosen):
                check_language(language)
        except ValueError as error:
            raise ModelError(str(error), file=metadata.file) from None
    if len(codes) < 10:
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
    options, root = folder.options, folder.checkpoint.parent
    chosen = [Path(name) for name in options.subword_files or ()]
    file = (chosen[0], chosen[-1])[side] if chosen else None
    if file is None and options.subwords in (None, "sentencepiece"):
        places = (place / names[side] for place in (root, root.parent) for names in _SUBWORDS)
        file = next((path for path in places if path.is_file()), None)
    if file is None and options.subwords in (None, "subword-nmt") and (root.parent / "bpe.model").is_file():
        file = root.parent / "bpe.model"
        return TextRules(language, options.case or "keep", options.tokenizer or "none", "subword-nmt", file)
    rules = folder.rules(language, file)
    if sum(piece.startswith("\u0120") for piece in ids) * 10 > len(ids):  # a letter of Maltese, too
        raise ModelError("its pieces are of bytes, as BART's, which is not read", file=str(root))
    if rules.subwords == "none" and options.subwords is None and any(piece.startswith("\u2581") for piece in ids):
        hint = "name its sentencepiece models with ‹subword_files›, or copy them next to the model"
        raise ModelError(
            "no subwords next to the model (source.spm, sentencepiece.model, …)", file=str(root), hint=hint
        )
    return rules


def _number(tensors: dict[str, Tensor], name: str, default: float) -> float:
    value = tensors.get(name)
    return default if value is None or value.numel() != 1 else float(value.flatten()[0])


def _build(
    variables: Variables, settings: Config, from_zero: bool, checkpoint: Path, device: str, dtype: Dtype
) -> tuple[Transformer, tuple[int, int]]:
    """Return the Transformer of a model, and the rows of its embeddings, without one for the first step."""
    tensors = variables.tensors
    try:
        first = "embeddings_0" if "encoder/embeddings_0/weight" in tensors else "embeddings"
        names = {"encoder": f"encoder/{first}/weight", "decoder": "decoder/embeddings/weight"}
        table = {side: tensors[name] for side, name in names.items()}
        rows = len(table["encoder"]), len(table["decoder"])
        sides, scaled = {}, set()
        for side, embedding in table.items():
            width, heads = embedding.shape[1], int(_number(tensors, f"{side}/num_heads", 8))
            layers = len({match[2] for name in tensors if (match := _LAYER.fullmatch(name)) and match[1] == side})
            before = bool(_number(tensors, f"{side}/pre_norm", 1))
            scaled.add(_is_scaled(_number(tensors, f"{side}/scale_embeddings", 1), tensors, side, width))
            last = f"{side}/layer_norm/gamma" in tensors
            if heads < 1 or f"{side}/position_encodings/encodings" not in tensors:
                raise ValueError("it has no table of positions, as models of OpenNMT-tf and with relative positions")
            sides[side] = Side(layers, heads, width, before, last, "learned", 0)
        activation = ACTIVATIONS.get(int(_number(tensors, "decoder/activation", 0)))
        if activation is None or len(scaled) != 1:
            raise ValueError("it has an activation, or scales of embeddings, that are not read")
        for name in [*tensors]:
            last_part = name.split("/")[-1]
            if last_part in _OFF and _number(tensors, name, 0):
                raise ValueError(f"it has {name}, which is not read")
            if last_part in _OFF or last_part in _IGNORED:
                del tensors[name]
        epsilon = settings.content.get("layer_norm_epsilon")
        architecture = Architecture(
            sides["encoder"],
            sides["decoder"],
            activation,
            scaled.pop(),
            float(epsilon) if isinstance(epsilon, float) else 1e-5,
        )
        weights = Weights(dict(_renamed(tensors, table, from_zero, sides)))
        return build_transformer(architecture, weights, device, dtype), rows
    except KeyError as error:
        raise ModelError(f"it has no {error.args[0]}", file=str(checkpoint)) from None
    except ModelError:
        raise
    except (ValueError, IndexError, TypeError, OverflowError, RuntimeError) as error:  # of weights of odd shapes
        raise ModelError(f"weights and settings do not fit: {error}", file=str(checkpoint)) from None


def _is_scaled(value: float, tensors: Mapping[str, Tensor], side: str, width: int) -> bool:
    """Tell whether embeddings are multiplied by the root of their width: a factor, or a switch."""
    stored = tensors.get(f"{side}/scale_embeddings")
    if stored is not None and stored.dtype == torch.int8:
        return bool(value)
    if stored is None or math.isclose(value, math.sqrt(width), rel_tol=1e-3):
        return True
    if value != 1.0:
        raise ValueError(f"embeddings are multiplied by {value:g}, which is not read")
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


def _renamed(
    tensors: Mapping[str, Tensor], table: Mapping[str, Tensor], from_zero: bool, sides: Mapping[str, Side]
) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights by the names of `align.models.engine.builder`."""
    longer = {id(each): each for each in table.values()}
    if from_zero:
        longer = {key: torch.cat((each, each.new_zeros(1, each.shape[1]))) for key, each in longer.items()}
    for side, each in table.items():
        yield f"{side}.embed_tokens.weight", longer[id(each)]
    for name, tensor in tensors.items():
        match = _LAYER.fullmatch(name)
        if match and match[3] in _BLOCKS:
            yield f"{match[1]}.layers.{int(match[2])}.{_BLOCKS[match[3]]}.{_KINDS[match[4]]}", tensor
        elif match and match[3] in _JOINT:
            part, letters = _JOINT[match[3]]
            if len(tensor) != len(letters) * sides[match[1]].width:
                raise ValueError(f"{name} has not as many keys as queries, which is not read")
            for letter, chunk in zip(letters, tensor.chunk(len(letters)), strict=True):
                yield f"{match[1]}.layers.{int(match[2])}.{part}.{letter}_proj.{_KINDS[match[4]]}", chunk
        elif (parts := name.split("/"))[1:] in (["position_encodings", "encodings"],):
            yield f"{parts[0]}.embed_positions.weight", tensor
        elif len(parts) == 3 and parts[1] in ("layer_norm", "layernorm_embedding"):
            yield f"{parts[0]}.{parts[1]}.{_KINDS.get(parts[2], parts[2])}", tensor
        elif len(parts) < 3 or not parts[1].startswith("embeddings"):
            yield name, tensor


def _output_layer(
    checkpoint: Path, output: tuple[Tensor | None, Tensor | None], transformer: Transformer, rows: int, dtype: Dtype
) -> Linear:
    """Return the output layer of a model, which only translating needs."""
    weight, bias = output
    if weight is None:
        weight = transformer.decoder.embedding.pieces[:rows]
    try:
        weights = Weights({"weight": weight, **({} if bias is None else {"bias": bias})})
        weight, bias = (
            weights.take("weight", rows, transformer.decoder.embedding.pieces.shape[1]),
            weights.optional("bias", rows),
        )
    except ValueError as error:
        raise ModelError(f"its output layer does not fit: {error}", file=str(checkpoint)) from None
    device = transformer.device
    return make_linear(weight.to(device), None if bias is None else bias.to(device), dtype=dtype)
