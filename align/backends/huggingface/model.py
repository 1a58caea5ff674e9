"""From the files of a Hugging Face model folder, none of which is trusted, to a recorder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from align.backends.huggingface.config import Config, read_json
from align.backends.huggingface.families import FAMILIES, Family, transformer_of
from align.backends.huggingface.files import read_weights
from align.backends.huggingface.recorder import HuggingFaceRecorder
from align.backends.huggingface.text import Text, language_piece, read_text_rules
from align.backends.model_folder import ModelFolder
from align.backends.transformer.forward import Transformer
from align.errors import ModelError, Remedy
from align.types import Dtype

SINUSOIDS = 100_000
"""The most positions that are computed."""


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
    family = _family(config, root)
    languages = _languages(folder)
    known = (languages[0] or "source", languages[1] or "target")
    text = read_text_rules(root, known, folder.options)
    before, after, start = _surroundings(family, config, text, languages, file)
    weights = read_weights(folder.checkpoint)
    try:
        transformer = transformer_of(family, config, weights, device, dtype)
    except ModelError as error:
        raise error.in_file(file) from None
    except ValueError as error:
        raise ModelError(f"weights and configuration do not fit: {error}", file=str(folder.checkpoint)) from None
    _check_vocabulary(transformer, text, (*before, *after), start, folder)
    most = config.size("max_position_embeddings", SINUSOIDS) if family.positions == "learned" else SINUSOIDS
    pad = config.id("pad_token_id")
    parts = [folder.checkpoint, *(side.rules.subword_file for side in text.sides if side.rules.subword_file)]
    return HuggingFaceRecorder(
        transformer,
        text.sides,
        (before, after),
        start,
        pad=pad if pad is not None else text.unk,
        unk=text.unk,
        max_positions=(most, most),
        name=f"huggingface:{'-'.join(known)}@{_fingerprint(parts, repr((before, after, start)))}",
        languages=known,
        origin=(folder.absolute(), device, dtype),
    )


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


def load_again(name: str, folder: ModelFolder, device: str, dtype: Dtype) -> HuggingFaceRecorder:
    """What a pickled recorder becomes.

    Raises:
        ModelError: the files are no longer the same.
        ValueError: a file is missing or damaged.
    """
    recorder = load_huggingface(folder, device, dtype)
    if recorder.name != name:
        raise ModelError(f"{name} was pickled, but what is there now is {recorder.name}", file=str(folder.root))
    return recorder


def _family(config: Config, root: Path) -> Family:
    """The kind of model that a folder holds.

    Raises:
        ModelError: it is none that can be run here.
    """
    kind = config.kind
    if kind == "mbart":
        path = root / "tokenizer_config.json"
        tokenizer = Config(read_json(path), str(path)).word("tokenizer_class", "") if path.is_file() else ""
        kind = "mbart-50" if tokenizer.startswith("MBart50") else kind
    if kind not in FAMILIES:
        remedy = Remedy("links need an encoder-decoder Transformer; there are: " + ", ".join(sorted(FAMILIES)))
        raise ModelError(f"a model of type {kind or 'unknown'}", file=str(root), remedy=remedy)
    return FAMILIES[kind]


def _languages(folder: ModelFolder) -> tuple[str | None, str | None]:
    """Source and target, as the user says, or the tokenizer's settings."""
    path = folder.root / "tokenizer_config.json"
    saved = Config(read_json(path), str(path)) if path.is_file() else Config({}, str(path))
    source = folder.options.source_lang or saved.word("source_lang", "") or saved.word("src_lang", "")
    target = folder.options.target_lang or saved.word("target_lang", "") or saved.word("tgt_lang", "")
    return source or None, target or None


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


def _fingerprint(files: Iterable[Path], text: str) -> str:
    """Seven hex digits that change whenever a file changes that the links depend on."""
    digest = hashlib.sha256(text.encode())
    for path in files:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:7]
