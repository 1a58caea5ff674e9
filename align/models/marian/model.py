"""Load a recorder from the files of a Marian model, none of which is trusted.

Names and arithmetic: `src/models/transformer.h` of Marian. The first step of its decoder reads a vector of zeros, which
is a row after the last piece here.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PureWindowsPath

import torch
from torch import Tensor

from align.core.errors import ModelError, show_value
from align.core.types import Dtype, TextWarning
from align.models.assemble import assemble, fitting, is_raw, preprocessor, text_fingerprint
from align.models.engine.builder import CELL, Architecture, Positions, Side, build_transformer
from align.models.engine.linear import Activation, make_linear
from align.models.engine.search import Output
from align.models.engine.weights import Weights
from align.models.folder import ModelFolder
from align.models.ids import tags_of
from align.models.marian.files import read_items, read_vocabulary, read_yaml
from align.models.preprocess import TextRules, sentencepiece_pieces
from align.models.recorder import ModelParts, ModelRecorder
from align.models.settings import Config

ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "swish": "silu", "gelu": "gelu_sigmoid"}
POSITIONS = 1024  # limit of pieces for models whose positions are sines, which have none
END, UNKNOWN = "</s>", "<unk>"

LISTS = (".yml", ".yaml", ".json")
"""Endings of vocabularies that list pieces with ids; others are sentencepiece models."""


def load_marian(folder: ModelFolder, device: str = "cpu", dtype: Dtype = "float32") -> ModelRecorder:
    """Load a Marian model with its vocabularies."""
    checkpoint = folder.checkpoint
    items, settings = read_items(checkpoint)
    match = re.search(r"\.([a-z]{2})([a-z]{2})\.intgemm", checkpoint.name)  # as in model.ende.intgemm.bin
    options = folder.options
    named = match.groups() if match else options.languages
    languages = options.source_lang or named[0] or "source", options.target_lang or named[1] or "target"
    paths = find_vocabularies(checkpoint.parent, checkpoint.name)
    check_settings(settings)
    with fitting(checkpoint):
        rows = [len(_table(items, side)) for side in ("encoder", "decoder")]
    source, target = map(read_side, paths, rows)
    tags, before = tags_of(source, options.languages[1], paths[0])
    rules = _rules(folder, languages[0], 0, paths[0]), _rules(folder, languages[1], 1, paths[1])
    with fitting(checkpoint):
        transformer = build_transformer(*_engine_model(settings, items), device, dtype)
    start = len(transformer.decoder.embedding.pieces) - 1
    parts = ModelParts(
        transformer,
        languages,
        sides=(preprocessor(rules[0], source, source[UNKNOWN]), preprocessor(rules[1], target, target[UNKNOWN])),
        vocabularies=((paths[0], max(source.values()) + 1), (paths[1], max(target.values()) + 1)),
        special=({source[END]: END, **{n: tag for tag, n in tags.items()}}, {target[END]: END}),
        pad=start,
        unk=source[UNKNOWN],
        before=before,
        after=(source[END],),
        start=(start,),
        zero_start=True,
        max_positions=(POSITIONS, POSITIONS),
        digest=text_fingerprint([checkpoint, *paths], rules),
        load=load_marian,
        output=partial(_output, target),
        tags=tags,
        multilingual=bool(tags),
        raw=is_raw(rules),
    )
    return assemble(parts, folder, device, dtype)


def read_side(path: Path, rows: int) -> Mapping[str, int]:
    """Read the ids of a vocabulary: a sentencepiece model, or pieces with ids, of which the table has the first."""
    if path.suffix == ".fsv":
        raise ModelError("a factored vocabulary, which is not supported", file=str(path))
    if path.suffix in LISTS:
        pieces = read_vocabulary(path)
        ids = {piece: n for piece, n in pieces.items() if n < rows}
        if len(ids) < len(pieces):
            message = f"{path}: the model has the first {rows:,} of its {len(pieces):,} pieces: others are unknown"
            warnings.warn(message, TextWarning, stacklevel=3)
    else:
        ids = {piece: n for n, piece in enumerate(sentencepiece_pieces(path))}
    if missing := next((piece for piece in (END, UNKNOWN) if piece not in ids), None):
        raise ModelError(f"it has no {missing}", file=str(path))
    return ids


def find_vocabularies(root: Path, checkpoint: str) -> tuple[Path, Path]:
    """Return the vocabularies of source and target: as a YAML file next to the model says, or by their names."""
    for path in sorted(root.glob("*.yml")):
        content = {} if "vocab" in path.name or not path.is_file() else read_yaml(path)
        if not isinstance(content, dict):
            continue
        names, models = content.get("vocabs"), content.get("models")
        if isinstance(names, list) and len(names) >= 2 and all(isinstance(name, str) for name in names):
            files = [root / PureWindowsPath(name).name for name in (names[0], names[-1])]
            of_others = isinstance(models, list) and checkpoint not in [PureWindowsPath(str(m)).name for m in models]
            if all(file.is_file() for file in files) and not of_others:
                return files[0], files[1]
    for patterns in (("srcvocab.*", "trgvocab.*"), ("vocab.src.*", "vocab.trg.*"), ("*vocab*",)):
        candidates = [sorted(path for path in root.glob(pattern) if path.is_file()) for pattern in patterns]
        if all(candidates):
            return candidates[0][0], candidates[-1][0]
    hint = "copy or link it next to the model, as Marian's config.yml or decoder.yml names it"
    raise ModelError("no vocabulary (*vocab*.spm or *vocab*.yml) next to the model", file=str(root), hint=hint)


def _rules(folder: ModelFolder, language: str, side: int, vocabulary: Path) -> TextRules:
    """Return how one side's text is prepared: raw text in pieces of sentencepiece, unless the options differ."""
    beside = folder.checkpoint.parent / ("source.spm", "target.spm")[side]
    own = beside if vocabulary.suffix in LISTS else vocabulary
    rules = folder.rules(language, side, [("sentencepiece", own)])
    if rules.subwords == "none" and folder.options.subwords is None:
        hint = 'name them with ‹subword_files›, or say ‹subwords="none"› for text that is in pieces already'
        raise ModelError("no subwords next to the model (source.spm, target.spm)", file=str(folder.root), hint=hint)
    return rules


