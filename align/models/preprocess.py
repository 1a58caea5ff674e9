"""Preprocess text as the model does, one of the user's words at a time, so that the word of every piece is known.

A model was trained on text with a certain case, tokenisation and subword segmentation, which its user should not have
to know. Words are composed first and lose invisible characters (`align.core.text.normalize`), as in the training data
of nearly every model; only words in the dictionary of a model of whole words stay as they are.

Moses' rules and subword models look at a word and hardly beyond it: at the first character of the next word (is
`etc.` a sentence's end?), and at whether a word is the sentence's first (no leading blank for sentencepiece). So each
word is processed by itself with these two as its context. That gives the same pieces as the whole sentence would, and
their words are known at once. Words repeat, so most come out of a cache.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast
from unicodedata import category

from align.core.errors import ModelError
from align.core.text import normalize

Tokenize = Callable[[str, bool, str], list[str]]
"""Tokenises a word, given whether it is the first one and a stand-in for the next word ("": none)."""

_familiar = re.compile("[!-ɏ‐-‧‰-⁞€]*").fullmatch  # matches words of Latin letters and common punctuation

_FAMILIAR_LETTERS = "0-9A-Za-zªµºÀ-ÖØ-öø-ɏ"
"""The letters and digits among these according to Moses, so that its rules need not be loaded."""


@cache
def _moses(language: str) -> Any:
    """Return Moses' own rules, imported when a word needs them: that takes longer than aligning a hundred pairs."""
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(lang=language)
    # sacremoses would make a set of thousands of characters each time that it looks at one
    moses.islower = lambda text: all(character in moses.IsLower for character in text)
    moses.isanyalpha = lambda text: any(character in moses.IsAlpha for character in text)
    return moses


def moses_normalizer(language: str) -> Callable[[str], str]:
    """Return a function that normalises punctuation like `FSMTTokenizer` of transformers, by Moses' scripts."""
    from sacremoses import MosesPunctNormalizer

    moses: Any = MosesPunctNormalizer(lang=language)

    def normalize_punctuation(word: str) -> str:
        normal: str = moses.normalize(moses.replace_unicode_punct(word))
        return "".join(character for character in normal if not category(character).startswith("C"))

    return normalize_punctuation


def moses_tokenizer(language: str, escape: bool = False, split_hyphens: bool = False) -> Tokenize:
    """Return a function that tokenises words as Moses does, with the abbreviations of a language.

    It may write `&apos;` for an apostrophe and so on, as Moses' own script does by default, and `a @-@ b` for `a-b`.
    """
    options = {"escape": escape, "aggressive_dash_splits": split_hyphens}
    # The rules that look further than one character only look at full stops, apostrophes, backticks, commas within
    # numbers and, if they are split, hyphens. In words without those, which are most words, letters and digits stay
    # together and any other character is a token; a full stop at the end has a separate rule.
    inner_hyphen, special_hyphen = ("", "-") if split_hyphens else ("-", "")
    is_plain = re.compile(rf"[^\s.'`,\0-\x1f{special_hyphen}]*[,.]?").fullmatch

    def finder(letters: str) -> Callable[[str], list[str]]:
        return re.compile(rf"[{letters}{inner_hyphen}]+\.?|.").findall

    familiar_tokens = finder(_FAMILIAR_LETTERS)
    all_tokens = cache(lambda: finder(_moses(language).IsAlnum))

    def tokenize(word: str, first: bool, following: str) -> list[str]:
        if not is_plain(word):
            context = f"{'' if first else 'A '}{word} {following}"
            return list(_moses(language).tokenize(context, **options))[0 if first else 1 : -1 if following else None]
        tokens = familiar_tokens(word) if _familiar(word) else all_tokens()(word)
        if tokens and tokens[-1][1:].endswith("."):
            ending = _moses(language).handles_nonbreaking_prefixes(f"{tokens[-1]} {following}").split(" ")
            tokens[-1:] = ending[: -1 if following else None]
        return [_moses(language).escape_xml(token) for token in tokens] if escape else tokens

    return tokenize


UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u312f\u3190-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff9f\U00020000-\U0003ffff"
)
"""Ranges of characters of scripts without spaces between words: Chinese, Japanese, Thai and the like."""

Segment = Callable[[str, bool], list[str]]
"""Cuts a token into pieces; the second argument tells whether it is the first one of the sentence."""

