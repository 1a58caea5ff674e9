"""Features of words as ids, and batches of sentences for a tagger.

Letters: B sentences, T words of the longest, F features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from align.analysis.data.chunks import Sentence

PAD, UNKNOWN = 0, 1

SUFFIX = 3
"""Length in letters of the suffix feature."""

WORDS_IN_BATCH = 700
"""Maximum number of words in a training batch, padding included."""


def shape_of(word: str) -> str:
    """Return the shape of a word: A, a and 0 for runs of capitals, small letters and digits, others once per run."""
    kinds = ["A" if c.isupper() else "a" if c.isalpha() else "0" if c.isdigit() else c for c in word]
    return "".join(kind for n, kind in enumerate(kinds) if n == 0 or kind != kinds[n - 1])[:6]


FEATURES: tuple[tuple[Callable[[str], str], int], ...] = (
    (str.lower, 2),
    (lambda word: word.lower()[-SUFFIX:], 3),
    (shape_of, 5),
)
"""Features of a word, the word itself first, each with the minimum count of a value that has its own vector."""


class Batch(NamedTuple):
    """Sentences of similar length.

    Attributes:
        features: ids `[B, T, F]`.
        tags: ids `[B, T]`.
        mask: mask of words that are not padding `[B, T]`.
        numbers: indices of the sentences in their text, from 0.
    """

    features: Tensor
    tags: Tensor
    mask: Tensor
    numbers: list[int]


class Vocabulary:
    """Ids of the feature values and tags of a training text.

    Args:
        sentences: the training text.

    Attributes:
        sizes: number of ids of each feature.
        tags: tag of each id.
    """

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self._ids: list[dict[str, int]] = []
        for feature, least in FEATURES:
            seen = Counter(feature(word) for sentence in sentences for word in sentence.words)
            known = sorted(value for value, count in seen.items() if count >= least)
            self._ids.append({value: n for n, value in enumerate(known, UNKNOWN + 1)})
        self.sizes = [len(ids) + UNKNOWN + 1 for ids in self._ids]
        self.tags = sorted({tag for sentence in sentences for tag in sentence.tags})

    def batches(self, sentences: Sequence[Sentence], words: int = WORDS_IN_BATCH) -> list[Batch]:
        """Return sentences in batches of similar length, of at most `words` words, padding included.

        A tag that is not in the training text has the id of the first tag: such text can be tagged, but not learnt
            from.
        """
        groups: list[list[int]] = [[]]
        for n in sorted(range(len(sentences)), key=lambda n: len(sentences[n].words)):
            if groups[-1] and len(sentences[n].words) * (len(groups[-1]) + 1) > words:
                groups.append([])
            groups[-1].append(n)
        return [self._batch(sentences, group) for group in groups]

    def _batch(self, sentences: Sequence[Sentence], numbers: list[int]) -> Batch:
        tag_ids = {tag: n for n, tag in enumerate(self.tags)}
        shape = (len(numbers), max(len(sentences[n].words) for n in numbers))
        features = np.full((*shape, len(FEATURES)), PAD)
        tags, mask = np.zeros(shape, np.int64), np.zeros(shape, bool)
        for b, sentence in enumerate(sentences[n] for n in numbers):
            t = len(sentence.words)
            for f, (feature, _) in enumerate(FEATURES):
                features[b, :t, f] = [self._ids[f].get(feature(word), UNKNOWN) for word in sentence.words]
            tags[b, :t] = [tag_ids.get(tag, 0) for tag in sentence.tags]
            mask[b, :t] = True
        return Batch(torch.from_numpy(features), torch.from_numpy(tags), torch.from_numpy(mask), numbers)