def _version(settings: Config) -> tuple[int, ...]:
    """Return the version of Marian that trained a model, such as (1, 12, 0); zeros if it is not stored."""
    match = re.match(r"v([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})\b", settings.word("version", ""))
    return tuple(map(int, match.groups())) if match else (0, 0, 0)


def check_settings(settings: Config) -> None:
    """Refuse a model with a setting that the engine does not have."""
    read: dict[str, Sequence[object]] = {  # values that are read, next to none, 0 and false
        "type": ("transformer",),
        "transformer-decoder-autoreg": ("self-attention", "rnn"),
        "transformer-ffn-activation": [*ACTIVATIONS],
        "transformer-ffn-depth": (2,),
        "transformer-decoder-ffn-depth": (2,),
        "transformer-no-projection": (),
        "transformer-pool": (),
        "transformer-rnn-projection": (),
        "transformer-disable-position-embeddings": (),
        "lemma-dim-emb": (),
        "right-left": (),
    }
    if settings.content.get("transformer-decoder-autoreg") == "rnn":
        read["dec-cell"] = ("ssru",)
    for name, values in read.items():
        value = settings.content.get(name)
        if (value or name in ("type", "dec-cell")) and value not in values:
            message = f"a Marian model whose {name} is {show_value(value)}, which is not supported"
            raise ModelError(message, file=settings.file)
    operations = ("preprocess", "postprocess", "postprocess-top")
    before, after, top = (settings.word(f"transformer-{name}", "") for name in operations)
    if (before.replace("d", ""), after.replace("d", "")) not in (("", "an"), ("n", "a")) or "a" in top:
        shown = ", ".join(map(show_value, (before, after, top)))
        message = f"a Marian model with operations {shown} around its layers, not supported"
        raise ModelError(message, file=settings.file)
    if "n" in before and _version(settings) < (1, 10, 28):
        message = "a Marian model older than 1.11 with norms before its layers, which left out those of keys"
        raise ModelError(message, file=settings.file)


def _engine_model(settings: Config, items: dict[str, Tensor]) -> tuple[Architecture, Weights]:
    """Return the shape of a model and its weights, with a row of zeros for the first step after all pieces."""
    before = "n" in settings.word("transformer-preprocess", "")
    top = "n" in settings.word("transformer-postprocess-top", "")
    positions: Positions = "learned" if "Wpos" in items else "sinusoids"
    width, heads = settings.size("dim-emb"), settings.size("transformer-heads", 8)
    depths = settings.size("enc-depth", most=999), settings.size("dec-depth", most=999)
    encoder, decoder = (Side(depth, heads, width, before, top, positions, 0) for depth in depths)
    activation = ACTIVATIONS[settings.word("transformer-ffn-activation", "relu")]
    if activation == "gelu_sigmoid" and _version(settings) >= (1, 12, 3):
        activation = "gelu"
    # the numbers under which the weights of decoder layers are saved, which tied layers share
    tied = settings.content.get("transformer-tied-layers") or [str(n + 1) for n in range(depths[1])]
    tied = tied if isinstance(tied, list) else [tied]
    if len(tied) != depths[1]:
        raise ValueError(f"{len(tied):,} numbers of tied layers, but {depths[1]:,} layers")
    numbers = {"encoder": range(1, depths[0] + 1), "decoder": tied}
    weights = Weights(dict(_renamed(items, numbers, "_pre" if before else "")))
    return Architecture(encoder, decoder, activation, scaled="Wpos" not in items, epsilon=1e-9), weights


