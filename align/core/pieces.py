"""Pairs that are given as ids: the pieces that a model has read and generated, whoever cut the text into them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from align.core.errors import PairError, shorten
from align.core.types import Pair, Pieces

WordOf = tuple[int | None, ...]
"""The word of each id, from 0; None for a special piece, which is part of no word."""

BEGINNINGS = ("\u2581", "\u0120")
"""What marks a word's first piece: sentencepiece's blank, and that of BPE of bytes."""

ENDING = "</w>"
"""What marks a word's last piece in FSMT's vocabularies."""

CONTINUED = "@@"
"""What marks each piece but a word's last, by subword-nmt."""


@dataclass(frozen=True, slots=True)
class IdPair(Pair):
    """A pair of which the ids are given; `IdPair.of` makes one.

    Its words are written as the ids of their pieces with commas between, and "-" for a word without a piece.

    Attributes:
        source_ids: as the encoder reads them, special pieces and padding included.
        target_ids: as `generate` has put them out, or without what stands before and after the translation.
        source_words: the word of each; None where each id is a word of its own.
        target_words: likewise.
    """

    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    source_words: WordOf | None
    target_words: WordOf | None

    @classmethod
    def of(
        cls,
        source_ids: Iterable[int],
        target_ids: Iterable[int],
        source_words: Iterable[int | None] | None = None,
        target_words: Iterable[int | None] | None = None,
        id: int = 1,
    ) -> IdPair:
        """A pair out of lists, or of tensors and arrays of one dimension.

        Args:
            source_ids: S ids.
            target_ids: T ids.
            source_words: the word of each of S, from 0, None for special pieces: what `word_ids()` of a tokenizer of
                transformers gives. Without it links count the ids themselves, and special pieces have none.
            target_words: of each of T, likewise.
            id: its number, for messages.

        Raises:
            TypeError: what should be a number is none.
            ValueError: a number below 0, or another number of words than of ids.
        """
        ids = _numbers(source_ids, "source_ids"), _numbers(target_ids, "target_ids")
        words = _words_of(source_words, ids[0], "source_words"), _words_of(target_words, ids[1], "target_words")
        return cls(_spelt(ids[0], words[0]), _spelt(ids[1], words[1]), id, *ids, *words)

    def pieces(
        self, special: tuple[Container[int], Container[int]], pad: int, start: Sequence[int], rows: tuple[int, int]
    ) -> Pieces:
        """What a model reads.

        Args:
            special: ids of source and target that are part of no word.
            pad: the id of padding.
            start: what the model's decoder reads before a target.
            rows: how many ids the model knows on either side.

        Raises:
            PairError: an id that the model does not know; a source without a special piece; or a target that begins
                with others than the model's.
        """
        for name, ids, known in (("source", self.source_ids, rows[0]), ("target", self.target_ids, rows[1])):
            if max(ids, default=0) >= known:
                raise PairError(f"the {name} has id {max(ids):,}, the model has {known:,}, from 0", line=self.id)
        source = [
            (n, -1 if word is None else word)
            for n, word in zip(self.source_ids, _or_each(self.source_words, self.source_ids, special[0]), strict=True)
            if word is not None or n != pad
        ]
        if self.source and all(word >= 0 for _, word in source):
            raise PairError(
                "the source has no special piece, such as </s>: give all that the encoder reads", line=self.id
            )
        words = _or_each(self.target_words, self.target_ids, special[1])
        own = [k for k, word in enumerate(words) if word is not None]
        first, end = (own[0], own[-1] + 1) if own else (0, 0)
        before = [n for n in self.target_ids[:first] if n != pad or n in start][-len(start) :]
        if before and before != list(start[-len(before) :]):
            what = f"the target begins with {before}, the model's with {list(start)}: is this its target language?"
            raise PairError(what, line=self.id)
        return Pieces(
            [n for n, _ in source],
            [word for _, word in source],
            self.target_ids[first:end],
            [-1 if word is None else word for word in words[first:end]],
            (len(self.source), len(self.target)),
        )


