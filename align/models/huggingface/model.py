"""Load a recorder from the files of a Hugging Face model folder, none of which is trusted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import takewhile

from align.core.errors import KindError, ModelError, shorten
from align.core.text import split_words
from align.core.types import Dtype, TextWarning
from align.models.assemble import assemble, fitting
from align.models.causal.families import KINDS as CAUSAL_KINDS
from align.models.causal.model import CausalRecorder, load_causal
from align.models.encoder.model import KINDS as ENCODER_KINDS
from align.models.encoder.model import EncoderRecorder, load_encoder
from align.models.engine.linear import make_linear
from align.models.engine.search import Output
from align.models.engine.weights import Weights
from align.models.folder import ModelFolder
from align.models.huggingface.families import FAMILIES, T5, Family, transformer_of
from align.models.huggingface.files import model_weight_files, read_model_weights, shared_transformer
from align.models.huggingface.vocabulary import Vocabulary, read_vocabulary, tokenizer_class
from align.models.languages import check_language, find_language, same_language
from align.models.recorder import ModelParts, ModelRecorder, file_digest, fingerprint
from align.models.settings import (
    USUAL_POSITIONS,
    Config,
    read_config,
    tokenizer_config,
    unlearned_positions,
)

VOCABULARIES = (
    "vocab.json", "target_vocab.json", "vocab-src.json", "vocab-tgt.json", "added_tokens.json", "tokenizer_config.json"
)  # fmt: skip
"""Files that may define ids of pieces, in addition to the file of subwords."""

SPECIAL_IDS = {"eos": "eos_token_id", "bos": "bos_token_id", "start": "decoder_start_token_id"}
"""Settings that give the ids of special pieces."""

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


def load_huggingface(
    folder: ModelFolder, device: str = "cpu", dtype: Dtype = "float32"
) -> ModelRecorder | CausalRecorder | EncoderRecorder:
    """Load a model that transformers saved, with its vocabularies.

    Two models of the same files, such as a multilingual one in both directions, share their weights.
    """
    config = read_config(folder.root / "config.json")
    if config.kind in CAUSAL_KINDS:
        return load_causal(folder, device, dtype)
    if config.kind in ENCODER_KINDS:
        return load_encoder(folder, device, dtype)
    family, vocabulary = _family(folder, config)
    (source, target), named_by, swapped = _languages(folder, vocabulary)
    known = (source or "source", target or "target")
    options = folder.options
    sides = vocabulary.preprocessor(0, known[0], options), vocabulary.preprocessor(1, known[1], options)
    special = vocabulary.of_no_word(0), vocabulary.of_no_word(1)

    prefix = options.source_prefix
    if prefix is None and family is T5:
        tasks = config.inner("task_specific_params")
        prefix = tasks.inner(f"translation_{source}_to_{target}").word("prefix", "")
        pairs = [shorten(str(task)[12:].replace("_to_", " to ")) for task in tasks.content if "_to_" in str(task)][:10]
        if not prefix and not vocabulary.codes and pairs:
            message = f"sources are read without a prefix; this T5 has tasks with one, {', '.join(pairs)}: give the "
            message += "languages of a task, or a prefix (an empty one for a model that was trained without)"
            warnings.warn(f"{folder.root}: {message}", TextWarning, stacklevel=3)  # the caller of align.load
    if folder.adapter == folder.root:
        message = "the adapter in this folder is merged into the model in it: remove adapter_config.json if it was "
        warnings.warn(f"{folder.root}: {message}merged before", TextWarning, stacklevel=3)

    def id_of(role: str, side: int) -> int:
        """Return the id of what surrounds the pieces of a side: a special piece, or a language."""
        if role in ("source", "target"):
            code, by = (source, "") if role == "source" else (target, named_by)
            number = vocabulary.sides[side].ids.get(language_piece(vocabulary.codes, code, role, config.file, by))
        else:
            number = config.id(SPECIAL_IDS[role])
        if number is None:
            raise ModelError(f"no {SPECIAL_IDS.get(role, role)} is given", file=config.file)
        return number

    # Words of the prefix belong to no word; special pieces that it begins with become ids.
    words = split_words(prefix or "")
    pieces = {piece: n for n, piece in special[0].items()}
    leading = list(takewhile(pieces.__contains__, words))
    words = words[len(leading) :]
    before, after = ([id_of(role, 0) for role in roles.split()] for roles in family.source.split("pieces"))
    if family.tagged and vocabulary.codes and not any(word in vocabulary.codes.values() for word in leading):
        before.insert(0, id_of("target", 0))
    before += [pieces[word] for word in leading]
    start = [id_of(role, 1) for role in family.steps.split()]
    if vocabulary.surroundings and not words and not vocabulary.codes:
        theirs = [*map(list, vocabulary.surroundings)]
        if theirs != [before, after]:  # it was trained on text of another form
            message = f"tokenizer.json surrounds a source with the ids {theirs}, its settings with {[before, after]}"
            raise ModelError(message, file=config.file)

    transformer = shared_transformer(
        folder, config, device, dtype, lambda weights: transformer_of(family, config, weights, device, dtype)
    )
    if family.positions == "learned":
        tables = (stack.embedding.positions for stack in (transformer.encoder, transformer.decoder))
        longest = min(len(table(0)) for table in tables if table is not None)
        limit = min(config.size("max_position_embeddings", longest), longest)
    else:
        in_bytes = tokenizer_class(folder.text_root) == "ByT5"
        limit = unlearned_positions(config, USUAL_POSITIONS * (4 if in_bytes else 1))

    files = [folder.root / "config.json", *(folder.text_root / name for name in VOCABULARIES)]
    files += [side.rules.subword_file for side in sides if side.rules.subword_file]
    files = [*model_weight_files(folder), *(path for path in files if path.is_file())]
    spec = before, after, start, words, [(side.rules.language, side.rules.case, side.rules.tokenizer) for side in sides]
    pad, tags = config.id("pad_token_id"), vocabulary.codes.values() if family.tagged else ()
    rows = [max(side.ids.values()) + 1 for side in vocabulary.sides]
    note = f", after {shorten(' '.join(words))!r}" if words else ""
    parts = ModelParts(
        transformer,
        known,
        sides=sides,
        vocabularies=((folder.root, rows[0]), (folder.root, rows[1])),
        special=special,
        pad=pad if pad is not None else vocabulary.unk,
        unk=vocabulary.unk,
        before=before,
        after=after,
        start=start,
        max_positions=(limit, limit),
        digest=fingerprint((), repr((spec, [file_digest(path) for path in files]))),
        load=load_huggingface,
        output=partial(_output, vocabulary),
        prefix=words,
        tags={tag: n for tag in tags if (n := vocabulary.sides[0].ids.get(tag)) is not None},
        note=note + ("; languages: those of the forward model, swapped" if swapped else ""),
        multilingual=bool(vocabulary.codes) or family is T5,
    )
    return assemble(parts, folder, device, dtype)


def _family(folder: ModelFolder, config: Config) -> tuple[Family, Vocabulary]:
    """Return a model's family, by its type, its tokenizer and its vocabulary, and this vocabulary."""
    tokenizer, settings = tokenizer_class(folder.text_root), tokenizer_config(folder.text_root)
    kind = config.kind
    if kind == "m2m_100" and tokenizer == "SMALL100":
        kind = "small100"
    elif kind not in FAMILIES:
        known = (*(name for name in FAMILIES if name not in ("mbart-50", "small100")), *CAUSAL_KINDS)
        raise KindError(f"a model of type {shorten(kind) or 'unknown'}", known, file=str(folder.root))
    elif kind == "mbart" and (
        settings.word("language_codes", "") == "ML50"
        or tokenizer == "MBart50"
        or config.word("tokenizer_class", "") == "MBart50Tokenizer"
    ):
        kind = "mbart-50"
    vocabulary = read_vocabulary(folder.text_root, kind)
    if kind == "mbart" and ("gl_ES" in vocabulary.codes or "sl_SI" in vocabulary.codes):  # not in mBART-25
        kind = "mbart-50"
    family = FAMILIES[kind]
    if kind == "m2m_100" and settings.switch("legacy_behaviour", False):
        family = replace(family, source="pieces eos source")  # as in NLLB's old tokenizer
    return family, vocabulary


