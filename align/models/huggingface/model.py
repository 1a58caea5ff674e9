"""Load a recorder from the files of a Hugging Face model folder, none of which is trusted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from align.core.errors import KindError, ModelError, shorten
from align.core.text import split_words
from align.core.types import Dtype, TextWarning
from align.models.assemble import assemble, fitting
from align.models.causal.families import KINDS as CAUSAL_KINDS
from align.models.causal.model import CausalRecorder, load_causal
from align.models.engine.linear import make_linear
from align.models.engine.search import Output
from align.models.engine.weights import Weights
from align.models.folder import ModelFolder
from align.models.huggingface.config import (
    USUAL_BYTES,
    USUAL_POSITIONS,
    Config,
    read_json,
    tokenizer_config,
    unlearned_positions,
)
from align.models.huggingface.families import FAMILIES, T5, Family, transformer_of
from align.models.huggingface.files import model_weight_files, read_model_weights, shared_transformer
from align.models.huggingface.text import Text, language_piece, prepare_text
from align.models.huggingface.vocabulary import Vocabulary, read_vocabulary, tokenizer_class
from align.models.languages import check_language, find_language
from align.models.model_toml import ModelOptions
from align.models.recorder import ModelParts, ModelRecorder, file_digest, fingerprint

VOCABULARIES = (
    "vocab.json", "target_vocab.json", "vocab-src.json", "vocab-tgt.json", "added_tokens.json", "tokenizer_config.json"
)  # fmt: skip
"""Files that may define ids of pieces, in addition to the file of subwords."""

SPECIAL_IDS = {"eos": "eos_token_id", "bos": "bos_token_id", "start": "decoder_start_token_id"}
"""Settings that give the ids of special pieces."""

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

MBART_50_ONLY = ("gl_ES", "sl_SI")
"""Languages of mBART-50 that mBART-25 does not have."""


def load_huggingface(
    folder: ModelFolder, device: str = "cpu", dtype: Dtype = "float32"
) -> ModelRecorder | CausalRecorder:
    """Load a model that transformers saved, with its vocabularies.

    Two models of the same files, such as a multilingual one in both directions, share their weights.

    Warns:
        TextWarning: a T5 is read without the prefix of a task.
    """
    config = Config(read_json(folder.root / "config.json"), str(folder.root / "config.json"))
    if config.kind in CAUSAL_KINDS:
        return load_causal(folder, device, dtype)
    family, vocabulary = _family(folder, config)
    languages = _languages(folder, vocabulary)
    known = (languages.source or "source", languages.target or "target")
    text = prepare_text(vocabulary, known, folder.options)
    before, after, start, prefix = _surroundings(family, config, text, languages, folder.options)
    for warning in _warnings(config, family, text, prefix, folder):
        warnings.warn(f"{folder.root}: {warning}", TextWarning, stacklevel=4)  # the caller of align.load
    _check_surroundings(family, vocabulary, before, after, prefix, config.file)
    transformer = shared_transformer(
        folder, config, family, device, dtype, lambda weights: transformer_of(family, config, weights, device, dtype)
    )
    pad = config.id("pad_token_id")
    if family.positions == "learned":
        tables = (stack.embedding.positions for stack in (transformer.encoder, transformer.decoder))
        rows = min(len(table(0)) for table in tables if table is not None)
        limit = min(config.size("max_position_embeddings", rows), rows)
    else:
        usual = USUAL_BYTES if tokenizer_class(folder.text_root) == "ByT5" else USUAL_POSITIONS
        limit = unlearned_positions(config, usual)
    note = f", after {shorten(' '.join(prefix))!r}" if prefix else ""
    note += "; languages: those of the forward model, swapped" if languages.swapped else ""
    parts = ModelParts(
        transformer,
        known,
        sides=text.sides,
        vocabularies=((folder.root, text.rows[0]), (folder.root, text.rows[1])),
        special=text.special,
        pad=pad if pad is not None else text.unk,
        unk=text.unk,
        before=before,
        after=after,
        start=start,
        max_positions=(limit, limit),
        digest=_digest(folder, text, before, after, start, prefix),
        load=load_huggingface,
        output=partial(_output, text),
        prefix=prefix,
        tags={tag: n for tag in text.codes.values() if (n := text.ids[0](tag)) is not None} if family.tagged else {},
        note=note,
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
    if kind == "mbart" and any(code in vocabulary.codes for code in MBART_50_ONLY):
        kind = "mbart-50"
    family = FAMILIES[kind]
    if kind == "m2m_100" and settings.switch("legacy_behaviour", False):
        family = replace(family, source=("pieces", "eos", "source"))  # as in NLLB's old tokenizer
    return family, vocabulary


def _digest(folder: ModelFolder, text: Text, *around: Sequence[int] | Sequence[str]) -> str:
    """Return the fingerprint; the digests of files are kept, since both directions of a model read the same."""
    rules = [side.rules for side in text.sides]
    files = [folder.root / "config.json", *(folder.text_root / name for name in VOCABULARIES)]
    files += [rule.subword_file for rule in rules if rule.subword_file]
    files = [*model_weight_files(folder), *(path for path in files if path.is_file())]
    spec = *around, [(rule.language, rule.case, rule.tokenizer) for rule in rules]
    return fingerprint((), repr((spec, [file_digest(path) for path in files])))


def _warnings(config: Config, family: Family, text: Text, prefix: Sequence[str], folder: ModelFolder) -> Iterator[str]:
    """Yield what may be wrong: a T5 that was trained with a prefix and has none, or an adapter to be merged again."""
    if family is T5 and not prefix and not text.codes and folder.options.source_prefix is None:
        tasks = [str(task)[len("translation_") :] for task in config.inner("task_specific_params").content]
        if pairs := [shorten(task.replace("_to_", " to ")) for task in tasks if "_to_" in task][:10]:
            yield (
                f"sources are read without a prefix; this T5 has tasks with one, {', '.join(pairs)}: give the languages"
                " of a task, or a prefix (an empty one for a model that was trained without)"
            )
    if folder.adapter == folder.root:
        yield (
            "the adapter in this folder is merged into the model in it: remove adapter_config.json if it was merged "
            "before"
        )


class Languages(NamedTuple):
    """The languages of a model; None if unknown."""

    source: str | None
    target: str | None
    named_by: str = ""  # the file that named the target, if no option did
    swapped: bool = False  # whether they are those of the forward model


def _languages(folder: ModelFolder, vocabulary: Vocabulary) -> Languages:
    """Return source and target language: those of the options, the forward model's swapped, or those of the files."""
    settings = tokenizer_config(folder.text_root)
    pair = settings.content.get("langs")
    stored = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)  # in FSMT
    files = []
    for default, names in zip(stored, (("source_lang", "src_lang"), ("target_lang", "tgt_lang")), strict=True):
        code = next((word for name in names if (word := settings.word(name, ""))), default)
        try:
            files.append(None if code is None else check_language(code))
        except ValueError as error:
            raise ModelError(str(error), file=settings.file) from None
    options = folder.options
    chosen = options.source_lang, options.target_lang
    forward = options.reverse_of
    if forward is None or forward[0] == forward[1]:
        source, target = (name or file for name, file in zip(chosen, files, strict=True))
        return Languages(source, target, "" if chosen[1] else "tokenizer_config.json")
    if vocabulary.codes:
        opposite = [find_language(code, vocabulary.codes) for code in reversed(forward)]
    else:
        opposite = [code if files == [None, None] else None for code in reversed(forward)]
    source, target = (name or code or file for name, code, file in zip(chosen, opposite, files, strict=True))
    swapped = chosen == (None, None) and bool(vocabulary.codes) and opposite[1] is not None
    return Languages(source, target, swapped=swapped)


