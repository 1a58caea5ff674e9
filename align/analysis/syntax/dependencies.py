"""Heads of attention that find heads of words: the most attended word as the syntactic head (Clark et al. 2019, 4.2).

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
"""Who attends: the dependent to its head, or the head to its dependent."""

OFFSETS = (*range(-5, 0), *range(1, 6))
"""How far behind a word its head is taken to stand, for a baseline."""

ALL = "all"
"""The relations together, the first of all: a treebank may have a relation of this name as well."""


@dataclass(frozen=True)
class Parsed:
    """A sentence with its tree and the encoder's attention between its words.

    Attributes:
        tree: the sentence.
        attention: by measure, from each word to each `[C, n, n]`.
        there: which words have a piece, and so attend and are attended to `[n]`.
    """

    tree: Tree
    attention: Mapping[str, Numbers]
    there: NDArray[np.bool_]


def attend(model: Inspected, trees: Sequence[Tree]) -> Iterator[Parsed]:
    """The attention to each sentence that the model can read."""
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
    """The head of each word by each attention head in both directions: never the word itself.

    Args:
        attention: `[C, n, n]`.
        there: which words have a piece `[n]`.

    Returns:
        `[2C, n]`: the word that each attends to most, by C heads, then the one by which each is attended to most; -1
        for words without a piece.
    """
    attention = np.where(np.eye(attention.shape[1], dtype=bool) | ~there | ~there[:, None], -1, attention)
    predicted = np.concatenate((attention.argmax(2), attention.argmax(1)))  # [2C, n]
    return np.where(there, predicted, -1)


def by_offset(words: int) -> Counts:
    """The head of each of n words by each of OFFSETS `[O, n]`, which may be outside the sentence."""
    offsets: Counts = np.arange(words) + np.array(OFFSETS)[:, None]
    return offsets


@dataclass(frozen=True)
class Found:
    """How many words of each relation find their heads.

    Attributes:
        relations: R names, the most frequent first, behind ALL.
        total: words of each in each sentence `[N, R]`.
        right: those of which each candidate finds the head, by measure `[N, R, 2C]`, and by "offset" `[N, R, O]`.
    """

    relations: Sequence[str]
    total: Counts
    right: Mapping[str, Counts]


def find(parsed: Sequence[Parsed], fewest: int) -> Found:
    """Count what each candidate finds.

    Args:
        parsed: N sentences.
        fewest: of a relation that is counted by itself; that to the root is none.
    """
    counts = Counter(relation for one in parsed for relation in _relations(one.tree))
    often = sorted(counts, key=lambda name: (-counts[name], name))
    relations = [ALL, *(name for name in often if counts[name] >= fewest)]
    total = np.zeros((len(parsed), len(relations)), np.int64)
    candidates = {name: 2 * len(values) for name, values in parsed[0].attention.items()} | {"offset": len(OFFSETS)}
    right = {name: np.zeros((*total.shape, count), np.int64) for name, count in candidates.items()}
    for n, one in enumerate(parsed):
        heads = np.array(one.tree.heads)
        predicted = {name: predict(values, one.there) for name, values in one.attention.items()}
        predicted["offset"] = by_offset(len(heads))
        labels = np.array(one.tree.relations)
        for r, relation in enumerate(relations):
            these = (heads != ROOT) & ((labels == relation) | (r == 0))
            total[n, r] = these.sum()
            for name, guesses in predicted.items():
                right[name][n, r] = (guesses == heads)[:, these].sum(1)
    return Found(relations, total, right)


def _relations(tree: Tree) -> list[str]:
    """Of all words but those without a head."""
    return [relation for relation, head in zip(tree.relations, tree.heads, strict=True) if head != ROOT]
