"""Read the pieces of a model folder and their ids from any of the supported tokenizer files.

Each reader takes time and memory linear in the vocabulary: published ones have up to 256,000 pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from align.core.errors import ModelError, shorten
from align.models.assemble import preprocessor
from align.models.detokenize import JOINS, UNKNOWN, Join
from align.models.huggingface.languages import LANGUAGES
from align.models.huggingface.tokenizer_json import JsonTokenizer
from align.models.model_toml import ModelOptions
from align.models.preprocess import (
    Preprocessor,
    Segment,
    TextRules,
    moses_normalizer,
    sentencepiece_pieces,
    sentencepiece_segmenter,
    subword_nmt_segmenter,
)
from align.models.settings import read_config, read_json, tokenizer_config

SENTENCEPIECE_FILES = ("sentencepiece.bpe.model", "spiece.model")

FOLLOWED_BY_LANGUAGES = {"m2m_100": "nllb", "mbart": "mbart", "mbart-50": "mbart-50"}
"""Kinds of model whose sentencepiece ids are shifted by one, as in fairseq, and followed by these languages."""

SPECIAL = frozenset({"<s>", "</s>", "<pad>", "<unk>", "<mask>"})

CLASSES: Mapping[str, frozenset[str]] = {
    "bart": frozenset({"Bart", "Roberta", "T5", "Barthez"}),
    "fsmt": frozenset({"FSMT", "Marian"}),
    "m2m_100": frozenset({"M2M100", "Nllb"}),
    "marian": frozenset({"Marian"}),
    "mbart": frozenset({"MBart", "MBart50"}),
    "mbart-50": frozenset({"MBart50"}),
    "mt5": frozenset({"T5", "MT5"}),
    "pegasus": frozenset({"Pegasus"}),
    "small100": frozenset({"SMALL100"}),
    "t5": frozenset({"T5", "ByT5", "Roberta"}),
    "umt5": frozenset({"T5"}),
}
"""transformers' tokenizer classes that this module supports, without `Tokenizer` and `TokenizerFast`."""


@dataclass(frozen=True)
class Side:
    """The pieces of one side."""

    segment: Segment  # cuts a word into pieces
    ids: Mapping[str, int]  # the id of every piece, special ones included
    file: Path  # where the pieces come from, for messages and the fingerprint


@dataclass(frozen=True)
class Vocabulary:
    """The pieces of a model."""

    sides: tuple[Side, Side]  # source and target
    special: frozenset[str]  # pieces that belong to no word
    codes: Mapping[str, str]  # the piece of each of the model's language codes
    join: Join = JOINS["sentencepiece"]  # joins the target's pieces into tokens
    # ids before and after a source's pieces, as tokenizer.json adds them; None if it adds none
    surroundings: tuple[Sequence[int], Sequence[int]] | None = None
    case: str = "keep"  # "keep" or "lower"
    tokenizer: str = "none"  # a key of `align.models.preprocess.TOKENIZERS`
    # kind of its pieces: a key of `align.models.preprocess.SUBWORDS`, or "byte"
    subwords: str = "sentencepiece"
    normalized: bool = False  # whether punctuation is normalised by Moses' rules before it is tokenised

    @property
    def unk(self) -> int:
        """The id of unknown pieces."""
        return self.sides[0].ids["<unk>"]

    def of_words(self, side: int) -> dict[str, int]:
        """Return the pieces of a side's words, with their ids."""
        return {piece: n for piece, n in self.sides[side].ids.items() if piece not in self.special}

    def of_no_word(self, side: int) -> dict[int, str]:
        """Return a side's special pieces, by the ids that no piece of a word has."""
        ids = self.sides[side].ids
        of_words = {ids["<unk>"], *self.of_words(side).values()}
        return {ids[piece]: piece for piece in self.special if piece in ids and ids[piece] not in of_words}

    def preprocessor(self, side: int, language: str, options: ModelOptions) -> Preprocessor:
        """Return the text processing of a side."""
        own = self.sides[side]
        case, tokenizer = options.case or self.case, options.tokenizer or self.tokenizer
        rules = TextRules(language, case, tokenizer, self.subwords, own.file)
        normalize = moses_normalizer(language) if self.normalized and not options.tokenizer else None
        return preprocessor(rules, self.of_words(side), own.ids["<unk>"], own.segment, normalize)