def _surroundings(
    family: Family, config: Config, text: Text, languages: Languages, options: ModelOptions
) -> tuple[list[int], list[int], list[int], Sequence[str]]:
    """Return the ids before and after a source, those that the decoder starts with, and the words before a source.

    Special pieces that these words begin with become ids before the source.
    """

    def id_of(role: str, side: int) -> int:
        if role in ("source", "target"):
            code = languages.source if role == "source" else languages.target
            named_by = languages.named_by if role == "target" and code else ""
            piece_id = text.ids[side](language_piece(text, code, f"{role}_lang", config.file, named_by))
        else:
            piece_id = config.id(SPECIAL_IDS[role])
        if piece_id is None:
            raise ModelError(f"no {SPECIAL_IDS.get(role, role)} is given", file=config.file)
        return piece_id

    prefix = options.source_prefix
    if prefix is None and config.kind in T5_KINDS:
        task = f"translation_{languages.source}_to_{languages.target}"
        prefix = config.inner("task_specific_params").inner(task).word("prefix", "")
    words: Sequence[str] = split_words(prefix or "")
    special = {piece: n for n, piece in text.special[0].items()}
    leading = list(takewhile(special.__contains__, words))
    middle = list(family.source).index("pieces")
    before = [id_of(role, 0) for role in family.source[:middle]]
    after = [id_of(role, 0) for role in family.source[middle + 1 :]]
    if family.tagged and text.codes and not any(word in text.codes.values() for word in leading):
        before.insert(0, id_of("target", 0))
    before += [special[word] for word in leading]
    return before, after, [id_of(role, 1) for role in family.steps], words[len(leading) :]


def _check_surroundings(
    family: Family,
    vocabulary: Vocabulary,
    before: Sequence[int],
    after: Sequence[int],
    prefix: Sequence[str],
    file: str,
) -> None:
    """Refuse a model whose tokenizer.json surrounds a source in another way: it was trained on text of another form."""
    theirs = vocabulary.surroundings
    if theirs is None or prefix or "source" in family.source or "target" in family.source or vocabulary.codes:
        return
    if [*map(list, theirs)] != [before, after]:
        pieces = {n: piece for piece, n in vocabulary.sides[0].ids.items()}

        def show(first: Sequence[int], last: Sequence[int]) -> str:
            return shorten(
                " ".join([*(pieces.get(n, str(n)) for n in first), "…", *(pieces.get(n, str(n)) for n in last)])
            )

        message = f"tokenizer.json surrounds a source as {show(*theirs)}, its settings as {show(before, after)}"
        raise ModelError(message, file=file)


def _output(text: Text, recorder: ModelRecorder) -> Output:
    """Return what only translating needs of a model: its output layer, and pieces that are not generated."""
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
    with fitting(folder.checkpoint):
        weight, bias = weights.take(table, rows, width).to(device), weights.optional("final_logits_bias", 1, rows)
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
