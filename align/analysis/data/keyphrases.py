"""Texts with their keyphrases, as in Hulth (2003), and which of their words belong to a phrase."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from align.analysis.maps import Doubles, Mask
from align.core.errors import DataError, shorten
from align.io.reader import open_lines, read_lines

Phrase = tuple[str, ...]

TRAIN, DEV, TEST = "train", "dev", "test"
SPLITS = (TRAIN, DEV, TEST)  # parts of the data: for training, for choosing, and for testing

EXPECTED = '"split" (train, dev or test), "sentences" (lists of words) and "keyphrases" (texts)'
"""Members of a line."""


class Document(NamedTuple):
    """A text in sentences."""

    split: str  # one of SPLITS
    sentences: tuple[tuple[str, ...], ...]  # words of each sentence
    phrases: tuple[Phrase, ...]  # words of each keyphrase, case-folded, without duplicates


def read_keyphrases(name: str, label: str) -> list[Document]:
    """Read JSON lines with `split`, `sentences` (lists of words) and `keyphrases` (words with spaces between)."""
    documents = []
    with open_lines(name) as stream:
        for number, line in enumerate(read_lines(stream, label), 1):
            try:
                record = json.loads(line)
                split, sentences, phrases = (record[key] for key in ("split", "sentences", "keyphrases"))
                valid = split in SPLITS and all(type(words) is list for words in (sentences, *sentences, phrases))
                # half of a surrogate pair, which JSON may have, cannot be encoded
                valid = valid and all(word.strip().encode() for words in (*sentences, phrases) for word in words)
            except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
                valid = False
            if not valid:
                raise DataError(f"expected {EXPECTED}; got {shorten(line, 40)!r}", file=label, line=number)
            folded = dict.fromkeys(tuple(phrase.casefold().split()) for phrase in phrases)
            kept = tuple(tuple(words) for words in sentences if words)
            documents.append(Document(split, kept, tuple(filter(None, folded))))
    if missing := [split for split in SPLITS if not any(each.split == split and each.sentences for each in documents)]:
        raise DataError(f'no document has the "split" {missing[0]!r}', file=label)
    return documents


def find_phrases(document: Document) -> tuple[Mask, set[Phrase]]:
    """Find the words of keyphrases `[N]`, in sequence in one sentence, and the phrases that occur."""
    marks: list[Mask] = []
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


def runs(document: Document, marks: Mask) -> set[Phrase]:
    """Return the phrases that marked words `[N]` form: each run of them in a sentence, case-folded."""
    phrases: set[Phrase] = set()
    marked = iter(marks)
    for sentence in document.sentences:
        for inside, run in groupby(zip(sentence, marked, strict=False), key=itemgetter(1)):
            if inside:
                phrases.add(tuple(word.casefold() for word, _ in run))
    return phrases


class Corpus:
    """Documents, and all their words in one sequence; `file` names their file in errors."""

    def __init__(self, documents: Sequence[Document], file: str = "") -> None:
        self.documents, self.file = documents, file
        marked = [find_phrases(document) for document in documents]
        self.gold: Mask = np.concatenate([np.zeros(0, bool), *(marks for marks, _ in marked)])  # key words [N]
        self.found = [len(found) for _, found in marked]  # how many of each document's phrases occur in it

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

    def within(self, split: str) -> Mask:
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
