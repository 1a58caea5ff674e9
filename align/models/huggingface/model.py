"""Load a recorder from the files of a Hugging Face model folder, none of which is trusted."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from align.core.errors import ModelError, shorten
from align.core.text import split_words
from align.core.types import Dtype, TextWarning
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
from align.models.huggingface.families import FAMILIES, T5, Family, refuse_kind, transformer_of
from align.models.huggingface.files import model_weight_files, read_model_weights
from align.models.huggingface.text import Text, language_piece, prepare_text
from align.models.huggingface.translator import HuggingFaceTranslator
from align.models.huggingface.vocabulary import Vocabulary, read_vocabulary, tokenizer_class
from align.models.languages import check_language, find_language
from align.models.model_toml import ModelOptions
from align.models.recorder import Framework, ModelRecorder, file_digest, fingerprint, remember

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

    Args:
        folder: the model's files, and the user's options.
        device: "cpu", or "cuda" and the like.
        dtype: precision of matrix products; see `align.models.engine.linear`.

    Raises:
        ValueError: a file is missing or damaged, or belongs to another model; the message names it and the reason.

    Warns:
        TextWarning: a T5 is read without the prefix of a task.
    """
    root = folder.root
    file = str(root / "config.json")
    config = Config(read_json(root / "config.json"), file)
    if config.kind in CAUSAL_KINDS:
        return load_causal(folder, device, dtype)
    kind = _kind(config, root, folder.text_root)
    vocabulary = read_vocabulary(folder.text_root, kind)
    family = _family(kind, folder.text_root, vocabulary)
    languages = _languages(folder, vocabulary)
    known = (languages.source or "source", languages.target or "target")
    text = prepare_text(vocabulary, known, folder.options)
    prefix: Sequence[str] = split_words(_prefix(config, folder.options, languages))
    if family is T5 and not prefix and not vocabulary.codes and folder.options.source_prefix is None:
        _warn_of_tasks(config, root)
    if folder.adapter == root:
        message = "the adapter in this folder is merged into the model in it: "
        message += "remove adapter_config.json if it was merged before"
        warnings.warn(f"{root}: {message}", TextWarning, stacklevel=3)  # the caller of align.load
    surroundings = _surroundings(family, config, text, languages, prefix, file)
    _check_surroundings(family, vocabulary, surroundings, file)
    transformer = _transformer(folder, family, config, device, dtype)
    before, after, start, prefix = surroundings
    _check_vocabulary(transformer, text, (*before, *after), start, folder)
    limit = _most_positions(family, config, transformer, tokenizer_class(folder.text_root))
    pad = config.id("pad_token_id")
    rules = [side.rules for side in text.sides]
    text_files = [root / "config.json", *(folder.text_root / name for name in VOCABULARIES)]
    text_files += [rule.subword_file for rule in rules if rule.subword_file]
    files = [*model_weight_files(folder), *(path for path in text_files if path.is_file())]
    spec = before, after, start, prefix, [(rule.language, rule.case, rule.tokenizer) for rule in rules]
    digests = [file_digest(path) for path in files]
    described = ", ".join(map(str, rules))
    if prefix:
        described += f", after {shorten(' '.join(prefix))!r}"
    if languages.swapped:
        described += "; languages: those of the forward model, swapped"
    own_model = partial(_own_model, learned=family.positions == "learned")
    recorder = ModelRecorder(
        transformer,
        text.sides,
        (before, after),
        start,
        framework=Framework(load_huggingface, own_model, partial(HuggingFaceTranslator, text)),
        origin=(folder.absolute(), device, dtype),
        name=f"huggingface:{'-'.join(known)}@{fingerprint((), repr((spec, digests)))}",
        languages=known,
        text=described,
        pad=pad if pad is not None else text.unk,
        unk=text.unk,
        special=text.special,
        max_positions=(limit, limit - len(start) + 1),  # counted with one start
        prefix=prefix,
        tags=_tags(text) if family.tagged else {},
        multilingual=bool(vocabulary.codes) or family is T5,
    )
    remember(recorder, folder, device, dtype)
    return recorder


def _tags(text: Text) -> dict[str, int]:
    """Return the id of each language's tag."""
    ids = {piece: text.ids[0](piece) for piece in text.codes.values()}
    return {piece: number for piece, number in ids.items() if number is not None}


def _own_model(recorder: ModelRecorder, learned: bool) -> Any:
    from align.models.huggingface.own_model import load_own_model  # imports transformers

    folder, device, dtype = recorder.origin
    return load_own_model(folder, learned=learned, device=device, dtype=dtype)