CACHED_WORDS = 1 << 16
"""Cached words per side: most of a running text, in about fifteen megabytes; full after some 20,000 lines."""

LASTING = 3 * CACHED_WORDS // 4
"""Words that stay when the cache is full: the first ones of running text are the most frequent."""

LONGEST_BPE = 5_000  # characters of a word that are merged together: the time grows with their square


@dataclass(frozen=True)
class TextRules:
    """How one side's text was prepared for the model."""

    language: str  # code that picks Moses' list of abbreviations, such as "de"
    case: str = "keep"  # "lower" or "keep"
    tokenizer: str = "none"  # a key of TOKENIZERS
    subwords: str = "none"  # a key of SUBWORDS
    subword_file: Path | None = None  # the sentencepiece model or the BPE codes; None if `subwords` is "none"

    def __str__(self) -> str:
        if self.tokenizer == self.subwords == "none" and self.case == "keep":
            return f"{self.language} (as it is: no tokenizer, no subwords)"
        case = "lower case" if self.case == "lower" else "case kept"
        tokens = "no tokenizer" if self.tokenizer == "none" else f"{self.tokenizer} tokens"
        pieces = "no subwords" if self.subwords == "none" else f"{self.subwords} pieces"
        return f"{self.language} ({case}, {tokens}, {pieces})"


def _processor(path: Path | None) -> Any:
    if path is None or not path.is_file():  # sentencepiece would wait for a pipe
        raise ModelError("no such file", file=str(path))
    from sentencepiece import SentencePieceProcessor

    processor: Any = SentencePieceProcessor()
    try:
        processor.load(str(path))
    except (OSError, RuntimeError) as error:
        raise ModelError(f"not a sentencepiece model ({error})", file=str(path)) from None
    return processor


def sentencepiece_pieces(path: Path) -> list[str]:
    """Return the pieces of a sentencepiece model in the order of their ids."""
    processor = _processor(path)
    return [str(processor.id_to_piece(n)) for n in range(processor.get_piece_size())]


def sentencepiece_segmenter(path: Path | None, known: Container[str] = ()) -> Segment:
    """Return a segmenter by a sentencepiece model, trained with a dummy prefix or without."""
    processor = _processor(path)
    blank = "\u2581"
    dummy_prefix = "".join(processor.encode("a", out_type=str)).startswith(blank)

    def segment(token: str, first: bool) -> list[str]:
        return list(processor.encode(token if first or dummy_prefix else blank + token, out_type=str))

    return segment


class _NoCache(dict[str, Any]):
    """A cache that stays empty: words are cached here already, and subword-nmt's own cache grows without bound."""

    def __setitem__(self, key: str, value: Any) -> None:
        pass


