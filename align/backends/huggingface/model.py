"""From the files of a Hugging Face model folder, none of which is trusted, to a recorder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from align.backends.again import remember
from align.backends.fingerprint import fingerprint
from align.backends.huggingface.config import Config, read_json, tokenizer_config, unlearned_positions
from align.backends.huggingface.families import FAMILIES, T5, Family, transformer_of
from align.backends.huggingface.files import read_weights, weight_files
from align.backends.huggingface.recorder import HuggingFaceRecorder
from align.backends.huggingface.text import Text, language_piece, read_text_rules
from align.backends.model_folder import ModelFolder
from align.backends.model_toml import ModelOptions
from align.backends.transformer.forward import Transformer
from align.errors import KindError, ModelError, show_value
from align.text.lines import split_words
from align.types import Dtype

VOCABULARIES = ("vocab.json", "target_vocab.json", "vocab-src.json", "vocab-tgt.json")
"""Files that give pieces their numbers, where that is not done by the file of subwords."""

MBART_50_ONLY = ("gl_ES", "sl_SI")
"""Languages of mBART-50 that mBART-25 does not have."""


def load_huggingface(folder: ModelFolder, device: str = "cpu", dtype: Dtype = "float32") -> HuggingFaceRecorder:
    """Load a model that was saved by transformers, with its vocabularies.

    Args:
        folder: where the files are, and what the user says about the languages.
        device: "cpu", or "cuda" and the like.
        dtype: of the products; see `align.backends.transformer.linear`.

    Raises:
        ValueError: a file is missing, damaged or of another model; says which and why.
    """
    root = folder.root
    file = str(root / "config.json")
    config = Config(read_json(root / "config.json"), file)
    kind = _kind(config, root)
    languages = _languages(folder)
    known = (languages[0] or "source", languages[1] or "target")
    text = read_text_rules(root, kind, known, folder.options)
    family = _family(kind, root, text)
    before, after, start = _surroundings(family, config, text, languages, file)
    weights = read_weights(folder.checkpoint)
    try:
        transformer = transformer_of(family, config, weights, device, dtype)
    except ModelError as error:
        raise error.in_file(file) from None
    except ValueError as error:
        raise ModelError(f"weights and configuration do not fit: {error}", file=str(folder.checkpoint)) from None
    _check_vocabulary(transformer, text, (*before, *after), start, folder)
    most = _most_positions(family, config, transformer)
    pad = config.id("pad_token_id")
    rules = [side.rules for side in text.sides]
    named = [root / "config.json", *(root / name for name in VOCABULARIES), *(rule.subword_file for rule in rules)]
    files = [*weight_files(folder.checkpoint), *(path for path in named if path and path.is_file())]
    prefix = split_words(_prefix(family, config, folder.options, languages))
    spec = before, after, start, prefix, [(rule.language, rule.case, rule.tokenizer) for rule in rules]
    recorder = HuggingFaceRecorder(
        transformer,
        text,
        (before, after),
        start,
        prefix,
        pad=pad if pad is not None else text.unk,
        learned=family.positions == "learned",
        max_positions=(most, most),
        name=f"huggingface:{'-'.join(known)}@{fingerprint(files, repr(spec))}",
        languages=known,
        origin=(folder.absolute(), device, dtype),
    )
    remember(recorder, folder, device, dtype)
    return recorder


def _most_positions(family: Family, config: Config, transformer: Transformer) -> int:
    """The most pieces that either side takes: those of which the settings tell, and which have a vector."""
    if family.positions != "learned":
        return unlearned_positions(config)
    tables = (stack.embedding.positions for stack in (transformer.encoder, transformer.decoder))
    rows = min(len(table(0)) for table in tables if table is not None)
    return min(config.size("max_position_embeddings", rows), rows)


def _prefix(family: Family, config: Config, options: ModelOptions, languages: tuple[str | None, str | None]) -> str:
    """What stands before each source: as the user says, or as a T5's configuration has it for these languages."""
    if options.source_prefix is not None or family is not T5:
        return options.source_prefix or ""
    task = "translation_{}_to_{}".format(*languages)
    return config.inner("task_specific_params").inner(task).word("prefix", "")