_transformers: WeakValueDictionary[Hashable, Transformer] = WeakValueDictionary()
"""Models in use, by the files that they were read from, device, dtype and family."""


def _transformer(folder: ModelFolder, family: Family, config: Config, device: str, dtype: Dtype) -> Transformer:
    """Return the Transformer in a folder; the same object if its files are already in use.

    Raises:
        ModelError: settings and weights do not fit each other, or one of the files is damaged.
    """
    paths = [folder.root / "config.json", *model_weight_files(folder)]
    if missing := next((path for path in paths if not path.is_file()), None):
        raise ModelError("no such file", file=str(missing))
    files = tuple((path.resolve(), status.st_mtime_ns, status.st_size) for path in paths if (status := path.stat()))
    key = files, device, dtype, family
    transformer = _transformers.get(key)
    if transformer is None:
        try:
            transformer = transformer_of(family, config, read_model_weights(folder, mapped=True), device, dtype)
        except ModelError as error:
            raise error if error.file else error.in_file(config.file) from None
        except ValueError as error:
            raise ModelError(_explained(config, error), file=str(folder.checkpoint)) from None
        _transformers[key] = transformer
    return transformer


def _explained(config: Config, error: ValueError) -> str:
    """Return the reason why weights and settings do not fit, as a message."""
    quantisation = config.inner("quantization_config")
    if quantisation.content:
        method = quantisation.word("quant_method", "an unknown method")
        return f"its weights are quantised ({method}), which is not read: take the model that they were made of"
    return f"weights and configuration do not fit: {error}"


def _most_positions(family: Family, config: Config, transformer: Transformer, tokenizer: str) -> int:
    """Return the maximum number of pieces on either side, by the settings and the rows of position embeddings."""
    if family.positions != "learned":
        return unlearned_positions(config, USUAL_BYTES if tokenizer == "ByT5" else USUAL_POSITIONS)
    tables = (stack.embedding.positions for stack in (transformer.encoder, transformer.decoder))
    rows = min(len(table(0)) for table in tables if table is not None)
    return min(config.size("max_position_embeddings", rows), rows)


def _prefix(config: Config, options: ModelOptions, languages: Languages) -> str:
    """Return the text before each source: the user's option, or the prefix of a T5's task for these languages."""
    if options.source_prefix is not None or config.kind not in T5_KINDS:
        return options.source_prefix or ""
    task = f"translation_{languages.source}_to_{languages.target}"
    return config.inner("task_specific_params").inner(task).word("prefix", "")


def _warn_of_tasks(config: Config, root: Path) -> None:
    """Warn if a T5 was trained to translate with a prefix, and there is none."""
    tasks = [str(task)[len("translation_") :] for task in config.inner("task_specific_params").content]
    pairs = [shorten(task.replace("_to_", " to ")) for task in tasks if "_to_" in task][:10]
    if pairs:
        message = (
            f"{root}: sources are read without a prefix; this T5 has tasks with one, {', '.join(pairs)}: give the "
        )
        message += "languages of a task, or a prefix (an empty one for a model that was trained without)"
        warnings.warn(message, TextWarning, stacklevel=4)  # the caller of align.load


def _check_vocabulary(
    transformer: Transformer, text: Text, source: Iterable[int], start: Iterable[int], folder: ModelFolder
) -> None:
    """Check that the model's embedding has a row for each id.

    Raises:
        ModelError: the vocabulary is larger than the embedding.
    """
    stacks = transformer.encoder, transformer.decoder
    for stack, side, rows, added in zip(stacks, ("source", "target"), text.rows, (source, start), strict=True):
        needed, available = max(rows, 0, *(n + 1 for n in added)), len(stack.embedding.pieces)
        if needed > available:
            message = f"{needed:,} pieces on the {side}'s side, but the model was trained with {available:,}"
            raise ModelError(message, file=str(folder.root))


def _kind(config: Config, root: Path, text_root: Path) -> str:
    """Return the family of the model in a folder, a key of FAMILIES.

    Raises:
        ModelError: the model is not supported.
    """
    kind = config.kind
    if kind == "mbart":
        has_50_languages = tokenizer_config(text_root).word("language_codes", "") == "ML50"
        if (
            has_50_languages
            or tokenizer_class(text_root) == "MBart50"
            or config.word("tokenizer_class", "") == "MBart50Tokenizer"
        ):
            return "mbart-50"
    if kind == "m2m_100" and tokenizer_class(text_root) == "SMALL100":
        return "small100"
    if kind not in FAMILIES:
        raise refuse_kind(kind, str(root))
    return kind