def subword_nmt_segmenter(
    path: Path | None, known: Container[str], limited: bool = False, fastbpe: bool = False
) -> Segment:
    """Return a segmenter by subword-nmt's BPE, with `@@` after all but a token's last piece.

    A `limited` one cuts pieces further that are not in the dictionary. subword-nmt's `--vocabulary` does that, with any
    threshold: the dictionary of a text that was cut this way lacks the same pieces. Codes of fastBPE, which have three
    columns, or are known to be its own, are of version 0.2 even without a header.
    """
    from subword_nmt.apply_bpe import BPE

    assert path is not None
    try:
        lines = [line.strip("\r\n ").split(" ") for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n")]
        if all(len(line) == 3 and line[2].isdigit() for line in lines):  # fastBPE adds a count to each pair
            lines, fastbpe = [line[:2] for line in lines], True
        elif any(len(line) != 2 for line in lines):
            raise ValueError
        headed = lines[0][0].startswith("#version:")
        if headed and lines[0] not in (["#version:", "0.1"], ["#version:", "0.2"]):
            raise ValueError
        if fastbpe:
            lines[:headed] = [["#version:", "0.2"]]
        bpe = BPE(io.StringIO("\n".join(map(" ".join, lines))), vocab=known if limited else None)
    except ValueError:
        raise ModelError("not a file of BPE codes (version 0.1 or 0.2, two pieces a line)", file=str(path)) from None
    bpe.cache = _NoCache()

    def segment(token: str, first: bool) -> list[str]:
        try:
            parts = [token[n : n + LONGEST_BPE] for n in range(0, len(token), LONGEST_BPE)]
            return [piece for part in parts for piece in bpe.segment_tokens([part])]
        except RecursionError:  # a word of a thousand merges that is cut further
            return [token]

    return segment


TOKENIZERS: dict[str, Callable[[str], Tokenize]] = {
    "moses": moses_tokenizer,
    "moses-escaped": partial(moses_tokenizer, escape=True),
    "moses-escaped-hyphens": partial(moses_tokenizer, escape=True, split_hyphens=True),
    "none": lambda language: lambda word, first, following: [word],
}
SUBWORDS: dict[str, Callable[[Path | None, Container[str]], Segment]] = {
    "sentencepiece": sentencepiece_segmenter,
    "subword-nmt": subword_nmt_segmenter,
    "subword-nmt-vocabulary": partial(subword_nmt_segmenter, limited=True),
    "none": lambda path, known: lambda token, first: [token],  # whole words, or text already in pieces
}
CASES = ("lower", "keep")


class Preprocessor:
    """Converts one side's words to the model's ids."""

    def __init__(
        self,
        rules: TextRules,
        index: Callable[[str], int],  # id of a piece in the model's dictionary
        known: Container[str] = (),  # pieces of that dictionary
        segment: Segment | None = None,  # in place of the subwords of `rules`
        normalize_further: Callable[[str], str] | None = None,  # of a normalised word, before it is tokenised
    ) -> None:
        self.rules = rules
        self._lower = rules.case == "lower"
        self._context = rules.tokenizer != "none"
        self._tokenize = TOKENIZERS[rules.tokenizer](rules.language)
        self._segment = segment or SUBWORDS[rules.subwords](rules.subword_file, known)
        self._normalize = normalize_further
        self._whole = not segment and rules.tokenizer == rules.subwords == "none"
        self.known = known
        self._index = index
        self._cached: dict[str | tuple[str, bool, str | None], tuple[int, ...]] = {}

    def __call__(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """Return the ids of a sentence's pieces, and the word of each, from 0.

        A word that preprocessing deletes, such as a lone control character, has no id.
        """
        word_ids = list(map(self._cached.get, words))  # of words that are neither first nor depend on the next one
        first = True
        for position, ids in enumerate(word_ids):
            if ids is None or first:
                word_ids[position] = ids = self._word_ids(words, position, first)
                first = first and not ids
        pieces = cast(list[tuple[int, ...]], word_ids)
        return [*chain.from_iterable(pieces)], [word for word, ids in enumerate(pieces) for _ in ids]

    def spell(self, words: Sequence[str]) -> list[list[str]]:
        """Return the pieces of each word of a sentence, as text instead of ids."""
        spelt: list[list[str]] = []
        first = True
        for position, word in enumerate(words):
            spelt.append(self._pieces(word, first, self._following(words, position) or ""))
            first = first and not spelt[-1]
        return spelt

    def _word_ids(self, words: Sequence[str], position: int, first: bool) -> tuple[int, ...]:
        """Return the ids of a word in its context; `first` tells whether no word before it has ids."""
        word, following = words[position], self._following(words, position)
        key = word if following is None and not first else (word, first, following)
        ids = self._cached.get(key)
        if ids is None:
            ids = tuple(map(self._index, self._pieces(word, first, following or "")))
            if len(word) <= 50:  # unsegmented text and noise never repeat
                if len(self._cached) >= CACHED_WORDS:
                    self._cached = dict(islice(self._cached.copy().items(), LASTING))
                self._cached[key] = ids
        return ids

    def _following(self, words: Sequence[str], position: int) -> str | None:
        """Return a stand-in for the next word, "" if there is none, or None if this word's tokens do not depend on it.

        Moses' rules for full stops, and for quotes after them, treat it like any word with the same first character.
        """
        word, ends = normalize(words[position]) if self._context else "", '."' if self._normalize else "."
        if not (self._normalize(word) if self._normalize else word).endswith((".", "'", ends)):
            return None
        first = next((word[0] for n in range(position + 1, len(words)) if (word := normalize(words[n]))), "")
        if not first:
            return ""
        return "a" if first.islower() else "1" if first in "0123456789" else "A"

    def _pieces(self, word: str, first: bool, following: str) -> list[str]:
        pieces: list[str] = []
        if not (self._whole and word in self.known):
            word = normalize(word)
            if not word:
                return []
        if self._normalize:
            word = self._normalize(f"{word} {following}" if following else word).removesuffix(f" {following}")
        for token in self._tokenize(word, first, following):
            pieces += self._segment(token.lower() if self._lower else token, first and not pieces)
        return pieces