def _table(items: Mapping[str, Tensor], side: str) -> Tensor:
    """Return the embedding of a side `[V, D]`."""
    table = items.get(f"{side}_Wemb", items.get("Wemb"))
    if table is None or table.dim() != 2:
        raise ValueError(f"no embedding ({side}_Wemb or Wemb)")
    return table


_PARTS = {
    **{"ffn_W1": "fc1.weight", "ffn_b1": "fc1.bias", "ffn_W2": "fc2.weight", "ffn_b2": "fc2.bias"},
    **{"rnn_W": f"{CELL}.input.weight", "rnn_Wf": f"{CELL}.forget.weight", "rnn_bf": f"{CELL}.forget.bias"},
    **{
        f"{part}_{old}{letter}": f"{new}.{projection}.{ending}"
        for part, new in (("self", "self_attn"), ("context", "encoder_attn"))
        for letter, projection in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj"))
        for old, ending in (("W", "weight"), ("b", "bias"))
    },
}
_NORMS = {
    **{"self_Wo": "self_attn_layer_norm", "context_Wo": "encoder_attn_layer_norm", "ffn_ffn": "final_layer_norm"},
    **{"rnn_ffn": "self_attn_layer_norm", "rnn": "self_attn_layer_norm"},  # the latter with norms before layers
}
"""The engine's names of a layer's weights and norms by Marian's."""


_NO_LAYER = re.compile(r".*_QuantMultA|decoder_ff_logit_out_.*|special:.*|Wpos|(encoder_|decoder_)?Wemb")


def _renamed(
    items: Mapping[str, Tensor], numbers: Mapping[str, Iterable[object]], suffix: str
) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights by the names of `align.models.engine.builder`; unknown names stay, and are errors later.

    `numbers` are those of each side's layers in Marian's names, and `suffix` ends the names of their norms.
    """
    tables = [_table(items, side) for side in numbers]
    longer = [torch.cat((table, table.new_zeros(1, table.shape[1]))) for table in dict.fromkeys(tables)]
    endings = (("scale", "weight"), ("bias", "bias"))
    norms = {f"{old}_ln_{a}{suffix}": f"{new}.{b}" for old, new in _NORMS.items() for a, b in endings}
    names: list[tuple[str, str]] = []  # Marian's and the engine's
    for side, table in (("encoder", longer[0]), ("decoder", longer[-1])):
        yield f"{side}.embed_tokens.weight", table
        if "Wpos" in items:
            yield f"{side}.embed_positions.weight", items["Wpos"]
        for a, b in endings:
            names.append((f"{side}_top_ln_{a}", f"{side}.layer_norm.{b}"))
            names.append((f"{side}_emb_ln_{a}_pre", f"{side}.layernorm_embedding.{b}"))
        for n, number in enumerate(numbers[side]):
            names += [
                (f"{side}_l{number}_{old}", f"{side}.layers.{n}.{new}")
                for old, new in (*_PARTS.items(), *norms.items())
            ]
    known = {old for old, _ in names}
    names += [(name, name) for name in items if name not in known and not _NO_LAYER.fullmatch(name)]
    for old, new in names:
        if old in items:
            weight = items[old]
            flat = weight.flatten() if weight.dim() == 2 and weight.shape[0] == 1 else weight
            yield new, flat.T.contiguous() if flat.dim() == 2 else flat


def _output(target: Mapping[str, int], recorder: ModelRecorder) -> Output:
    """Return the output layer of a model, whose file is read again."""
    folder, device, dtype = recorder.origin
    rows = recorder.start[0]
    items, settings = read_items(folder.checkpoint)
    if "decoder_ff_logit_out_W" in items:
        weight = items["decoder_ff_logit_out_W"].T
    else:
        weight = items.get("decoder_ff_logit_out_Wt", _table(items, "decoder"))
    bias = items.get("decoder_ff_logit_out_b", torch.zeros(rows)).flatten()
    with fitting(folder.checkpoint):
        weights = Weights({"weight": weight, "bias": bias})
        weight, bias = weights.take("weight", rows, settings.size("dim-emb")), weights.take("bias", rows)
    linear = make_linear(weight.contiguous().to(device), bias.to(device), dtype=dtype)
    words = {n: piece for piece, n in target.items() if piece not in (END, UNKNOWN, "<s>")}
    return Output(linear, target[END], (), words)