def read_vocabulary(root: Path, kind: str) -> Vocabulary:
    """Read the pieces of the model in a folder."""
    name = tokenizer_class(root)

    def has(*files: str) -> bool:
        return all((root / file).is_file() for file in files)

    if has("merges.txt", "vocab-src.json"):
        vocabulary = _read_fsmt(root, kind)
    elif has("source.spm"):
        vocabulary = _read_marian(root, kind)
    elif name == "ByT5":
        vocabulary = _read_bytes(root)
    elif has("tokenizer.json"):
        vocabulary = _read_tokenizer_json(root / "tokenizer.json", kind)
    elif has("sentencepiece.bpe.model", "vocab.json"):
        vocabulary = _read_m2m100(root, kind)
    elif any(map(has, SENTENCEPIECE_FILES)) and kind in (*FOLLOWED_BY_LANGUAGES, "t5", "mt5", "umt5", "pegasus"):
        vocabulary = _read_sentencepiece(root, kind)
    else:
        message = "no vocabulary that can be read (tokenizer.json, or source.spm, target.spm and vocab.json, or "
        message += "merges.txt, vocab-src.json and vocab-tgt.json, or sentencepiece.bpe.model, or spiece.model) in this"
        hint = "save_pretrained() of transformers' AutoTokenizer writes tokenizer.json"
        raise ModelError(f"{message} folder", file=str(root), hint=hint)
    # A tokenizer.json of these kinds adds only its own marks around a source, not a language; they are checked.
    has_marks = kind in ("bart", "pegasus", "t5", "mt5", "umt5") and vocabulary.surroundings is not None
    generic = ("", "PreTrained", "TokenizersBackend", "SentencePieceBackend", "PythonBackend")
    if name not in (*generic, *CLASSES[kind]) and not has_marks:
        known = " or ".join(f"{name}Tokenizer" for name in sorted(CLASSES[kind]))
        message = f"its tokenizer is {shorten(name)}Tokenizer; with a model of type {kind}, only {known} is read"
        raise ModelError(message, file=tokenizer_config(root).file)
    if not all("<unk>" in side.ids for side in vocabulary.sides):
        raise ModelError("its vocabulary has no <unk>", file=str(root))
    return vocabulary


def tokenizer_class(root: Path) -> str:
    """Return the tokenizer's class, without `Tokenizer` or `TokenizerFast`; empty if the files name none."""
    path, name = root / "config.json", tokenizer_config(root).word("tokenizer_class", "")
    if not name and path.is_file():  # optional for an adapter
        name = read_config(path).word("tokenizer_class", "")
    return re.sub(r"Tokenizer(Fast)?$", "", name)


def read_added_tokens(root: Path) -> tuple[dict[str, int], set[str]]:
    """Return the tokens that files define in addition to a vocabulary, with their ids, and those that are no text.

    They are added_tokens.json, and added_tokens_decoder of tokenizer_config.json, which also marks special tokens.
    """
    settings, path = tokenizer_config(root), root / "added_tokens.json"
    ids = _read_ids(path) if path.is_file() else {}
    # language codes, and marks such as `</s>`
    special = {
        token for token in ids if re.fullmatch(r"<[^<> ]+>|>>[\w-]+<<|__[\w-]+__|[a-z]{2,3}_[A-Z][A-Za-z]{1,3}", token)
    }
    if ids:  # the settings list special tokens: the usual ones, and languages, as in NLLB
        path = root / "special_tokens_map.json"
        for content in (read_json(path) if path.is_file() else {}, settings.content):
            for name in ("additional_special_tokens", "extra_special_tokens"):
                listed = content.get(name)
                for token in listed if isinstance(listed, list) else ():
                    text = token.get("content") if isinstance(token, dict) else token
                    if isinstance(text, str) and text in ids:
                        special.add(text)
    try:
        for number, token in settings.inner("added_tokens_decoder").content.items():
            content = token["content"]
            ids[content] = int(number)
            (special.add if token.get("special") is True else special.discard)(content)
        return _checked(ids, root), special
    except (TypeError, KeyError, ValueError):
        raise ModelError("its added tokens are not tokens by number", file=str(root)) from None


