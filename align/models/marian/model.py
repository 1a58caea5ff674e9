"""Load a recorder from the files of a Marian model, none of which is trusted.

Names and arithmetic: `src/models/transformer.h` of Marian. The first step of its decoder reads a vector of zeros, which
is a row after the last piece here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from align.core.errors import ModelError, shorten, show_value
from align.core.types import Dtype
from align.models.assemble import assemble, fitting, is_raw, preprocessor, text_fingerprint
from align.models.engine.builder import CELL, Architecture, Positions, Side, build_transformer
from align.models.engine.linear import Activation, make_linear
from align.models.engine.search import Output
from align.models.engine.weights import Weights
from align.models.folder import ModelFolder
from align.models.marian.files import MarianSettings, read_items, read_vocabulary, read_yaml
from align.models.preprocess import TextRules, sentencepiece_pieces
from align.models.recorder import ModelParts, ModelRecorder

ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "swish": "silu", "gelu": "gelu_sigmoid"}

POSITIONS = 1024
"""Limit of pieces for models whose positions are sines, which have none."""

END, UNKNOWN = "</s>", "<unk>"

LISTS = (".yml", ".yaml", ".json")
"""Endings of vocabularies that list pieces with ids; others are sentencepiece models."""


def load_marian(folder: ModelFolder, device: str = "cpu", dtype: Dtype = "float32") -> ModelRecorder:
    """Load a Marian model with its vocabularies."""
    checkpoint = folder.checkpoint
    items, content = read_items(checkpoint)
    settings = MarianSettings(content, str(checkpoint))
    match = re.search(r"\.([a-z]{2})([a-z]{2})\.intgemm", checkpoint.name)  # as in model.ende.intgemm.bin
    options = folder.options
    named = match.groups() if match else options.languages
    languages = options.source_lang or named[0] or "source", options.target_lang or named[1] or "target"
    paths = find_vocabularies(checkpoint.parent, checkpoint.name)
    source, target = map(read_side, paths)
    rules = _rules(folder, languages[0], 0, paths[0]), _rules(folder, languages[1], 1, paths[1])
    check_settings(settings)
    with fitting(checkpoint):
        architecture, weights = _engine_model(settings, items)
        transformer = build_transformer(architecture, weights, device, dtype)
    start = len(transformer.decoder.embedding.pieces) - 1
    tables = [stack.embedding.positions for stack in (transformer.encoder, transformer.decoder)]
    limits = [POSITIONS if table is None else min(POSITIONS, len(table(POSITIONS))) for table in tables]
    parts = ModelParts(
        transformer,
        languages,
        sides=(preprocessor(rules[0], source, source[UNKNOWN]), preprocessor(rules[1], target, target[UNKNOWN])),
        vocabularies=((paths[0], max(source.values()) + 1), (paths[1], max(target.values()) + 1)),
        special=({source[END]: END}, {target[END]: END}),
        pad=start,
        unk=source[UNKNOWN],
        after=(source[END],),
        start=(start,),
        zero_start=True,
        max_positions=(limits[0], limits[1]),
        digest=text_fingerprint([checkpoint, *paths], rules),
        load=load_marian,
        output=partial(_output, target),
        tags={piece: n for piece, n in source.items() if re.fullmatch(r">>[\w-]+<<", piece)},
        raw=is_raw(rules),
    )
    return assemble(parts, folder, device, dtype)


def read_side(path: Path) -> Mapping[str, int]:
    """Read the ids of a vocabulary: a sentencepiece model, or pieces with ids."""
    if path.suffix == ".fsv":
        raise ModelError("a factored vocabulary, which is not read", file=str(path))
    if path.suffix in LISTS:
        ids = read_vocabulary(path)
    else:
        ids = {piece: n for n, piece in enumerate(sentencepiece_pieces(path))}
    if missing := next((piece for piece in (END, UNKNOWN) if piece not in ids), None):
        raise ModelError(f"it has no {missing}", file=str(path))
    return ids


def find_vocabularies(root: Path, checkpoint: str) -> tuple[Path, Path]:
    """Return the vocabularies of source and target: as a YAML file next to the model says, or by their names."""
    for path in sorted(root.glob("*.yml")):
        if "vocab" in path.name or not path.is_file():
            continue
        content = read_yaml(path)
        names = content.get("vocabs") if isinstance(content, dict) else None
        models = content.get("models") if isinstance(content, dict) else None
        if isinstance(names, list) and len(names) >= 2 and all(isinstance(name, str) for name in names):
            files = [root / Path(name).name for name in (names[0], names[-1])]
            of_others = isinstance(models, list) and checkpoint not in [Path(str(m)).name for m in models]
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
    options, file = folder.options, folder.subword_file(side)
    if vocabulary.suffix not in LISTS and file is None:
        case, tokenizer = options.case or "keep", options.tokenizer or "none"
        return TextRules(language, case, tokenizer, "sentencepiece", vocabulary)
    adjacent = folder.checkpoint.parent / ("source.spm", "target.spm")[side]
    if file is None and options.subwords in (None, "sentencepiece") and adjacent.is_file():
        file = adjacent
    rules = folder.rules(language, file)
    if rules.subwords == "none" and options.subwords is None:
        hint = 'name them with ‹subword_files›, or say ‹subwords="none"› for text that is in pieces already'
        raise ModelError("no subwords next to the model (source.spm, target.spm)", file=str(folder.root), hint=hint)
    return rules


def check_settings(settings: MarianSettings) -> None:
    """Refuse a model with a setting that the engine does not have."""
    off, two_layers = ("", "false", "no", "off"), ("", "0", "2")
    read = {  # values that are read, and "" for those that have a default
        "type": ("transformer",),
        "transformer-decoder-autoreg": ("", "self-attention", "rnn"),
        "transformer-ffn-activation": ("", *ACTIVATIONS),
        "transformer-ffn-depth": two_layers,
        "transformer-decoder-ffn-depth": two_layers,
        "transformer-no-projection": off,
        "transformer-pool": off,
        "transformer-rnn-projection": off,
        "transformer-disable-position-embeddings": off,
        "lemma-dim-emb": ("", "0"),
    }
    if settings.word("transformer-decoder-autoreg") == "rnn":
        read["dec-cell"] = ("ssru",)
    for name, values in read.items():
        if (value := settings.word(name)).lower() not in values:
            message = f"a Marian model whose {name} is {show_value(value)}, which is not read"
            raise ModelError(message, file=settings.file)
    around = settings.word("transformer-preprocess"), settings.word("transformer-postprocess")
    top = settings.word("transformer-postprocess-top")
    if [name.replace("d", "") for name in around] not in (["", "an"], ["n", "a"]) or "a" in top:
        operations = ", ".join(map(show_value, (*around, top)))
        raise ModelError(f"a Marian model with operations {operations} around its layers, not read", file=settings.file)
    if "n" in around[0] and settings.version < (1, 10, 28):
        message = "a Marian model older than 1.11 with norms before its layers, which left out those of keys"
        raise ModelError(message, file=settings.file)


def _engine_model(settings: MarianSettings, items: dict[str, Tensor]) -> tuple[Architecture, Weights]:
    """Return the shape of a model and its weights, with a row of zeros for the first step after all pieces."""
    before = "n" in settings.word("transformer-preprocess")
    positions: Positions = "learned" if "Wpos" in items else "sinusoids"
    width, heads = settings.number("dim-emb"), settings.number("transformer-heads", 8)
    depths = settings.number("enc-depth"), settings.number("dec-depth")
    if not all((width, heads, *depths)):
        raise ModelError("its settings give no width, heads or layers", file=settings.file)
    top = "n" in settings.word("transformer-postprocess-top")
    encoder, decoder = (Side(depth, heads, width, before, top, positions, 0) for depth in depths)
    activation = ACTIVATIONS[settings.word("transformer-ffn-activation", "relu")]
    if activation == "gelu_sigmoid" and settings.version >= (1, 12, 3):
        activation = "gelu"
    architecture = Architecture(encoder, decoder, activation, scaled="Wpos" not in items, epsilon=1e-9)
    items = _untied(items, settings.items("transformer-tied-layers"), depths[1])
    tables = [_table(items, name) for name in ("encoder", "decoder")]
    return architecture, Weights(dict(_renamed(items, tables, before)))


def _untied(items: dict[str, Tensor], tied: Sequence[str], depth: int) -> dict[str, Tensor]:
    """Return the weights with those of tied decoder layers once for each layer that has them.

    `tied` holds the number under which the weights of each decoder layer are saved; it is empty if none are tied.
    """
    if not tied:
        return items
    if len(tied) != depth:
        raise ValueError(f"{len(tied):,} numbers of tied layers, but {depth:,} layers")
    result: dict[str, Tensor] = {}
    for name, weight in items.items():
        match = re.fullmatch(r"decoder_l([0-9]+)_(.+)", name)
        if not match:
            result[name] = weight
        elif match[1] not in tied:
            raise ValueError(f"{shorten(name)} belongs to none of the tied layers")
        else:
            result |= {f"decoder_l{n}_{match[2]}": weight for n, number in enumerate(tied, 1) if number == match[1]}
    return result


def _table(items: Mapping[str, Tensor], side: str) -> Tensor:
    """Return the embedding of a side `[V, D]`."""
    table = items.get(f"{side}_Wemb", items.get("Wemb"))
    if table is None or table.dim() != 2:
        raise ValueError(f"no embedding ({side}_Wemb or Wemb)")
    return table


def _renamed(items: Mapping[str, Tensor], tables: Sequence[Tensor], before: bool) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights by the names of `align.models.engine.builder`."""
    longer = [torch.cat((table, table.new_zeros(1, table.shape[1]))) for table in dict.fromkeys(tables)]
    for side, table in (("encoder", longer[0]), ("decoder", longer[-1])):
        yield f"{side}.embed_tokens.weight", table
        if "Wpos" in items:
            yield f"{side}.embed_positions.weight", items["Wpos"]
    for name, weight in items.items():
        if re.fullmatch(r".*_QuantMultA|decoder_ff_logit_out_.*|special:.*|Wpos|(encoder_|decoder_)?Wemb", name):
            continue  # no weight of a layer
        flat = weight.flatten() if weight.dim() == 2 and weight.shape[0] == 1 else weight
        yield _new_name(name, "_pre" if before else ""), flat.T.contiguous() if flat.dim() == 2 else flat