def _languages(folder: ModelFolder, vocabulary: Vocabulary) -> tuple[tuple[str | None, str | None], str, bool]:
    """Return the languages of source and target, those of the options, the forward model's swapped, or the files'.

    Unknown ones are None. The file that named the target, if no option did, and whether they are swapped, follow.
    """
    settings, options, forward = tokenizer_config(folder.text_root), folder.options, folder.options.reverse_of
    pair = settings.content.get("langs")  # in FSMT
    files: list[str | None] = list(pair) if isinstance(pair, list) and len(pair) == 2 else [None, None]
    for side, names in enumerate((("source_lang", "src_lang"), ("target_lang", "tgt_lang"))):
        code = next((word for name in names if (word := settings.word(name, ""))), files[side])
        files[side] = None if code is None else check_language(code, settings.file)
    if forward is None or forward[0] == forward[1]:
        named_by = "tokenizer_config.json" if files[1] and not options.target_lang else ""
        return (options.source_lang or files[0], options.target_lang or files[1]), named_by, False
    opposite: list[str | None] = [forward[1], forward[0]]
    if vocabulary.codes:
        opposite = [find_language(code, vocabulary.codes) for code in reversed(forward)]
    elif files != [None, None]:
        opposite = [None, None]
    source = options.source_lang or opposite[0] or files[0]
    target = options.target_lang or opposite[1] or files[1]
    swapped = (options.source_lang, options.target_lang) == (None, None) and bool(vocabulary.codes)
    return (source, target), "", swapped and opposite[1] is not None


