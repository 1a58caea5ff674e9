"""Read pairs given as piece ids: return the model's input and the word of each piece."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from align.core.errors import ModelError, PairError, plural, shorten
from align.core.text import IdPair, WordOf
from align.core.types import Pieces
from align.models.languages import find_language

BEGINNINGS = ("\u2581", "\u0120")  # marks of a word's first piece, in sentencepiece and in byte-level BPE
ENDING = "</w>"  # mark of a word's last piece in FSMT's vocabularies

TAG = re.compile(r"(>>[\w-]+<<|<2[\w-]+>)(.*)", re.DOTALL)
"""Matches a word that begins with a tag for the target language, as in the text of OPUS-MT and MADLAD-400 models."""

CONTINUED = "@@"  # mark of all but a word's last piece in subword-nmt


def tags_of(ids: Mapping[str, int], language: str | None, file: Path) -> tuple[dict[str, int], list[int]]:
    """Return the ids of an OPUS-MT model's tags, and that of its target language, which a source begins with."""
    tags = {piece: n for piece, n in ids.items() if re.fullmatch(r">>[\w-]+<<", piece)}
    codes = {tag[2:-2]: n for tag, n in tags.items()}
    known = find_language(language, codes) if language else None
    if codes and known is None:
        message = f"a model of {plural(len(codes), 'target language')}, and {shorten(language or 'none')} is given"
        raise ModelError(message, file=str(file), hint=f"give ‹target_lang›, such as {shorten(min(codes))}")
    return tags, [codes[known]] if known else []


def pieces_of(
    pair: IdPair, special: tuple[Container[int], Container[int]], pad: int, start: Sequence[int], rows: tuple[int, int]
) -> Pieces:
    """Return the pieces that a model reads for a pair given as ids.

    `special` are ids of source and target that belong to no word, `start` those that the decoder reads before
    a target, `rows` the sizes of the vocabularies.
    """
    for name, ids, known in (("source", pair.source_ids, rows[0]), ("target", pair.target_ids, rows[1])):
        if max(ids, default=0) >= known:
            raise PairError(f"the {name} has id {max(ids):,}, the model has {known:,}, from 0", line=pair.id)
    source = [
        (n, -1 if word is None else word)
        for n, word in zip(pair.source_ids, _or_each(pair.source_words, pair.source_ids, special[0]), strict=True)
        if word is not None or n != pad
    ]
    if pair.source and all(word >= 0 for _, word in source):
        raise PairError("the source has no special piece, such as </s>: give all that the encoder reads", line=pair.id)
    words = _or_each(pair.target_words, pair.target_ids, special[1])
    word_places = [k for k, word in enumerate(words) if word is not None]
    first, end = (word_places[0], word_places[-1] + 1) if word_places else (0, 0)
    before = [n for n in pair.target_ids[:first] if n != pad or n in start][-len(start) :]
    if before and before != list(start[-len(before) :]):
        message = f"the target begins with {before}, the model's with {list(start)}: is this its target language?"
        raise PairError(message, line=pair.id)
    return Pieces(
        [n for n, _ in source],
        [word for _, word in source],
        pair.target_ids[first:end],
        [-1 if word is None else word for word in words[first:end]],
        (len(pair.source), len(pair.target)),
    )


def _or_each(words: WordOf | None, ids: Sequence[int], special: Container[int]) -> WordOf:
    if words is not None:
        return words
    return tuple(None if n in special else k for k, n in enumerate(ids))


def words_of_pieces(pieces: Iterable[str], special: Collection[str] = ()) -> list[int | None]:
    """Return the word of each piece, by the marks of its tokenizer.

    A word's first piece begins with `▁` (sentencepiece) or `Ġ` (byte-level BPE), or its last piece ends with `</w>`
    (FSMT), or all but its last piece end with `@@` (subword-nmt).

    Args:
        pieces: as returned by `convert_ids_to_tokens` of a tokenizer.
        special: pieces that belong to no word, such as its `all_special_tokens`.

    Raises:
        ValueError: several pieces, none of which has a mark.
    """
    listed = list(pieces)
    of_words = [piece for piece in listed if piece not in special]
    if any(piece.startswith(BEGINNINGS) for piece in of_words):
        begins = [piece.startswith(BEGINNINGS) for piece in of_words[1:]]
    elif any(piece.endswith(ENDING) for piece in of_words):
        begins = [piece.endswith(ENDING) for piece in of_words[:-1]]
    elif any(piece.endswith(CONTINUED) for piece in of_words) or len(of_words) < 2:
        begins = [not piece.endswith(CONTINUED) for piece in of_words[:-1]]
    else:
        raise ValueError(
            f"no piece says where a word begins or ends, by {BEGINNINGS[0]}, {BEGINNINGS[1]}, {ENDING} or {CONTINUED}: "
            "give the word of each, such as a tokenizer's word_ids(), or its offsets to words_of_offsets"
        )
    words = accumulate(begins, initial=0)
    return [None if piece in special else next(words) for piece in listed]


def words_of_offsets(text: str, offsets: Iterable[Sequence[int]]) -> list[int | None]:
    """Return the word of each piece, by its place in a text whose words are between spaces.

    Args:
        text: the sentence.
        offsets: first character of each piece and the one after its last; special pieces are empty.
    """
    starts = [n for n, letter in enumerate(text) if letter not in " \t" and (n == 0 or text[n - 1] in " \t")]
    words: list[int | None] = []
    for begin, end in offsets:
        letters = (n for n in range(begin, len(text)) if text[n] not in " \t")
        words.append(None if begin == end else bisect_right(starts, next(letters, len(text))) - 1)
    return words
