"""A lexicon of a text's own links, for `variants`: tried for rescoring, and not kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from align import Aligner, Pair, two_way
from align.core.consistency import Vocabulary

PRUNE = 0.05
SMOOTHING = 1.0
STEP = 2**31


class Lexicon:
    """Expected counts of linked words: sums of soft scores above PRUNE over all pairs, `p(t|s)/p(t)` from them.

    Args:
        forward: aligns the text.
        reverse: aligns it the other way round.
        text: pairs to count in; those to be rescored first.
    """

    def __init__(self, forward: Aligner, reverse: Aligner, text: list[Pair]) -> None:
        self.pairs = len(text)
        words = Vocabulary(), Vocabulary()
        self._words = [(words[0].numbers(pair.source), words[1].numbers(pair.target)) for pair in text]
        self._links = [found.scores for found in two_way(forward, reverse, threshold=PRUNE)(text)]
        keys: list[int] = []
        scores: list[float] = []
        for (source, target), links in zip(self._words, self._links, strict=True):
            keys += [int(source[i]) * STEP + int(target[j]) for i, j in links]
            scores += links.values()
        self._keys, place = np.unique(np.array(keys, dtype=np.int64), return_inverse=True)
        self._counts = np.bincount(place, scores)
        self._sources = np.bincount(self._keys // STEP, self._counts, minlength=max(map(max, self._sides(0))) + 1)
        self._targets = np.bincount(self._keys % STEP, self._counts, minlength=max(map(max, self._sides(1))) + 1)

    def _sides(self, side: int) -> list[NDArray[np.int64]]:
        return [words[side] for words in self._words if len(words[side])]

    def factors(self, n: int) -> NDArray[np.float64]:
        """`p(s,t) / (p(s) p(t))` of the words of pair n, without its own links, smoothed `[J, I]`."""
        source, target = self._words[n]
        own = np.zeros((len(target), len(source)))
        for (i, j), score in self._links[n].items():
            own[j, i] = score
        keys = source[None] * STEP + target[:, None]
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        together = np.where(self._keys[place] == keys, self._counts[place], 0.0) - own
        apart = (self._sources[source] - own.sum(0))[None] * (self._targets[target] - own.sum(1))[:, None]
        expected = np.maximum(apart, 0) / self._counts.sum()
        factors: NDArray[np.float64] = (np.maximum(together, 0) + SMOOTHING) / (expected + SMOOTHING)
        return factors
