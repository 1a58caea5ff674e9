"""Lexical consistency: which layer and head to read, without gold alignments.

Correct links repeat the same word pairs, wrong links scatter. The links with the highest pointwise mutual information,
each link judged by the others, are those of the cell to read.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log

import numpy as np
from numpy.typing import NDArray

from align.core.text import fold
from align.core.types import Pair

MIN_PAIRS = 50
"""Below this number of pairs the counts are not reliable."""

CHOOSING_PAIRS = 1000
"""Pairs of the first buffer that decide on layer and head; more only cost time."""


class Vocabulary:
    """Numbers words for counting, without regard to case and invisible characters."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def numbers(self, words: Iterable[str]) -> NDArray[np.int64]:
        """Return the number of each word, adding new words."""
        known = self._numbers
        return np.array([known.setdefault(fold(word), len(known)) for word in words], dtype=np.int64)


def lexical_consistency(source: NDArray[np.int64], target: NDArray[np.int64], target_words: int) -> float:
    """Leave-one-out pointwise mutual information of linked words, per target word, in nats.

    `LC = (1/N) sum over links (s,t) with c(s,t) > 1 of log((c(s,t)-1) n / ((c(s)-1) (c(t)-1)))`, with
    counts c among the n links themselves; word pairs that are linked once add 0.

    Args:
        source: the source word's number in each of n links `[n]`.
        target: the target word's number in each of n links `[n]`.
        target_words: N, all target words of the text, linked or not.

    Returns:
        The higher, the more consistent; 0 without links.
    """
    if not len(source):
        return 0.0
    pair_number = source * (int(target.max()) + 1) + target
    _, first, pair = np.unique(pair_number, return_index=True, return_counts=True)
    repeated = pair > 1
    first, pair = first[repeated], pair[repeated]
    of_source = np.bincount(source)[source[first]]
    of_target = np.bincount(target)[target[first]]
    terms = np.log((pair - 1) / ((of_source - 1.0) * (of_target - 1.0))) + log(len(source))
    return float((pair * terms).sum() / target_words)


class LinkedWords:
    """Linked words of a text, read in several ways at once.

    Args:
        shape: shape of the ways, such as cells, or score, position and cell.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._vocabularies = Vocabulary(), Vocabulary()
        self._sources: list[NDArray[np.int64]] = []
        self._targets: list[NDArray[np.int64]] = []
        self._words: list[NDArray[np.int64]] = []
        self._length = 0

    def add(self, pair: Pair, words: NDArray[np.int64]) -> None:
        """Add a pair.

        Args:
            words: source word of every target word in each way `[*shape, J]`, negative for none; further columns are
                ignored.
        """
        words = words[..., : len(pair.target)]
        self._sources.append(self._vocabularies[0].numbers(pair.source))
        self._targets.append(self._vocabularies[1].numbers(pair.target))
        self._words.append(np.where(words >= 0, words + self._length, -1))  # source words count on through the text
        self._length += len(pair.source)

    def consistency(self) -> NDArray[np.float64]:
        """Return the lexical consistency of each way `[*shape]`, in nats per target word."""
        if not self._words:
            return np.zeros(self._shape)
        sources, targets = np.concatenate(self._sources), np.concatenate(self._targets)
        words = np.concatenate(self._words, axis=-1).reshape(-1, len(targets))
        values = [lexical_consistency(sources[w[w >= 0]], targets[w >= 0], len(targets)) for w in words]
        return np.array(values).reshape(self._shape)