def language_piece(codes: Mapping[str, str], code: str | None, side: str, file: str, named_by: str) -> str:
    """Return the piece that stands for the language of a side among those of a model."""
    if piece := codes.get(code or "") or codes.get((code or "").strip("_")):
        return piece
    wanted = ("en", "de", "fr", "es", "zh") if code is None else (code,)
    near = [own for known in wanted for own in codes if same_language(known, own)]
    near = near or get_close_matches(code or "", codes, n=5, cutoff=0.6) or list(codes)
    choice = f"one of {', '.join(map(shorten, codes))}"
    if len(codes) > 10:
        choice = f"one of its {len(codes)} languages, such as {', '.join(map(shorten, near[:5]))}"
    message = f"the model has no language {shorten(code)}" if code else f"no {side} language is given"
    if named_by:
        message += f", which {named_by} names"
    raise ModelError(message, file=file, hint=f"give ‹{side}_lang›, {choice}")


def _output(vocabulary: Vocabulary, recorder: ModelRecorder) -> Output:
    """Return what only translating needs of a model: its output layer, and pieces that are not generated."""
    folder, device, dtype = recorder.origin
    config = read_config(folder.root / "config.json")
    rows, width = len(recorder.transformer.decoder.embedding.pieces), config.size("d_model")
    stored = read_model_weights(folder)
    weights = Weights({name.removeprefix("model."): stored.pop(name) for name in list(stored)})
    is_t5 = FAMILIES.get(config.kind) is T5
    tied = is_t5 or config.switch("tie_word_embeddings", config.kind != "fsmt")
    table = next((name for name in (*OWN_TABLES, *(SHARED_TABLES if tied else ())) if name in weights), None)
    if table is None:
        own = OWN_TABLES[config.kind == "fsmt"]
        raise ModelError(f"it has no {own}, which translating needs", file=str(folder.checkpoint))
    with fitting(folder.checkpoint):
        weight, bias = weights.take(table, rows, width).to(device), weights.optional("final_logits_bias", 1, rows)
    scaled = config.switch("scale_decoder_outputs", config.switch("tie_word_embeddings", True))
    if is_t5 and config.kind != "mt5" and scaled:  # T5 1.1 is told from the first T5 by its lack of tied tables
        weight *= width**-0.5
    linear = make_linear(weight, None if bias is None else bias[0].to(device), dtype=dtype)
    end, pad = config.id("eos_token_id"), config.id("pad_token_id")
    assert end is not None  # as loading has checked
    path = folder.root / "generation_config.json"
    settings = read_config(path) if path.is_file() else config
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
    pieces = {number: piece for piece, number in vocabulary.of_words(1).items()}
    return Output(linear, end, sorted(n for n in never - {end} if n is not None), pieces, vocabulary.join)
