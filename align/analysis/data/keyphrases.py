"""Texts with their keyphrases, as in Hulth (2003), and which of their words belong to a phrase."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.core.errors import DataError, shorten
from align.io.reader import open_lines, read_lines

Marks = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Phrase = tuple[str, ...]

TRAIN, DEV, TEST = "train", "dev", "test"
SPLITS = (TRAIN, DEV, TEST)  # parts of the data: for training, for choosing, and for testing

KEYS = ("split", "sentences", "keyphrases")
EXPECTED = '"split" (train, dev or test), "sentences" (lists of words) and "keyphrases" (texts)'
"""Members of a line."""


class Document(NamedTuple):
    """A text in sentences."""

    split: str  # one of SPLITS
    sentences: tuple[tuple[str, ...], ...]  # words of each sentence
    phrases: tuple[Phrase, ...]  # words of each keyphrase, case-folded, without duplicates


def read_keyphrases(name: str, label: str) -> list[Document]:
    """Read JSON lines with `split`, `sentences` (lists of words) and `keyphrases` (words with spaces between).

    Raises:
        DataError: a line is invalid, or a part of the data is missing; names the file and the line.
    """
    documents = []
    with open_lines(name) as stream:
        for number, line in enumerate(read_lines(stream, label), 1):
            try:
                documents.append(_parse(line))
            except ValueError as error:
                raise DataError(str(error), file=label, line=number) from None
    if missing := [split for split in SPLITS if not any(each.split == split and each.sentences for each in documents)]:
        raise DataError(f'no document has the "split" {missing[0]!r}', file=label)
    return documents


def _parse(line: str) -> Document:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"not JSON: {shorten(line, 40)!r}") from None
    members: list[Any] = [record.get(key) if isinstance(record, dict) else None for key in KEYS]
    split, sentences, phrases = members
    lists = [*sentences, phrases] if isinstance(sentences, list) else [None]
    words: list[Any] = [word for words in lists for word in (words if isinstance(words, list) else [None])]
    if split not in SPLITS or not all(isinstance(word, str) and word.strip() for word in words):
        raise ValueError(f"expected {EXPECTED}; got {shorten(line, 40)!r}")
    folded = dict.fromkeys(tuple(phrase.casefold().split()) for phrase in phrases)
    return Document(split, tuple(tuple(words) for words in sentences if words), tuple(filter(None, folded)))


def find_phrases(document: Document) -> tuple[Marks, set[Phrase]]:
    """Find the words that belong to a keyphrase: all its words in sequence in one sentence, ignoring case.

    Returns:
        Whether each word of the document does `[N]`, and the phrases that occur.
    """
    marks: list[Marks] = []
    phrases = set()
    for sentence in document.sentences:
        words = tuple(word.casefold() for word in sentence)
        marked = np.zeros(len(words), bool)
        for phrase in document.phrases:
            for start in (n for n, word in enumerate(words) if word == phrase[0]):
                if words[start : start + len(phrase)] == phrase:
                    marked[start : start + len(phrase)] = True
                    phrases.add(phrase)
        marks.append(marked)
    return np.concatenate([np.zeros(0, bool), *marks]), phrases


def runs(document: Document, marks: Marks) -> set[Phrase]:
    """Return the phrases that marked words form: each run of marked words in a sentence, case-folded.

    Args:
        marks: which words are marked `[N]`.
    """
    phrases: set[Phrase] = set()
    marked = iter(marks)
    for sentence in document.sentences:
        for inside, run in groupby(zip(sentence, marked, strict=False), key=itemgetter(1)):
            if inside:
                phrases.add(tuple(word.casefold() for word, _ in run))
    return phrases


class Corpus:
    """Documents, and all their words in one sequence.

    Attributes:
        documents: the documents, in order.
        file: name of their file for errors.
        gold: whether a word is a key word `[N]`.
        found: how many of each document's phrases occur in it.
    """

    def __init__(self, documents: Sequence[Document], file: str = "") -> None:
        self.documents, self.file = documents, file
        marked = [find_phrases(document) for document in documents]
        self.gold: Marks = np.concatenate([np.zeros(0, bool), *(marks for marks, _ in marked)])
        self.found = [len(found) for _, found in marked]

    @cached_property
    def words(self) -> list[str]:
        """The words, case-folded `[N]`."""
        return [word.casefold() for document in self.documents for sentence in document.sentences for word in sentence]

    @cached_property
    def places(self) -> list[slice]:
        """The range of words of each document."""
        ends = np.cumsum([sum(map(len, document.sentences)) for document in self.documents]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    def numbers(self, split: str) -> list[int]:
        """Return the indices of the documents in a part of the data."""
        return [n for n, document in enumerate(self.documents) if document.split == split]

    def within(self, split: str) -> Marks:
        """Return which words are in a part of the data `[N]`."""
        marks = np.zeros(len(self.gold), bool)
        for n in self.numbers(split):
            marks[self.places[n]] = True
        return marks

    def position_scores(self) -> Doubles:
        """Return a score of each word that is higher the earlier it is in its document `[N]`."""
        return np.concatenate([-np.arange(place.stop - place.start, dtype=float) for place in self.places])

    def tf_idf_scores(self) -> Doubles:
        """Return TF-IDF: frequency in the document, times smoothed inverse frequency in training documents `[N]`."""
        train = self.numbers(TRAIN)
        document_counts = Counter(word for n in train for word in set(self.words[self.places[n]]))
        scores = []
        for place in self.places:
            words = self.words[place]
            counts = Counter(words)
            scores += [counts[word] * (1 + np.log((1 + len(train)) / (1 + document_counts[word]))) for word in words]
        return np.array(scores)