def _checked(content: Mapping[str, Any], path: Path) -> dict[str, int]:
    """Check that an object maps pieces to ids, and return it."""
    if not all(type(piece) is str and type(n) is int and 0 <= n < 1 << 31 for piece, n in content.items()):
        raise ModelError("not a vocabulary: pieces with a number each", file=str(path))
    return dict(content)


def _read_ids(path: Path) -> dict[str, int]:
    """Read a vocab.json."""
    return _checked(read_json(path), path)


def language_codes(kind: str, ids: Iterable[str], special: Iterable[str]) -> dict[str, str]:
    """Return the piece of each language code of a model, by the form of language pieces in models of its kind."""
    if kind == "marian":
        pieces, form = ids, r">>([\w-]{1,30})<<"
    elif kind in ("t5", "mt5", "umt5"):
        pieces, form = sorted(ids), r"<2(\w[\w-]{0,29})>"
    elif kind in ("m2m_100", "small100", "mbart", "mbart-50"):  # `deu_Latn`, `de_DE`, or `__de__` for `de`
        pieces, form = sorted(special), r"(?:__)?((?!_)[\w-]{1,30}?)(?:__)?"
    else:
        return {}
    match = re.compile(form).fullmatch
    return {found[1]: piece for piece in pieces if (found := match(piece))}


def _vocabulary(root: Path, kind: str, sides: Sequence[Side], known: Iterable[str] = ()) -> Vocabulary:
    """Return a vocabulary of the pieces that a file or a rule numbers, and of added tokens."""
    added, added_special = read_added_tokens(root)
    taken, text = set(added.values()), [token for token in added if token and token not in added_special]
    merged = {}  # one object if both sides share a vocabulary
    for side in sides:  # without computed pieces whose ids belong to added tokens
        own = {piece: n for piece, n in side.ids.items() if n not in taken or added.get(piece) == n}
        merged[id(side.ids)] = {**own, **added}
    source, target = (Side(_splitting_at(text, side.segment), merged[id(side.ids)], side.file) for side in sides)
    special = {*SPECIAL, *known, *added_special}
    codes = language_codes(kind, source.ids, special)
    return Vocabulary((source, target), frozenset({*special, *codes.values()}), codes)