_ENDINGS = {"scale": "weight", "bias": "bias"}
_OUTER = {
    f"{side}_{old}_ln_{kind}{end}": f"{side}.{new}.{ending}"
    for side in ("encoder", "decoder")
    for old, new, end in (("top", "layer_norm", ""), ("emb", "layernorm_embedding", "_pre"))
    for kind, ending in _ENDINGS.items()
}
_LAYER = re.compile(r"(encoder|decoder)_l([1-9][0-9]{0,2})_(.+?)(?:_ln_(scale|bias)(_pre)?)?")
_NORMS = {
    **{"self_Wo": "self_attn_layer_norm", "context_Wo": "encoder_attn_layer_norm", "ffn_ffn": "final_layer_norm"},
    **{"rnn_ffn": "self_attn_layer_norm", "rnn": "self_attn_layer_norm"},  # the latter with norms before layers
}
_WEIGHTS = {
    **{"ffn_W1": "fc1.weight", "ffn_b1": "fc1.bias", "ffn_W2": "fc2.weight", "ffn_b2": "fc2.bias"},
    **{"rnn_W": f"{CELL}.input.weight", "rnn_Wf": f"{CELL}.forget.weight", "rnn_bf": f"{CELL}.forget.bias"},
    **{
        f"{part}_{old}{letter}": f"{new}.{projection}.{ending}"
        for part, new in (("self", "self_attn"), ("context", "encoder_attn"))
        for letter, projection in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj"))
        for old, ending in (("W", "weight"), ("b", "bias"))
    },
}


