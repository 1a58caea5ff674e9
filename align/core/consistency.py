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

MIN_PAIRS = 50  # below this number of pairs the counts are not reliable
CHOOSING_PAIRS = 1000  # pairs of the first buffer that decide on layer and head; more only cost time


def number_words(words: Iterable[str], known: dict[str, int]) -> NDArray[np.int64]:
    """Return the number of each word, whatever its case and invisible characters; new ones become known."""
    return np.array([known.setdefault(fold(word), len(known)) for word in words], dtype=np.int64)


def lexical_consistency(source: NDArray[np.int64], target: NDArray[np.int64], target_words: int) -> float:
    """Return the leave-one-out pointwise mutual information of linked words, per target word, in nats.

    `LC = (1/N) sum over links (s,t) with c(s,t) > 1 of log((c(s,t)-1) n / ((c(s)-1) (c(t)-1)))`, with counts
    c among the n links themselves, of which `source` and `target` have the numbers of the words `[n]`, and N
    target words in the text, linked or not. Word pairs that are linked once add 0; it is 0 without links.
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
    """Linked words of a text, read in several ways at once: an array of them, such as of cells."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._known: tuple[dict[str, int], dict[str, int]] = {}, {}
        self._sources: list[NDArray[np.int64]] = []
        self._targets: list[NDArray[np.int64]] = []
        self._words: list[NDArray[np.int64]] = []
        self._length = 0

    def add(self, pair: Pair, words: NDArray[np.int64]) -> None:
        """Add a pair with the source word of each target word in each way `[*shape, J]`, or -1."""
        words = words[..., : len(pair.target)]
        self._sources.append(number_words(pair.source, self._known[0]))
        self._targets.append(number_words(pair.target, self._known[1]))
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
