"""Load a recorder from the files of a Hugging Face model folder, none of which is trusted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from align.core.errors import KindError, ModelError, shorten
from align.core.text import split_words
from align.core.types import Dtype, TextWarning
from align.models.assemble import assemble
from align.models.causal.families import KINDS as CAUSAL_KINDS
from align.models.causal.model import CausalRecorder, load_causal
from align.models.engine.forward import Transformer
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
from align.models.huggingface.files import model_weight_files, shared_transformer
from align.models.huggingface.output import output_of
from align.models.huggingface.text import Text, language_piece, prepare_text
from align.models.huggingface.vocabulary import Vocabulary, read_vocabulary, tokenizer_class
from align.models.languages import check_language, find_language
from align.models.model_toml import ModelOptions
from align.models.recorder import Framework, ModelParts, ModelRecorder, file_digest, fingerprint

VOCABULARIES = (
    "vocab.json", "target_vocab.json", "vocab-src.json", "vocab-tgt.json", "added_tokens.json", "tokenizer_config.json"
)  # fmt: skip
"""Files that may define ids of pieces, in addition to the file of subwords."""

SPECIAL_IDS = {"eos": "eos_token_id", "bos": "bos_token_id", "start": "decoder_start_token_id"}
"""Settings that give the ids of special pieces."""

T5_KINDS = ("t5", "mt5", "umt5")

MBART_50_ONLY = ("gl_ES", "sl_SI")
"""Languages of mBART-50 that mBART-25 does not have."""


def load_huggingface(
    folder: ModelFolder, device: str = "cpu", dtype: Dtype = "float32"
) -> ModelRecorder | CausalRecorder:
    """Load a model that transformers saved, with its vocabularies.

    Two models of the same files, such as a multilingual one in both directions, share their weights.

    Raises:
        ValueError: a file is missing or damaged, or belongs to another model; the message names it and the reason.

    Warns:
        TextWarning: a T5 is read without the prefix of a task.
    """
    config = Config(read_json(folder.root / "config.json"), str(folder.root / "config.json"))
    if config.kind in CAUSAL_KINDS:
        return load_causal(folder, device, dtype)
    kind = _kind(config, folder)
    vocabulary = read_vocabulary(folder.text_root, kind)
    family = _family(kind, folder.text_root, vocabulary)
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
    limit = _most_positions(family, config, transformer, tokenizer_class(folder.text_root))
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
        framework=Framework(load_huggingface, partial(output_of, text)),
        prefix=prefix,
        tags={tag: n for tag in text.codes.values() if (n := text.ids[0](tag)) is not None} if family.tagged else {},
        note=note,
        multilingual=bool(vocabulary.codes) or family is T5,
    )
    return assemble(parts, folder, device, dtype)


def _digest(folder: ModelFolder, text: Text, *around: Sequence[int] | Sequence[str]) -> str:
    """Return the fingerprint; the digests of files are kept, since both directions of a model read the same."""
    rules = [side.rules for side in text.sides]
    files = [folder.root / "config.json", *(folder.text_root / name for name in VOCABULARIES)]
    files += [rule.subword_file for rule in rules if rule.subword_file]
    files = [*model_weight_files(folder), *(path for path in files if path.is_file())]
    spec = *around, [(rule.language, rule.case, rule.tokenizer) for rule in rules]
    return fingerprint((), repr((spec, [file_digest(path) for path in files])))


def _most_positions(family: Family, config: Config, transformer: Transformer, tokenizer: str) -> int:
    """Return the maximum number of pieces on either side, by the settings and the rows of position embeddings."""
    if family.positions != "learned":
        return unlearned_positions(config, USUAL_BYTES if tokenizer == "ByT5" else USUAL_POSITIONS)
    tables = (stack.embedding.positions for stack in (transformer.encoder, transformer.decoder))
    rows = min(len(table(0)) for table in tables if table is not None)
    return min(config.size("max_position_embeddings", rows), rows)


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


def _kind(config: Config, folder: ModelFolder) -> str:
    """Return the kind of the model in a folder, a key of FAMILIES."""
    kind, tokenizer = config.kind, tokenizer_class(folder.text_root)
    if kind == "mbart" and (
        tokenizer_config(folder.text_root).word("language_codes", "") == "ML50"
        or tokenizer == "MBart50"
        or config.word("tokenizer_class", "") == "MBart50Tokenizer"
    ):
        return "mbart-50"
    if kind == "m2m_100" and tokenizer == "SMALL100":
        return "small100"
    if kind not in FAMILIES:
        known = (*(name for name in FAMILIES if name not in ("mbart-50", "small100")), *CAUSAL_KINDS)
        raise KindError(f"a model of type {shorten(kind) or 'unknown'}", known, file=str(folder.root))
    return kind


def _family(kind: str, root: Path, vocabulary: Vocabulary) -> Family:
    """Return a model's family, adjusted to its vocabulary and its tokenizer's settings."""
    if kind == "mbart" and any(code in vocabulary.codes for code in MBART_50_ONLY):
        return FAMILIES["mbart-50"]
    family = FAMILIES[kind]
    if kind == "m2m_100" and tokenizer_config(root).switch("legacy_behaviour", False):
        return replace(family, source=("pieces", "eos", "source"))  # as in NLLB's old tokenizer
    return family


class Languages(NamedTuple):
    """The languages of a model; None if unknown.

    Attributes:
        source: code of the source language.
        target: code of the target language.
        named_by: the file that named the target; empty if an option did.
        swapped: whether they are those of the forward model, swapped.
    """

    source: str | None
    target: str | None
    named_by: str = ""
    swapped: bool = False


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
