"""From a model folder's vocabularies and subword models to the pieces of a word."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from align.backends.huggingface.config import Config, read_json, tokenizer_config
from align.backends.huggingface.languages import LANGUAGES
from align.backends.huggingface.tokenizer_json import read_tokenizer
from align.backends.model_toml import ModelOptions
from align.errors import Argument, ModelError, Remedy, shorten
from align.text.detokenize import JOINS, Join
from align.text.preprocess import (
    Preprocessor,
    Segment,
    TextRules,
    sentencepiece_pieces,
    sentencepiece_segmenter,
    subword_nmt_segmenter,
)

Index = Callable[[str], "int | None"]

NUMBERED = {"m2m_100": "nllb", "mbart": "mbart", "mbart-50": "mbart-50", "mt5": None, "t5": None}
"""Kinds of models that may have nothing but a sentencepiece model, and whose languages follow it."""


@dataclass(frozen=True)
class Text:
    """How a model's text is prepared.

    Attributes:
        sides: preprocessing of the source and of the target.
        ids: the number of a special piece, such as a language's, on either side.
        unk: the number of pieces that the model does not know.
        codes: language codes that the model has a piece for, each with that piece.
        rows: the largest number of a piece on either side, and one more.
        special: pieces that are part of no word, by number, on either side.
        known: pieces of the target's words, with their numbers.
        join: what makes tokens of these pieces.
    """

    sides: tuple[Preprocessor, Preprocessor]
    ids: tuple[Index, Index]
    unk: int
    codes: dict[str, str]
    rows: tuple[int, int]
    special: tuple[Mapping[int, str], Mapping[int, str]]
    known: Mapping[str, int]
    join: Join


def read_text_rules(root: Path, kind: str, languages: tuple[str, str], options: ModelOptions) -> Text:
    """The text processing of the model in a folder.

    Args:
        root: the folder.
        kind: of the model, a key of `align.backends.huggingface.families.FAMILIES`.
        languages: of the source and of the target.
        options: case and tokeniser, where they are not what such a model has.

    Raises:
        ModelError: a file is missing or damaged.
    """
    if (root / "merges.txt").is_file() and (root / "vocab-src.json").is_file():
        return _fsmt(root, languages, options)
    if (root / "source.spm").is_file():
        return _marian(root, languages, options)
    if (root / "tokenizer.json").is_file():
        return _tokenizer_json(root, languages, options)
    if (root / "sentencepiece.bpe.model").is_file() and (root / "vocab.json").is_file():
        return _m2m100(root, languages, options)
    for name in ("sentencepiece.bpe.model", "spiece.model"):
        if (root / name).is_file() and kind in NUMBERED:
            return _sentencepiece(root / name, kind, languages, options)
    what = "no vocabulary that can be read (tokenizer.json, or source.spm, target.spm and vocab.json, or merges.txt, "
    what += "vocab-src.json and vocab-tgt.json, or sentencepiece.bpe.model, or spiece.model) in this folder"
    raise ModelError(what, file=str(root))


def _marian(root: Path, languages: tuple[str, str], options: ModelOptions) -> Text:
    source = _vocabulary(root / "vocab.json")
    target = _vocabulary(root / "target_vocab.json") if (root / "target_vocab.json").is_file() else source
    codes = {token[2:-2]: token for token in source if token.startswith(">>") and token.endswith("<<")}
    return _text(
        languages,
        options,
        (sentencepiece_segmenter(root / "source.spm"), sentencepiece_segmenter(root / "target.spm")),
        (source, target),
        codes,
        files=(root / "source.spm", root / "target.spm"),
    )


def _m2m100(root: Path, languages: tuple[str, str], options: ModelOptions) -> Text:
    known = _vocabulary(root / "vocab.json")
    release = tokenizer_config(root).word("language_codes", "m2m100")
    if release not in ("m2m100", "wmt21"):
        what = f"its language_codes are {release}, not one of m2m100, wmt21"
        raise ModelError(what, file=str(root / "tokenizer_config.json"))
    codes = {code: f"__{code}__" for code in LANGUAGES[release].split()}
    known |= {token: len(known) + n for n, token in enumerate(codes.values())}
    path = root / "sentencepiece.bpe.model"
    segment = sentencepiece_segmenter(path)
    return _text(languages, options, (segment, segment), (known, known), codes, files=(path, path))


def _sentencepiece(path: Path, kind: str, languages: tuple[str, str], options: ModelOptions) -> Text:
    """A sentencepiece model whose own numbers are the vocabulary, but for special pieces and languages."""
    segment = sentencepiece_segmenter(path)
    pieces = sentencepiece_pieces(path)
    release = NUMBERED[kind]
    known = {piece: n for n, piece in enumerate(pieces)}
    codes: dict[str, str] = {}
    if release is not None:  # as fairseq has it: four pieces of its own, in place of the model's first three
        codes = {code: code for code in LANGUAGES[release].split()}
        named = ("<s>", "<pad>", "</s>", "<unk>", *pieces[3:], *codes, "<mask>")
        known = {piece: n for n, piece in enumerate(named)}
    return _text(languages, options, (segment, segment), (known, known), codes, files=(path, path))


def _fsmt(root: Path, languages: tuple[str, str], options: ModelOptions) -> Text:
    config = Config(read_json(root / "tokenizer_config.json"), str(root / "tokenizer_config.json"))
    vocabularies = (_vocabulary(root / "vocab-src.json"), _vocabulary(root / "vocab-tgt.json"))
    lower = config.switch("do_lower_case", False)
    segment = subword_nmt_segmenter(root / "merges.txt", (), fastbpe=True)

    def with_end(token: str, first: bool) -> list[str]:
        """Pieces as this vocabulary writes them: a mark at a token's last, not at the others."""
        return [piece[:-2] if piece.endswith("@@") else f"{piece}</w>" for piece in segment(token, first)]

    return _text(
        languages,
        options,
        (with_end, with_end),
        vocabularies,
        {},
        case="lower" if lower else "keep",
        tokenizer="moses-escaped-hyphens",
        subwords="subword-nmt",
        files=(root / "merges.txt", root / "merges.txt"),
        join=lambda pieces: "".join(pieces).replace("</w>", " ").strip(),
    )