def _check_vocabulary(
    transformer: Transformer, text: Text, source: Iterable[int], start: Iterable[int], folder: ModelFolder
) -> None:
    """Check that each number of a piece is a row of the model's table.

    Raises:
        ModelError: the vocabulary is larger than that.
    """
    stacks = transformer.encoder, transformer.decoder
    for stack, side, rows, more in zip(stacks, ("source", "target"), text.rows, (source, start), strict=True):
        needed, there = max(rows, 0, *(n + 1 for n in more)), len(stack.embedding.pieces)
        if needed > there:
            what = f"{needed:,} pieces on the {side}'s side, but the model was trained with {there:,}"
            raise ModelError(what, file=str(folder.root))


def _kind(config: Config, root: Path) -> str:
    """The kind of model that a folder holds, a key of FAMILIES.

    Raises:
        ModelError: it is none that can be run here.
    """
    kind = config.kind
    if kind == "mbart":
        saved = tokenizer_config(root)
        named = (saved.word("tokenizer_class", ""), config.word("tokenizer_class", ""))
        if saved.word("language_codes", "") == "ML50" or any(name.startswith("MBart50") for name in named):
            return "mbart-50"
    if kind not in FAMILIES:
        raise KindError(f"a model of type {kind or 'unknown'}", tuple(FAMILIES), file=str(root))
    return kind


def _family(kind: str, root: Path, text: Text) -> Family:
    """What a kind of model differs in, as its vocabulary and its tokenizer's settings show.

    Raises:
        ModelError: the settings are damaged.
    """
    if kind == "mbart" and any(code in text.codes for code in MBART_50_ONLY):
        return FAMILIES["mbart-50"]
    family = FAMILIES[kind]
    if kind == "m2m_100" and tokenizer_config(root).switch("legacy_behaviour", False):
        return replace(family, source=("pieces", "eos", "source"))  # as NLLB's tokenizer once had it
    return family


def _languages(folder: ModelFolder) -> tuple[str | None, str | None]:
    """Source and target, as the user says, or the tokenizer's settings.

    Raises:
        ModelError: the settings have something that is not a language code.
    """
    path = folder.root / "tokenizer_config.json"
    content = read_json(path) if path.is_file() else {}
    saved, pair = Config(content, str(path)), content.get("langs")
    both = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)  # as FSMT has it
    found = []
    for n, (given, names) in enumerate(
        (
            (folder.options.source_lang, ("source_lang", "src_lang")),
            (folder.options.target_lang, ("target_lang", "tgt_lang")),
        )
    ):
        code = given or next((word for name in names if (word := saved.word(name, ""))), both[n])
        if code is not None and not (isinstance(code, str) and re.fullmatch(r"[\w.-]{1,100}", code)):
            raise ModelError(f"{show_value(code)} is not a language code", file=str(path))
        found.append(code)
    return found[0], found[1]


def _surroundings(
    family: Family, config: Config, text: Text, languages: tuple[str | None, str | None], file: str
) -> tuple[list[int], list[int], list[int]]:
    """Ids before and after the source's pieces, and before the target's.

    Raises:
        ModelError: a language or a special piece is missing.
    """

    def id_of(what: str, side: int) -> int:
        if what in ("source", "target"):
            n = what == "target"
            piece = language_piece(text, languages[n], f"{what}_lang", file)
            found = text.ids[side](piece)
        else:
            found = config.id({"eos": "eos_token_id", "bos": "bos_token_id", "start": "decoder_start_token_id"}[what])
        if found is None:
            raise ModelError(f"does not say which piece is its {what}", file=file)
        return found

    middle = list(family.source).index("pieces")
    before = [id_of(what, 0) for what in family.source[:middle]]
    after = [id_of(what, 0) for what in family.source[middle + 1 :]]
    if family is FAMILIES["marian"] and text.codes:  # a model of many target languages: the source says which
        before.insert(0, id_of("target", 0))
    return before, after, [id_of(what, 1) for what in family.steps]
