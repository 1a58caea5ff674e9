"""Read the pieces of a model folder and their ids from any of the supported tokenizer files.

Each reader takes time and memory linear in the vocabulary: published ones have up to 256,000 pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from align.core.errors import ModelError, shorten
from align.models.assemble import preprocessor
from align.models.detokenize import JOINS, UNKNOWN, Join
from align.models.huggingface.families import FAMILIES, SPECIAL_CODE, T5, Family
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

SPECIAL = frozenset({"<s>", "</s>", "<pad>", "<unk>", "<mask>"})

ADDED_SPECIAL = re.compile(r"<[^<> ]+>|>>[\w-]+<<|__[\w-]+__|[a-z]{2,3}_[A-Z][A-Za-z]{1,3}").fullmatch
"""Matches added tokens that are no text: marks such as `</s>`, and languages."""


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
        normalized = self.subwords == "subword-nmt" and not options.tokenizer  # by the tokenizer of FSMT models
        normalize = moses_normalizer(language) if normalized else None
        return preprocessor(rules, self.of_words(side), own.ids["<unk>"], own.segment, normalize)


def read_vocabulary(root: Path, kind: str) -> Vocabulary:
    """Read the pieces of the model in a folder."""
    name, family = tokenizer_class(root), FAMILIES[kind]
    files = [path for path in (root / "sentencepiece.bpe.model", root / "spiece.model") if path.is_file()]
    if (root / "merges.txt").is_file() and (root / "vocab-src.json").is_file():
        vocabulary = _read_fsmt(root, family)
    elif (root / "source.spm").is_file():
        vocabulary = _read_sentencepiece(root / "source.spm", kind)
    elif name == "ByT5":
        vocabulary = _read_bytes(root)
    elif (root / "tokenizer.json").is_file():
        vocabulary = _read_tokenizer_json(root / "tokenizer.json", family)
    elif files and ((root / "vocab.json").is_file() or family.languages or kind == "pegasus" or family is T5):
        vocabulary = _read_sentencepiece(files[0], kind)
    else:
        message = "no vocabulary that can be read (tokenizer.json, or source.spm, target.spm and vocab.json, or "
        message += "merges.txt, vocab-src.json and vocab-tgt.json, or sentencepiece.bpe.model, or spiece.model) in this"
        hint = "save_pretrained() of transformers' AutoTokenizer writes tokenizer.json"
        raise ModelError(f"{message} folder", file=str(root), hint=hint)
    # A tokenizer.json of these kinds adds only its own marks around a source, not a language; they are checked.
    has_marks = (kind in ("bart", "pegasus") or family is T5) and vocabulary.surroundings is not None
    known = family.tokenizers.split()
    generic = ("", "PreTrained", "TokenizersBackend", "SentencePieceBackend", "PythonBackend")
    if name not in (*generic, *known) and not has_marks:
        message = f"its tokenizer is {shorten(name)}Tokenizer; with a model of type {kind}, only "
        message += " or ".join(f"{name}Tokenizer" for name in known)
        raise ModelError(f"{message} is read", file=tokenizer_config(root).file)
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
    special = set(filter(ADDED_SPECIAL, ids))
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


def language_codes(family: Family, ids: Iterable[str], special: Iterable[str]) -> dict[str, str]:
    """Return the piece of each language code of a model, by the form of language pieces in its family."""
    match = re.compile(family.code).fullmatch
    pieces = sorted(filter(match, special if family.code == SPECIAL_CODE else ids)) if family.code else []
    return {found[1]: piece for piece in pieces if (found := match(piece))}


def _vocabulary(
    root: Path, family: Family, sides: Sequence[Side], known: Iterable[str] = (), **more: Any
) -> Vocabulary:
    """Return a vocabulary of the pieces that a file or a rule numbers, and of added tokens."""
    added, added_special = read_added_tokens(root)
    taken, text = set(added.values()), [token for token in added if token and token not in added_special]
    merged = {}  # one object if both sides share a vocabulary
    for side in sides:  # without computed pieces whose ids belong to added tokens
        own = {piece: n for piece, n in side.ids.items() if n not in taken or added.get(piece) == n}
        merged[id(side.ids)] = {**own, **added}
    source, target = (Side(_splitting_at(text, side.segment), merged[id(side.ids)], side.file) for side in sides)
    special = {*SPECIAL, *known, *added_special}
    codes = language_codes(family, source.ids, special)
    return Vocabulary((source, target), frozenset({*special, *codes.values()}), codes, **more)


def _splitting_at(tokens: Sequence[str], segment: Segment) -> Segment:
    """Return a segmenter like `segment` that also makes each added token one piece, at any place in a word."""
    if not tokens:
        return segment
    split = re.compile("({})".format("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))))).split
    known = frozenset(tokens)

    def with_tokens(word: str, first: bool) -> list[str]:
        pieces: list[str] = []
        for n, part in enumerate(filter(None, split(word))):
            pieces += [part] if part in known else segment(part, first or n > 0)
        return pieces

    return with_tokens


def _read_sentencepiece(path: Path, kind: str) -> Vocabulary:
    """Read a sentencepiece model, or one of each side; vocab.json or a rule of the kind numbers their pieces."""
    root, family, languages = path.parent, FAMILIES[kind], list[str]()
    if path.name == "source.spm":
        target, of_target = root / "target.spm", root / "target_vocab.json"
        ids = _read_ids(root / "vocab.json")
        sides = [
            Side(sentencepiece_segmenter(path), ids, path),
            Side(sentencepiece_segmenter(target), _read_ids(of_target) if of_target.is_file() else ids, target),
        ]
        return _vocabulary(root, family, sides)
    if path.name == "sentencepiece.bpe.model" and (root / "vocab.json").is_file():
        ids, settings = _read_ids(root / "vocab.json"), tokenizer_config(root)
        release = settings.one_of("language_codes", ("m2m100", "wmt21"), "m2m100")
        languages = [f"__{code}__" for code in LANGUAGES[release].split()]
        ids |= {piece: len(ids) + n for n, piece in enumerate(languages)}
    else:
        pieces = sentencepiece_pieces(path)
        if family.languages:  # as in fairseq: four special pieces replace the model's first three
            languages = LANGUAGES[family.languages].split()
            pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:], *languages, "<mask>"]
        # Pegasus has masks of pre-training after `<pad>` and `</s>`.
        ids = {piece: n + 103 if kind == "pegasus" and n > 1 else n for n, piece in enumerate(pieces)}
    side = Side(sentencepiece_segmenter(path), ids, path)
    return _vocabulary(root, family, [side, side], languages)


def _read_fsmt(root: Path, family: Family) -> Vocabulary:
    path = root / "merges.txt"
    segment = subword_nmt_segmenter(path, (), fastbpe=True)

    def with_end(token: str, first: bool) -> list[str]:
        """Return pieces as this vocabulary writes them: marked at a token's last, not at the others."""
        return [piece[:-2] if piece.endswith("@@") else f"{piece}</w>" for piece in segment(token, first)]

    return _vocabulary(
        root,
        family,
        [Side(with_end, _read_ids(root / f"vocab-{name}.json"), path) for name in ("src", "tgt")],
        join=lambda pieces: "".join(pieces).replace("</w>", " ").strip(),
        case="lower" if tokenizer_config(root).switch("do_lower_case", False) else "keep",
        tokenizer="moses-escaped-hyphens",
        subwords="subword-nmt",
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


def _read_tokenizer_json(path: Path, family: Family) -> Vocabulary:
    tokenizer = JsonTokenizer(path)
    side = Side(tokenizer.segment, tokenizer.ids, path)
    codes = language_codes(family, tokenizer.ids, tokenizer.special)
    special = frozenset({*SPECIAL, *tokenizer.special, *codes.values()})
    return Vocabulary((side, side), special, codes, tokenizer.join, tokenizer.surroundings)
