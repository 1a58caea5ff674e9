"""What attention the words of a text receive, and which heads look at key words.

Letters: L layers, H heads, W words of a sentence, N words of all documents, C cells (heads of all layers).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from align.analysis.data.keyphrases import Corpus, Doubles, Marks
from align.analysis.maps import Inspected, Maps, between_words, has_piece
from align.core.types import Pair

MEASURES = ("weights", "norms")

TINY = 1e-12
"""The least share of attention whose logarithm is taken."""


class Received(NamedTuple):
    """What each word gets of its sentence's attention; 1 is an even share.

    Attributes:
        values: of weights, and of norms `[2, N, C]`; 0 for words that the model did not read.
        sentences: where the words of each sentence stand.
        documents: the document of each sentence.
        read: which words the model has read `[N]`.
    """

    values: Doubles
    sentences: list[slice]
    documents: list[int]
    read: Marks


def received(maps: Maps) -> tuple[Doubles, Marks]:
    """What the words of a sentence get of the attention of all words, as a multiple of an even share.

    Norms are taken as shares of all that a piece gets, so that both measures leave the same to special pieces.

    Returns:
        `[2, W, C]`, and which words have pieces `[W]`.
    """
    norms = maps.norms / np.maximum(maps.norms.sum(-1, keepdims=True), TINY)  # [L, H, T, S]
    there = has_piece(maps.columns)
    found = []
    for values in (maps.weights, norms):
        words = between_words(values, maps.rows, maps.columns).words  # [L, H, W, W]
        mean = words[:, :, there].mean(2)  # [L, H, W]
        found.append(mean.reshape(-1, len(there)).T * there.sum())
    return np.array(found, float), there


def read_corpus(model: Inspected, corpus: Corpus) -> Received:
    """What the words of all documents get, a sentence read at a time."""
    sentences = [(n, words) for n, document in enumerate(corpus.documents) for words in document.sentences]
    ends = np.cumsum([len(words) for _, words in sentences]).tolist()
    places = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    layers, heads = model.shape["encoder"]
    values = np.zeros((len(MEASURES), len(corpus.gold), layers * heads))
    read = np.zeros(len(corpus.gold), bool)
    pairs = (Pair(words, (), n) for n, (_, words) in enumerate(sentences, 1))
    for place, reading in zip(places, model.read(pairs, ["encoder"]), strict=True):
        if "encoder" in reading.maps:
            values[:, place], read[place] = received(reading.maps["encoder"])
    return Received(values, places, [n for n, _ in sentences], read)


def relative_attention(values: Doubles, key: Marks) -> Doubles:
    """What key words get on average, less what the rest does `[C]`.

    Args:
        values: of the words of a sentence `[W, C]`.
        key: which of them are key words `[W]`: some are, and some are not.
    """
    difference: Doubles = values[key].mean(0) - values[~key].mean(0)
    return difference


def cross_entropy(values: Doubles, key: Marks) -> Doubles:
    """How far received attention is from one that falls evenly on the key words, and nowhere else, in nats `[C]`.

    Args:
        values: of the words of a sentence `[W, C]`.
        key: which of them are key words `[W]`: some are.
    """
    shares = values / np.maximum(values.sum(0), TINY)
    entropy: Doubles = -np.log(np.maximum(shares[key], TINY)).mean(0)
    return entropy


class HeadSums(NamedTuple):
    """Of documents: sums over their sentences that have key words and others, and how many there are.

    Attributes:
        relative: sums of `relative_attention` `[2, D, C]`.
        entropy: sums of `cross_entropy` `[2, D, C]`.
        even: sums of the cross-entropy of attention that falls evenly on all words `[D]`.
        sentences: `[D]`.
    """

    relative: Doubles
    entropy: Doubles
    even: Doubles
    sentences: Doubles


def sum_heads(corpus: Corpus, found: Received, split: str) -> HeadSums:
    """Both measures of a part of the data."""
    numbers = {n: row for row, n in enumerate(corpus.numbers(split))}
    cells = found.values.shape[2]
    relative, entropy = np.zeros((2, len(MEASURES), len(numbers), cells))
    even, count = np.zeros((2, len(numbers)))
    for place, row in _within(found, numbers):
        there = found.read[place]
        key = corpus.gold[place][there]
        if not key.any() or key.all():
            continue
        for n, values in enumerate(found.values[:, place][:, there]):
            relative[n, row] += relative_attention(values, key)
            entropy[n, row] += cross_entropy(values, key)
        even[row] += np.log(len(key))
        count[row] += 1
    return HeadSums(relative, entropy, even, count)


def _within(found: Received, numbers: dict[int, int]) -> Iterator[tuple[slice, int]]:
    """Where the sentences of some documents stand, and the row of each one's document."""
    for place, document in zip(found.sentences, found.documents, strict=True):
        if document in numbers:
            yield place, numbers[document]