def words_of_pieces(pieces: Iterable[str], special: Collection[str] = ()) -> list[int | None]:
    """The word of each piece, by the mark that its tokeniser puts on some of them.

    A word's first piece begins with `\u2581` (sentencepiece) or `\u0120` (BPE of bytes); or its last one ends with
    `</w>` (FSMT); or all but its last one end with `@@` (subword-nmt).

    Args:
        pieces: such as a tokenizer's `convert_ids_to_tokens` gives.
        special: those that are part of no word, such as its `all_special_tokens`.

    Raises:
        ValueError: there are several pieces, and none has such a mark.
    """
    given = list(pieces)
    words = accumulate(_begins([piece for piece in given if piece not in special]), initial=0)
    return [None if piece in special else next(words) for piece in given]


def _begins(pieces: Sequence[str]) -> list[bool]:
    """Whether each piece but the first begins another word."""
    if any(piece.startswith(BEGINNINGS) for piece in pieces):
        return [piece.startswith(BEGINNINGS) for piece in pieces[1:]]
    if any(piece.endswith(ENDING) for piece in pieces):
        return [piece.endswith(ENDING) for piece in pieces[:-1]]
    if any(piece.endswith(CONTINUED) for piece in pieces) or len(pieces) < 2:
        return [not piece.endswith(CONTINUED) for piece in pieces[:-1]]
    raise ValueError(
        f"no piece says where a word begins or ends, by {BEGINNINGS[0]}, {BEGINNINGS[1]}, {ENDING} or {CONTINUED}: "
        "give the word of each, such as a tokenizer's word_ids(), or its offsets to words_of_offsets"
    )


def words_of_offsets(text: str, offsets: Iterable[Sequence[int]]) -> list[int | None]:
    """The word of each piece, by where it is in a text; words are between spaces.

    Args:
        text: the sentence.
        offsets: where each piece begins and ends in it, in characters; special pieces end where they begin.
    """
    starts = [n for n, letter in enumerate(text) if letter not in " \t" and (n == 0 or text[n - 1] in " \t")]
    found: list[int | None] = []
    for begin, end in offsets:
        letters = (n for n in range(begin, len(text)) if text[n] not in " \t")
        found.append(None if begin == end else bisect_right(starts, next(letters, len(text))) - 1)
    return found


def _numbers(ids: Iterable[int], name: str) -> tuple[int, ...]:
    given = ids.tolist() if hasattr(ids, "tolist") else ids
    found = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else None
    if found is None or not all(isinstance(n, int) for n in found):
        raise TypeError(f"{name} is {shorten(repr(ids))}, not a list of whole numbers")
    if min(found, default=0) < 0:
        raise ValueError(f"{name} has {min(found)}; ids are numbers from 0")
    return found


def _words_of(words: Iterable[int | None] | None, ids: Sequence[int], name: str) -> WordOf | None:
    if words is None:
        return None
    found = tuple(words)
    _numbers([word for word in found if word is not None], name)
    if len(found) != len(ids):
        raise ValueError(f"{name} has {len(found):,} items for {len(ids):,} ids")
    return found


def _spelt(ids: Sequence[int], words: WordOf | None) -> tuple[str, ...]:
    if words is None:
        return tuple(map(str, ids))
    spelt: list[list[str]] = [[] for _ in range(max((word for word in words if word is not None), default=-1) + 1)]
    for n, word in zip(ids, words, strict=True):
        if word is not None:
            spelt[word].append(str(n))
    return tuple(",".join(parts) or "-" for parts in spelt)


def _or_each(words: WordOf | None, ids: Sequence[int], special: Container[int]) -> WordOf:
    if words is not None:
        return words
    return tuple(None if n in special else k for k, n in enumerate(ids))
