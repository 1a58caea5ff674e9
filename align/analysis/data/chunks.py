"""Chunks in the format of CoNLL-2000: reading files, and F1 of predicted chunks (Tjong Kim Sang and Buchholz 2000)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from align.analysis.data import blocks
from align.analysis.maps import Counts, Doubles
from align.core.errors import DataError, LineError, shorten
from align.core.text import split_words
from align.io.reader import open_lines, read_lines

OUTSIDE = "O"


class Sentence(NamedTuple):
    """A sentence's words, each with a part of speech and a BIO tag: B-NP, I-NP, O etc."""

    words: tuple[str, ...]
    speech: tuple[str, ...]
    tags: tuple[str, ...]


Span = tuple[int, int, str]  # a chunk: its first word, from 0, the word after its last, and its kind


def read_sentences(name: str) -> list[Sentence]:
    """Read all sentences of a file: word, part of speech and tag on a line, blank lines between."""
    sentences = []
    with open_lines(name) as stream:
        for block in blocks(read_lines(stream, name), name):
            rows = [(number, split_words(line)) for number, line in block]
            for number, fields in rows:
                if len(fields) != 3 or not re.fullmatch(r"O|[BI]-\S+", fields[2]):
                    expected = "expected a word, its part of speech and a tag such as B-NP, I-NP or O"
                    message = f"{expected}; got {shorten(' '.join(fields), 40)!r}"
                    raise LineError(message, file=name, line=number)
            sentences.append(Sentence(*zip(*(fields for _, fields in rows), strict=True)))
    if not sentences:
        raise DataError("no sentence in it", file=name)
    return sentences


def spans(tags: Iterable[str]) -> set[Span]:
    """Return the chunks of a sentence's tags, as conlleval does: an I- after O or another kind begins a chunk."""
    chunks: set[Span] = set()
    start, kind = 0, ""
    for n, tag in enumerate((*tags, OUTSIDE)):
        tag_kind = "" if tag == OUTSIDE else tag[2:]
        if kind and (tag_kind != kind or tag.startswith("B-")):
            chunks.add((start, n, kind))
            kind = ""
        if tag_kind and not kind:
            start, kind = n, tag_kind
    return chunks


def count_chunks(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> Counts:
    """Count correct, predicted and gold chunks of N sentences `[N, 3]`; the correct have the right ends and kind."""
    rows = []
    for gold_tags, found_tags in zip(gold, predicted, strict=True):
        a, b = spans(gold_tags), spans(found_tags)
        rows.append((len(a & b), len(b), len(a)))
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def f1(counts: Counts) -> Doubles:
    """Return F1, 2 correct / (predicted + gold), `[..., 3]` to `[...]`; NaN for 0 / 0."""
    with np.errstate(invalid="ignore"):
        score: Doubles = 2 * counts[..., 0] / (counts[..., 1] + counts[..., 2])
    return score
