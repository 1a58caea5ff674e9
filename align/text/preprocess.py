"""The model's own preprocessing, one of the user's words at a time, so that the word of every piece is known.

A model was trained on text in a certain case, tokenised and cut into subwords in a certain way; its user
should not have to know. Moses' rules and subword models look at a word and hardly beyond it: at the first
character of the next word (is `etc.` a sentence's end?), and at whether a word is the sentence's first (no
leading blank for sentencepiece). So each word is processed by itself with these two as its context. That gives
the same pieces as the whole sentence would, and their words are known at once. Words repeat, so most come out
of a cache.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from align.errors import ModelError
from align.quiet import quietly

Tokenize = Callable[[str, bool, str], list[str]]
"""The tokens of a word, given whether it is the first one and a stand-in for the word that follows ("": none)."""

Segment = Callable[[str, bool], list[str]]
"""The pieces of a token, given whether it is the first one of the sentence."""

CACHED_WORDS = 1 << 15
"""Words kept for each side: most of a running text, in about ten megabytes; full after some ten thousand lines."""

LONGEST_CACHED = 50
"""Letters of a word that is kept: unsegmented text and noise would fill the cache with words that never repeat."""


@dataclass(frozen=True)
class TextRules:
    """How one side's text was prepared for the model.

    Attributes:
        language: code that picks Moses' list of abbreviations, such as "de".
        case: "lower" or "keep".
        tokenizer: a key of TOKENIZERS.
        subwords: a key of SUBWORDS.
        subword_file: the sentencepiece model or the BPE codes; None where `subwords` is "none".
    """

    language: str
    case: str = "keep"
    tokenizer: str = "none"
    subwords: str = "none"
    subword_file: Path | None = None

    def __str__(self) -> str:
        tokens, pieces = self.tokenizer != "none", self.subwords != "none"
        parts = (
            f"{self.tokenizer} tokens" if tokens else "no tokenizer",
            f"{self.subwords} pieces" if pieces else "no subwords",
        )
        case = "lower case, " if self.case == "lower" else "case kept, " if tokens or pieces else "as it is: "
        return f"{self.language} ({case}{', '.join(parts)})"


def moses_tokenizer(language: str, escape: bool = False, split_hyphens: bool = False) -> Tokenize:
    """Moses' tokenizer (sacremoses).

    Args:
        language: picks the list of abbreviations.
        escape: write `&apos;` for an apostrophe and so on, as Moses' own script does by default.
        split_hyphens: write `a @-@ b` for `a-b`, as it does with `-a`.
    """
    with quietly():
        from sacremoses import MosesTokenizer

    moses = MosesTokenizer(lang=language)
    options = {"escape": escape, "aggressive_dash_splits": split_hyphens}
    # The rules that look further than one character only look at full stops, apostrophes, backticks, hyphens and
    # commas within numbers. In words without those, which are most words, letters and digits stay together and any
    # other character is a token.
    is_plain = re.compile(r"[^\s.'`,\-\0-\x1f]*,?").fullmatch
    plain_tokens = re.compile(f"[{moses.IsAlnum}]+|.").findall

    def tokenize(word: str, first: bool, following: str) -> list[str]:
        if is_plain(word):
            return [moses.escape_xml(token) for token in plain_tokens(word)] if escape else plain_tokens(word)
        context = f"{'' if first else 'A '}{word} {following}"
        return list(moses.tokenize(context, **options))[0 if first else 1 : -1 if following else None]

    return tokenize


def no_tokenizer(language: str) -> Tokenize:
    """Each word is a token."""
    return lambda word, first, following: [word]


def sentencepiece_segmenter(path: Path | None, known: Container[str] = ()) -> Segment:
    """Pieces of a sentencepiece model, whether or not it was trained with a dummy prefix.

    Raises:
        ModelError: the file is not such a model.
    """
    with quietly():
        from sentencepiece import SentencePieceProcessor

    processor: Any = SentencePieceProcessor()
    try:
        processor.load(str(path))
    except (OSError, RuntimeError) as error:
        raise ModelError(f"not a sentencepiece model ({error})", file=str(path)) from None
    blank = "\u2581"
    dummy_prefix = "".join(processor.encode("a", out_type=str)).startswith(blank)

    def segment(token: str, first: bool) -> list[str]:
        return list(processor.encode(token if first or dummy_prefix else blank + token, out_type=str))

    return segment


class _Nothing(dict[str, Any]):
    """A cache that keeps nothing: words are cached here already, and subword-nmt's own cache grows without bound."""

    def __setitem__(self, key: str, value: Any) -> None:
        pass