def _splitting_at(tokens: Sequence[str], segment: Segment) -> Segment:
    """Return a segmenter like `segment` that also makes each added token one piece, at any place in a word."""
    if not tokens:
        return segment
    split = re.compile("({})".format("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))))).split
    known = frozenset(tokens)

    def with_tokens(word: str, first: bool) -> list[str]:
        parts = [part for part in split(word) if part]
        cut = ([part] if part in known else segment(part, first or n > 0) for n, part in enumerate(parts))
        return [piece for pieces in cut for piece in pieces]

    return with_tokens


def _read_marian(root: Path, kind: str) -> Vocabulary:
    source = target = _read_ids(root / "vocab.json")
    if (root / "target_vocab.json").is_file():
        target = _read_ids(root / "target_vocab.json")
    files = root / "source.spm", root / "target.spm"
    sides = zip(map(sentencepiece_segmenter, files), (source, target), files, strict=True)
    return _vocabulary(root, kind, [Side(*parts) for parts in sides])


def _read_m2m100(root: Path, kind: str) -> Vocabulary:
    ids = _read_ids(root / "vocab.json")
    release = tokenizer_config(root).word("language_codes", "m2m100")
    if release not in ("m2m100", "wmt21"):
        message = f"its language_codes are {release}, not one of m2m100, wmt21"
        raise ModelError(message, file=str(root / "tokenizer_config.json"))
    languages = [f"__{code}__" for code in LANGUAGES[release].split()]
    ids |= {piece: len(ids) + n for n, piece in enumerate(languages)}
    path = root / "sentencepiece.bpe.model"
    side = Side(sentencepiece_segmenter(path), ids, path)
    return _vocabulary(root, kind, [side, side], languages)


def _read_sentencepiece(root: Path, kind: str) -> Vocabulary:
    """Read a sentencepiece model that numbers its pieces itself, except for special pieces and languages."""
    path = next(root / name for name in SENTENCEPIECE_FILES if (root / name).is_file())
    pieces = sentencepiece_pieces(path)
    languages: list[str] = []
    if kind in FOLLOWED_BY_LANGUAGES:  # as in fairseq: four special pieces replace the model's first three
        languages = LANGUAGES[FOLLOWED_BY_LANGUAGES[kind]].split()
        pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:], *languages, "<mask>"]
    ids = {piece: n for n, piece in enumerate(pieces)}
    if kind == "pegasus":  # after `<pad>` and `</s>` it has masks of pre-training
        ids = {piece: n if n < 2 else n + 103 for piece, n in ids.items()}
    side = Side(sentencepiece_segmenter(path), ids, path)
    return _vocabulary(root, kind, [side, side], languages)


def _read_fsmt(root: Path, kind: str) -> Vocabulary:
    path = root / "merges.txt"
    segment = subword_nmt_segmenter(path, (), fastbpe=True)

    def with_end(token: str, first: bool) -> list[str]:
        """Return pieces as this vocabulary writes them: marked at a token's last, not at the others."""
        return [piece[:-2] if piece.endswith("@@") else f"{piece}</w>" for piece in segment(token, first)]

    sides = [Side(with_end, _read_ids(root / f"vocab-{name}.json"), path) for name in ("src", "tgt")]
    return replace(
        _vocabulary(root, kind, sides),
        join=lambda pieces: "".join(pieces).replace("</w>", " ").strip(),
        case="lower" if tokenizer_config(root).switch("do_lower_case", False) else "keep",
        tokenizer="moses-escaped-hyphens",
        subwords="subword-nmt",
        normalized=True,
    )


def _read_bytes(root: Path) -> Vocabulary:
    """Return the vocabulary of ByT5, whose pieces are the bytes of UTF-8; it has no file."""

    def segment(word: str, first: bool) -> list[str]:
        return list((word if first else f" {word}").encode("utf-8", "surrogatepass").decode("latin-1"))

    def join(pieces: Sequence[str]) -> str:
        content = b"".join(piece.encode("utf-8" if piece == UNKNOWN else "latin-1") for piece in pieces)
        return content.decode("utf-8", "ignore")

    ids = {piece: n for n, piece in enumerate(["<pad>", "</s>", "<unk>", *map(chr, range(256))])}
    side = Side(segment, ids, root / "tokenizer_config.json")
    return Vocabulary((side, side), SPECIAL, {}, join, subwords="byte")


def _read_tokenizer_json(path: Path, kind: str) -> Vocabulary:
    tokenizer = JsonTokenizer(path)
    pieces = tokenizer.pieces
    lead = next((lead for lead in ("", " ") if pieces("b a")[len(pieces("b")) :] == pieces(f"{lead}a")), "")
    side = Side(lambda token, first: pieces(token if first else lead + token), tokenizer.ids, path)
    codes = language_codes(kind, tokenizer.ids, tokenizer.special)
    special = frozenset({*SPECIAL, *tokenizer.special, *codes.values()})
    return Vocabulary((side, side), special, codes, tokenizer.join, tokenizer.surroundings)
