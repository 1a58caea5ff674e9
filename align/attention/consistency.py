"""Which layer and head to read, without gold alignments: lexical consistency.

Right links repeat the same pairs of words, wrong ones scatter. So the cell whose links have the highest
pointwise mutual information, each link judged by the others, is the one to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from align.types import Pair

MIN_PAIRS = 50
"""With fewer sentence pairs than this the counts say too little."""

Key = TypeVar("Key")


class Vocabulary:
    """Numbers for words, case ignored, for counting linked words with numpy."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def numbers(self, words: Iterable[str]) -> NDArray[np.int64]:
        """Number of each word, new words included."""
        known = self._numbers
        return np.array([known.setdefault(word.casefold(), len(known)) for word in words], dtype=np.int64)


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


def calibrate(links: Mapping[Key, tuple[NDArray[np.int64], NDArray[np.int64]]], target_words: int) -> Key:
    """The choice whose links are the most consistent; of equals, the first.

    Args:
        links: for each choice, the numbers of the linked source and target words, as `lexical_consistency`
            takes them, all on the same text.
        target_words: all target words of that text.

    Raises:
        ValueError: nothing to choose from.
    """
    if not links:
        raise ValueError("no layer or head to choose from")
    return max(links, key=lambda key: lexical_consistency(*links[key], target_words))


class LinkedWords(Generic[Key]):
    """Linked words of one text, by number, for several choices of a cell."""

    def __init__(self) -> None:
        self._vocabularies = Vocabulary(), Vocabulary()
        self._linked: dict[Key, tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]] = {}

    def add(self, pairs: Sequence[Pair], best: Mapping[Key, NDArray[np.int64]]) -> None:
        """Add B pairs: for each choice the source word of every target word `[B, J]`, negative for none."""
        sources = [self._vocabularies[0].numbers(pair.source) for pair in pairs]
        targets = [self._vocabularies[1].numbers(pair.target) for pair in pairs]
        for key, index in best.items():
            of_source, of_target = self._linked.setdefault(key, ([], []))
            for row, source, target in zip(index, sources, targets, strict=True):
                words = row[: len(target)]
                of_source.append(source[words[words >= 0]])
                of_target.append(target[words >= 0])

    def most_consistent(self, target_words: int) -> Key:
        """What `calibrate` chooses, of a text with so many target words."""
        joined = {
            key: (np.concatenate(source), np.concatenate(target)) for key, (source, target) in self._linked.items()
        }
        return calibrate(joined, target_words)