def subword_nmt_segmenter(path: Path | None, known: Container[str], limited: bool = False) -> Segment:
    """Pieces of subword-nmt's BPE, `@@` at each but a token's last; fastBPE's codes give the same.

    Args:
        path: the codes.
        known: the pieces of the model's dictionary.
        limited: whether pieces that it lacks are cut further. That is what subword-nmt's `--vocabulary` does, with any
            threshold: the dictionary of a text that was cut so lacks the same pieces.

    Raises:
        ModelError: the file does not hold BPE codes.
    """
    with quietly():
        from subword_nmt.apply_bpe import BPE

    assert path is not None
    try:
        codes = path.read_text(encoding="utf-8")
        lines = [line.strip("\r\n ").split(" ") for line in codes.rstrip("\n").split("\n")]
        if all(len(line) == 3 and line[2].isdigit() for line in lines):  # fastBPE adds a count to each pair
            codes = "#version: 0.2\n" + "".join(f"{first} {second}\n" for first, second, _ in lines)
        elif any(len(line) != 2 for line in lines):
            raise ValueError
        if lines[0][0].startswith("#version:") and lines[0] not in (["#version:", "0.1"], ["#version:", "0.2"]):
            raise ValueError
        bpe = BPE(io.StringIO(codes), vocab=known if limited else None)
    except ValueError:
        raise ModelError("not a file of BPE codes (version 0.1 or 0.2, two pieces a line)", file=str(path)) from None
    bpe.cache = _Nothing()

    def segment(token: str, first: bool) -> list[str]:
        try:
            return list(bpe.segment_tokens([token]))
        except RecursionError:  # of a word of a thousand merges that is cut further
            return [token]

    return segment


def no_segmenter(path: Path | None, known: Container[str]) -> Segment:
    """Each token is a piece: for models of whole words, and for text that is already in pieces."""
    return lambda token, first: [token]


TOKENIZERS: dict[str, Callable[[str], Tokenize]] = {
    "moses": moses_tokenizer,
    "moses-escaped": partial(moses_tokenizer, escape=True),
    "moses-escaped-hyphens": partial(moses_tokenizer, escape=True, split_hyphens=True),
    "none": no_tokenizer,
}
SUBWORDS: dict[str, Callable[[Path | None, Container[str]], Segment]] = {
    "sentencepiece": sentencepiece_segmenter,
    "subword-nmt": subword_nmt_segmenter,
    "subword-nmt-vocabulary": partial(subword_nmt_segmenter, limited=True),
    "none": no_segmenter,
}
CASES = ("lower", "keep")


class Preprocessor:
    """One side's words to the model's ids.

    Args:
        rules: how the side's text was prepared.
        index: id of a piece in the model's dictionary.
        known: the pieces of that dictionary.

    Attributes:
        rules: the same.

    Raises:
        ValueError: the subword file cannot be read as what `rules` says it is.
    """

    def __init__(self, rules: TextRules, index: Callable[[str], int], known: Container[str] = ()) -> None:
        self.rules = rules
        self._lower = rules.case == "lower"
        self._context = rules.tokenizer != "none"
        self._tokenize = TOKENIZERS[rules.tokenizer](rules.language)
        self._segment = SUBWORDS[rules.subwords](rules.subword_file, known)
        self._index = index
        self._word_ids = lru_cache(maxsize=CACHED_WORDS)(self._new_word_ids)

    def __call__(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """Ids of a sentence's pieces, and for each the word that it is a part of, from 0.

        A word that preprocessing deletes, such as a lone control character, has no id.
        """
        ids: list[int] = []
        owners: list[int] = []
        last = len(words) - 1
        for position, word in enumerate(words):
            following = ""
            if self._context and word.endswith((".", "'")) and position < last:
                following = _stand_in(words[position + 1][:1])
            word_ids = self._word_ids if len(word) <= LONGEST_CACHED else self._new_word_ids
            pieces = word_ids(word, not ids, following)
            ids += pieces
            owners += [position] * len(pieces)
        return ids, owners

    def _new_word_ids(self, word: str, first: bool, following: str) -> tuple[int, ...]:
        ids: list[int] = []
        for token in self._tokenize(word, first, following):
            ids += map(self._index, self._segment(token.lower() if self._lower else token, first and not ids))
        return tuple(ids)


def _stand_in(character: str) -> str:
    """A word that Moses' rules for full stops treat like any word with this first character."""
    if character.islower():
        return "a"
    return "1" if character in "0123456789" else "A"
