"""Embeddings of words without context: from a file such as GloVe's, or from a model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import torch

from align.analysis.maps import Inspected, Numbers, membership
from align.analysis.models.translation import TranslationModel
from align.core.errors import DataError, LineError, shorten
from align.core.types import Pair
from align.io.reader import open_lines, read_lines


def read_vectors(lines: Iterable[str], name: str, words: Collection[str]) -> dict[str, Numbers]:
    """Read the vectors of some words `[E]`: a word and its numbers on each line, separated by spaces.

    All lines must have as many numbers as the first; word2vec's first line, two numbers, is skipped.
    """
    vectors: dict[str, Numbers] = {}
    size = 0
    for number, line in enumerate(lines, 1):
        line = line.rstrip(" ")
        if number == 1 and line.count(" ") == 1:
            continue
        size = size or max(2, line.count(" "))
        word, *numbers = line.rsplit(" ", size)  # some words of GloVe's have spaces
        try:
            vector = np.array(numbers, np.float32) if word in words else np.zeros(len(numbers), np.float32)
        except ValueError:
            vector = np.zeros(0, np.float32)
        if len(vector) != size or not np.isfinite(vector).all():
            message = f"expected a word and {size} numbers with spaces between; got {shorten(line, 40)!r}"
            raise LineError(message, file=name, line=number)
        if word in words:
            vectors.setdefault(word, vector)
    if not vectors:
        raise DataError("no word of the text has a vector", file=name)
    return vectors


def vectors_of_file(file: str, sentences: Sequence[Sequence[str]]) -> tuple[list[Numbers], float]:
    """Return the vectors of all words of each sentence `[n, E]`, and the share of words that have one.

    A word's vector is that of its spelling, else of its lower case, else 0.
    """
    forms = {form for words in sentences for word in words for form in (word, word.lower())}
    with open_lines(file) as stream:
        table = read_vectors(read_lines(stream, file), file, forms)
    zeros = np.zeros_like(next(iter(table.values())))
    known = [word in table or word.lower() in table for words in sentences for word in words]
    vectors = [np.stack([table.get(word, table.get(word.lower(), zeros)) for word in words]) for words in sentences]
    return vectors, sum(known) / len(known)


def own_vectors(model: Inspected, pairs: Iterable[Pair]) -> tuple[list[Numbers], str]:
    """Return the mean embeddings of each source word's pieces `[n, E]`, before the first layer, and their origin.

    Embeddings of a translation model exclude positions; those of an encoder like BERT are the input of the first layer.
    The pairs are of one segment each that the model can read; a word without a piece has the vector 0.
    """

    def by_word(vectors: Numbers, words: Sequence[int], count: int) -> Numbers:
        shares = membership(words, count)  # [S, n]
        means: Numbers = (shares / np.maximum(shares.sum(0), 1)).T @ vectors
        return means

    if not isinstance(model, TranslationModel):
        states = filter(None, model.states(pairs))
        means = [by_word(layers[0], tokens.words, len(tokens.text)) for tokens, layers in states]
        return means, "the model's own, with positions"
    embedding = model.recorder.transformer.encoder.embedding
    means = []
    for pair in pairs:
        pieces = model.recorder.encode(pair)
        vectors = embedding.vectors(torch.tensor(pieces.source, device=embedding.pieces.device))
        means.append(by_word(vectors.numpy(force=True), pieces.source_words, len(pair.source)))
    return means, "the model's own"