def _tokenizer_json(root: Path, languages: tuple[str, str], options: ModelOptions) -> Text:
    path = root / "tokenizer.json"
    tokenizer, pieces, join = read_tokenizer(path)
    known: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
    codes = {token: token for token in sorted(added) if not token.startswith("<")}
    lead = next((lead for lead in ("", " ") if pieces("b a")[len(pieces("b")) :] == pieces(f"{lead}a")), "")

    def segment(token: str, first: bool) -> list[str]:
        return pieces(token if first else lead + token)

    return _text(
        languages, options, (segment, segment), (known, known), codes, files=(path, path), special=added, join=join
    )


def _text(
    languages: tuple[str, str],
    options: ModelOptions,
    segments: tuple[Segment, Segment],
    vocabularies: tuple[dict[str, int], dict[str, int]],
    codes: dict[str, str],
    *,
    files: tuple[Path, Path],
    case: str = "keep",
    tokenizer: str = "none",
    subwords: str = "sentencepiece",
    special: Collection[str] = (),
    join: Join = JOINS["sentencepiece"],
) -> Text:
    if any("<unk>" not in vocabulary for vocabulary in vocabularies):
        raise ModelError("its vocabulary has no <unk>", file=str(files[0].parent))
    unknown = [vocabulary["<unk>"] for vocabulary in vocabularies]
    codes = {code: piece for code, piece in codes.items() if re.fullmatch(r"[\w-]{1,30}", code)}
    hidden = {"<s>", "</s>", "<pad>", "<unk>", "<mask>", *codes.values(), *special}
    sides, known = [], []
    for language, segment, vocabulary, unk, file in zip(languages, segments, vocabularies, unknown, files, strict=True):
        usable = {piece: n for piece, n in vocabulary.items() if piece not in hidden}
        rules = TextRules(language, options.case or case, options.tokenizer or tokenizer, subwords, file)
        sides.append(Preprocessor(rules, partial(_id, usable, unk), segment=segment))
        known.append(usable)
    rows = [max(vocabulary.values()) + 1 for vocabulary in vocabularies]
    ids = (vocabularies[0].get, vocabularies[1].get)
    reserved = [
        {n: piece for piece, n in vocabulary.items() if n not in {unk, *usable.values()}}
        for vocabulary, usable, unk in zip(vocabularies, known, unknown, strict=True)
    ]
    return Text(
        (sides[0], sides[1]),
        ids,
        unknown[0],
        codes,
        (rows[0], rows[1]),
        (reserved[0], reserved[1]),
        known[1],
        join,
    )


def _id(vocabulary: Mapping[str, int], unk: int, piece: str) -> int:
    return vocabulary.get(piece, unk)


def _vocabulary(path: Path) -> dict[str, int]:
    """Pieces and their numbers."""
    content = read_json(path)
    if not all(type(n) is int and 0 <= n < len(content) + 1000 for n in content.values()):
        raise ModelError("not a vocabulary: pieces with a number each", file=str(path))
    return content


def language_piece(text: Text, code: str | None, argument: str, file: str) -> str:
    """The piece that stands for a language.

    Raises:
        ModelError: no language is given, or the model has no piece for it.
    """
    if code in text.codes:
        return text.codes[code]
    near = get_close_matches(code or "", text.codes, n=5, cutoff=0.4) or list(text.codes)[:10]
    remedy = Remedy(f"give {{}}, such as {', '.join(map(shorten, near))}", (Argument(argument),))
    what = "does not say its languages" if code is None else f"has no piece for the language {shorten(code)}"
    raise ModelError(what, file=file, remedy=remedy)
