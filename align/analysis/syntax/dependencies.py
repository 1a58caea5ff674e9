"""Attention heads as parsers: predicts the most attended word as the syntactic head (Clark et al. 2019, 4.2).

Letters: C heads of all layers, n words, N sentences, R relations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from align.analysis.data.treebank import ROOT, Tree
from align.analysis.maps import Inspected, Numbers, between_words, has_piece, measured
from align.analysis.resampling import Counts
from align.core.types import Part

DIRECTIONS = ("d>h", "h>d")
"""Direction of attention: from dependent to head, or from head to dependent."""

OFFSETS = (*range(-5, 0), *range(1, 6))
"""Offsets in words from a word to its head, for the positional baseline."""

ALL = "all"
"""Name of all relations together, which come first; a treebank may have a relation of this name as well."""


@dataclass(frozen=True)
class Parsed:
    """A sentence with its tree and the encoder's attention between its words.

    Attributes:
        tree: the dependency tree.
        attention: attention from each word to each word, by measure `[C, n, n]`.
        there: words that have a piece, and so can attend and be attended to `[n]`.
    """

    tree: Tree
    attention: Mapping[str, Numbers]
    there: NDArray[np.bool_]


def attend(model: Inspected, trees: Sequence[Tree]) -> Iterator[Parsed]:
    """Yield the encoder's attention for each sentence that the model can read."""
    parts: tuple[Part, ...] = ("encoder",)
    for tree, reading in zip(trees, model.read((tree.pair() for tree in trees), parts), strict=True):
        if maps := reading.maps.get("encoder"):
            n = len(tree.words)
            attention = {
                name: between_words(values, maps.rows, maps.columns).words.reshape(-1, n, n)
                for name, values in measured(maps).items()
            }
            yield Parsed(tree, attention, has_piece(maps.rows))


def predict(attention: Numbers, there: NDArray[np.bool_]) -> Counts:
    """Predict the head of each word with each attention head, in both directions; never the word itself.

    Args:
        attention: `[C, n, n]`.
        there: words that have a piece `[n]`.

    Returns:
        `[2C, n]`: for C heads the word that each word attends to most, then the word that attends to it most; -1 for
        words without a piece.
    """
    attention = np.where(np.eye(attention.shape[1], dtype=bool) | ~there | ~there[:, None], -1, attention)
    predicted = np.concatenate((attention.argmax(2), attention.argmax(1)))  # [2C, n]
    return np.where(there, predicted, -1)


def by_offset(words: int) -> Counts:
    """Predict the head of each of n words by each of OFFSETS `[O, n]`; it may be outside the sentence."""
    offsets: Counts = np.arange(words) + np.array(OFFSETS)[:, None]
    return offsets


@dataclass(frozen=True)
class Found:
    """Number of words of each relation whose heads are predicted correctly.

    Attributes:
        relations: R names: ALL, then the most frequent first.
        total: number of words of each relation in each sentence `[N, R]`.
        right: number of words whose head each candidate predicts, by measure `[N, R, 2C]`, and by "offset" `[N, R, O]`.
    """

    relations: Sequence[str]
    total: Counts
    right: Mapping[str, Counts]


def find(parsed: Sequence[Parsed], fewest: int) -> Found:
    """Count the correct predictions of each candidate.

    Args:
        parsed: N sentences.
        fewest: minimum number of words of a relation that is counted separately; the relation to the root is not
            counted.
    """
    counts = Counter(relation for sentence in parsed for relation in _relations(sentence.tree))
    by_frequency = sorted(counts, key=lambda name: (-counts[name], name))
    relations = [ALL, *(name for name in by_frequency if counts[name] >= fewest)]
    total = np.zeros((len(parsed), len(relations)), np.int64)
    candidates = {name: 2 * len(values) for name, values in parsed[0].attention.items()} | {"offset": len(OFFSETS)}
    right = {name: np.zeros((*total.shape, count), np.int64) for name, count in candidates.items()}
    for n, sentence in enumerate(parsed):
        heads = np.array(sentence.tree.heads)
        predicted = {name: predict(values, sentence.there) for name, values in sentence.attention.items()}
        predicted["offset"] = by_offset(len(heads))
        labels = np.array(sentence.tree.relations)
        for r, relation in enumerate(relations):
            counted = (heads != ROOT) & ((labels == relation) | (r == 0))
            total[n, r] = counted.sum()
            for name, guesses in predicted.items():
                right[name][n, r] = (guesses == heads)[:, counted].sum(1)
    return Found(relations, total, right)


def _relations(tree: Tree) -> list[str]:
    """Return the relations of all words that have a head."""
    return [relation for relation, head in zip(tree.relations, tree.heads, strict=True) if head != ROOT]