def _family(kind: str, root: Path, vocabulary: Vocabulary) -> Family:
    """Return a model's family, adjusted to its vocabulary and its tokenizer's settings.

    Raises:
        ModelError: the settings are damaged.
    """
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
    """Return source and target language: those of the options, the forward model's swapped, or those of the files.

    Raises:
        ModelError: a language in the files is not a language code.
    """
    options = folder.options
    of_files = _languages_of_files(folder)
    chosen = options.source_lang, options.target_lang
    if options.reverse_of is not None and options.reverse_of[0] != options.reverse_of[1]:
        forward = options.reverse_of
        opposite = [
            find_language(code, vocabulary.codes) if vocabulary.codes else (code if of_files == (None, None) else None)
            for code in reversed(forward)
        ]
        codes = [name or code or file for name, code, file in zip(chosen, opposite, of_files, strict=True)]
        swapped = chosen == (None, None) and bool(vocabulary.codes) and opposite[1] is not None
        return Languages(codes[0], codes[1], swapped=swapped)
    codes = [name or file for name, file in zip(chosen, of_files, strict=True)]
    return Languages(codes[0], codes[1], "" if chosen[1] else "tokenizer_config.json")


def _languages_of_files(folder: ModelFolder) -> tuple[str | None, str | None]:
    """Return source and target language according to the tokenizer's settings.

    Raises:
        ModelError: a language in them is not a language code.
    """
    settings = tokenizer_config(folder.text_root)
    pair = settings.content.get("langs")
    both = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)  # in FSMT
    codes = []
    for default, names in zip(both, (("source_lang", "src_lang"), ("target_lang", "tgt_lang")), strict=True):
        code = next((word for name in names if (word := settings.word(name, ""))), default)
        try:
            codes.append(None if code is None else check_language(code))
        except ValueError as error:
            raise ModelError(str(error), file=settings.file) from None
    return codes[0], codes[1]


class Surroundings(NamedTuple):
    """The ids and words around a sentence's pieces.

    Attributes:
        before: ids before the source's.
        after: ids after the source's.
        start: ids that the decoder reads before the target's.
        prefix: words that every source begins with.
    """

    before: Sequence[int]
    after: Sequence[int]
    start: Sequence[int]
    prefix: Sequence[str]


def _surroundings(
    family: Family, config: Config, text: Text, languages: Languages, prefix: Sequence[str], file: str
) -> Surroundings:
    """Return the surroundings of sentences; special pieces that the prefix begins with become ids before the source.

    Raises:
        ModelError: a language or a special piece is missing.
    """

    def id_of(role: str, side: int) -> int:
        if role in ("source", "target"):
            code = languages.source if role == "source" else languages.target
            named_by = languages.named_by if role == "target" and code else ""
            piece_id = text.ids[side](language_piece(text, code, f"{role}_lang", file, named_by))
        else:
            piece_id = config.id(SPECIAL_IDS[role])
        if piece_id is None:
            raise ModelError(f"no {SPECIAL_IDS.get(role, role)} is given", file=file)
        return piece_id

    middle = list(family.source).index("pieces")
    before = [id_of(role, 0) for role in family.source[:middle]]
    after = [id_of(role, 0) for role in family.source[middle + 1 :]]
    special = {piece: n for n, piece in text.special[0].items()}
    leading = list(takewhile(special.__contains__, prefix))
    if family.tagged and text.codes and not any(word in text.codes.values() for word in leading):
        before.insert(0, id_of("target", 0))
    before += [special[word] for word in leading]
    return Surroundings(before, after, [id_of(role, 1) for role in family.steps], prefix[len(leading) :])


def _check_surroundings(family: Family, vocabulary: Vocabulary, ours: Surroundings, file: str) -> None:
    """Check that tokenizer.json surrounds a source as models of this type expect.

    Raises:
        ModelError: it adds other pieces, so that the model was trained on text of another form.
    """
    theirs = vocabulary.surroundings
    if theirs is None or ours.prefix or "source" in family.source or "target" in family.source or vocabulary.codes:
        return
    if [*map(list, theirs)] != [list(ours.before), list(ours.after)]:
        pieces = {n: piece for piece, n in vocabulary.sides[0].ids.items()}

        def show(ids: tuple[Sequence[int], Sequence[int]]) -> str:
            return " ".join([*(pieces.get(n, str(n)) for n in ids[0]), "…", *(pieces.get(n, str(n)) for n in ids[1])])

        message = f"tokenizer.json surrounds a source as {shorten(show(theirs))}, its settings as "
        message += f"{shorten(show((ours.before, ours.after)))}"
        raise ModelError(message, file=file)