def _new_name(name: str, suffix: str) -> str:
    """Return the engine's name of a weight; names that it does not know stay, and are errors later.

    `suffix` ends the names of norms in layers.
    """
    match = _LAYER.fullmatch(name)
    if not match:
        return _OUTER.get(name, name)
    side, number, part, kind, end = match.groups()
    if kind is None:
        new = _WEIGHTS.get(part)
    else:
        new = f"{_NORMS[part]}.{_ENDINGS[kind]}" if part in _NORMS and (end or "") == suffix else None
    return f"{side}.layers.{int(number) - 1}.{new}" if new else name


def _output(target: Mapping[str, int], recorder: ModelRecorder) -> Output:
    """Return the output layer of a model, whose file is read again."""
    folder, device, dtype = recorder.origin
    rows = recorder.start[0]
    items, content = read_items(folder.checkpoint)
    settings = MarianSettings(content, str(folder.checkpoint))
    if "decoder_ff_logit_out_W" in items:
        weight = items["decoder_ff_logit_out_W"].T
    else:
        weight = items.get("decoder_ff_logit_out_Wt", _table(items, "decoder"))
    bias = items.get("decoder_ff_logit_out_b", torch.zeros(rows)).flatten()
    with fitting(folder.checkpoint):
        weights = Weights({"weight": weight, "bias": bias})
        weight, bias = weights.take("weight", rows, settings.number("dim-emb")), weights.take("bias", rows)
    linear = make_linear(weight.contiguous().to(device), bias.to(device), dtype=dtype)
    words = {n: piece for piece, n in target.items() if piece not in (END, UNKNOWN, "<s>")}
    return Output(linear, target[END], (), words)
