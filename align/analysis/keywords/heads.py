"""Measures the attention that words of a text receive, and which heads attend to key words.

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
"""Lower bound of shares of attention before their logarithm is taken."""


class Received(NamedTuple):
    """Attention that each word receives within its sentence, as a multiple of an even share.

    Attributes:
        values: by weights and by norms `[2, N, C]`; 0 for words that the model did not read.
        sentences: positions of the words of each sentence.
        documents: the document of each sentence.
        read: words that the model has read `[N]`.
    """

    values: Doubles
    sentences: list[slice]
    documents: list[int]
    read: Marks


def received(maps: Maps) -> tuple[Doubles, Marks]:
    """Return the attention that each word of a sentence receives from all words, as a multiple of an even share.

    Norms are divided by their sum over each row, so that both measures treat special pieces in the same way.

    Returns:
        Attention `[2, W, C]`, and which words have pieces `[W]`.
    """
    norms = maps.norms / np.maximum(maps.norms.sum(-1, keepdims=True), TINY)  # [L, H, T, S]
    there = has_piece(maps.columns)
    measures = []
    for values in (maps.weights, norms):
        words = between_words(values, maps.rows, maps.columns).words  # [L, H, W, W]
        mean = words[:, :, there].mean(2)  # [L, H, W]
        measures.append(mean.reshape(-1, len(there)).T * there.sum())
    return np.array(measures, float), there


def read_corpus(model: Inspected, corpus: Corpus) -> Received:
    """Read all documents, one sentence at a time, and return the attention that their words receive."""
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
    """Return the mean attention of key words minus that of other words `[C]`.

    Args:
        values: attention that the words of a sentence receive `[W, C]`.
        key: key words `[W]`; at least one word is a key word, and at least one is not.
    """
    difference: Doubles = values[key].mean(0) - values[~key].mean(0)
    return difference


def cross_entropy(values: Doubles, key: Marks) -> Doubles:
    """Return the cross-entropy of received attention with an even distribution over the key words, in nats `[C]`.

    Args:
        values: attention that the words of a sentence receive `[W, C]`.
        key: key words `[W]`; at least one.
    """
    shares = values / np.maximum(values.sum(0), TINY)
    entropy: Doubles = -np.log(np.maximum(shares[key], TINY)).mean(0)
    return entropy


class HeadSums(NamedTuple):
    """Sums over the sentences of each of D documents that have both key words and other words.

    Attributes:
        relative: sums of `relative_attention` `[2, D, C]`.
        entropy: sums of `cross_entropy` `[2, D, C]`.
        even: sums of the cross-entropy of attention spread evenly over all words `[D]`.
        sentences: number of these sentences `[D]`.
    """

    relative: Doubles
    entropy: Doubles
    even: Doubles
    sentences: Doubles


def sum_heads(corpus: Corpus, received: Received, split: str) -> HeadSums:
    """Sum both measures over a part of the data."""
    numbers = {n: row for row, n in enumerate(corpus.numbers(split))}
    cells = received.values.shape[2]
    relative, entropy = np.zeros((2, len(MEASURES), len(numbers), cells))
    even, count = np.zeros((2, len(numbers)))
    for place, row in _within(received, numbers):
        there = received.read[place]
        key = corpus.gold[place][there]
        if not key.any() or key.all():
            continue
        for n, values in enumerate(received.values[:, place][:, there]):
            relative[n, row] += relative_attention(values, key)
            entropy[n, row] += cross_entropy(values, key)
        even[row] += np.log(len(key))
        count[row] += 1
    return HeadSums(relative, entropy, even, count)


def _within(attention: Received, numbers: dict[int, int]) -> Iterator[tuple[slice, int]]:
    """Yield the position of each sentence of some documents, and the row of its document."""
    for place, document in zip(attention.sentences, attention.documents, strict=True):
        if document in numbers:
            yield place, numbers[document]
