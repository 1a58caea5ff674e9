"""What layers may know of words: their parts of speech, what they are to the words they depend on, and chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from align.analysis.data.chunks import Sentence, count_chunks, f1
from align.analysis.data.treebank import ROOT, Tree
from align.analysis.layers.probes import Fold, Task, Whole, folds
from align.analysis.maps import Layered, Numbers
from align.core.errors import Argument, DataError, Remedy
from align.core.types import Pair

TAGS, RELATIONS, CHUNKS = "parts of speech", "dependencies", "chunks"
"""The tasks."""


class Bank(NamedTuple):
    """The vectors of a text's words.

    Attributes:
        states: in each layer `[W, L+1, D]`, float16.
        starts: the place in them of each sentence's first word; -1 for sentences that are too long for the model.
    """

    states: Tensor
    starts: Whole

    @property
    def read(self) -> list[int]:
        """Sentences that the model has read."""
        return [int(n) for n in np.flatnonzero(self.starts >= 0)]


def read_words(model: Layered, sentences: Sequence[Sequence[str]], file: str = "") -> Bank:
    """Words' vectors: the means of those of their pieces; zeros for a word of which the model reads no piece.

    Args:
        model: whose vectors.
        sentences: their words.
        file: what errors call them.

    Raises:
        DataError: the model can read none of the sentences.
    """
    parts: list[NDArray[np.float16]] = []
    starts = np.full(len(sentences), -1)
    place = 0
    pairs = (Pair(tuple(words), (), n) for n, words in enumerate(sentences, 1))
    for n, found in enumerate(model.states(pairs)):
        if found.tokens is not None and found.layers is not None:
            parts.append(word_means(found.layers, found.tokens.words, len(sentences[n])))
            starts[n] = place
            place += len(sentences[n])
    if not parts:
        raise DataError("there is no sentence that the model can read: all are too long for it", file=file)
    return Bank(torch.from_numpy(np.concatenate(parts)), starts)


def word_means(layers: Numbers, words: Sequence[int], count: int) -> NDArray[np.float16]:
    """The mean of each word's pieces.

    Args:
        layers: vectors of pieces `[L+1, S, D]`.
        words: of each piece, from 0; negative for those of none `[S]`.
        count: how many words there are, J.

    Returns:
        `[J, L+1, D]`.
    """
    share = (np.arange(count)[:, None] == np.array(words)).astype(np.float32)  # [J, S]
    share /= share.sum(1, keepdims=True).clip(1)
    means: NDArray[np.float16] = np.einsum("js,lsd->jld", share, layers, optimize=True).astype(np.float16)
    return means


def _task(
    name: str,
    measure: str,
    bank: Bank,
    examples: Sequence[tuple[int, tuple[int, ...], str]],
    split: Callable[[Whole], Sequence[Fold]],
) -> Task:
    """A task of sentences, words in them, and labels, whose score is the share of examples that are told right."""
    labels = tuple(sorted({label for _, _, label in examples}))
    number = {label: n for n, label in enumerate(labels)}
    sentences = np.array([sentence for sentence, _, _ in examples])
    places = np.array([places for _, places, _ in examples])
    gold = np.array([number[label] for _, _, label in examples])

    def count(best: Whole) -> Whole:
        told = best >= 0
        size = int(sentences.max()) + 1
        right = np.bincount(sentences[told], (best == gold)[told], size)
        counts = np.stack((right, np.bincount(sentences[told], minlength=size)), 1).astype(np.int64)
        return counts[counts[:, 1] > 0]

    words = bank.starts[sentences][:, None] + places
    return Task(name, measure, labels, bank.states, words, gold, sentences, places, split(sentences), count, _share)


def _share(counts: Whole) -> NDArray[np.float64]:
    share: NDArray[np.float64] = counts[..., 0] / counts[..., 1]
    return share


def treebank_tasks(model: Layered, trees: Sequence[Tree], parts: int, seed: int, file: str = "") -> list[Task]:
    """Parts of speech of words, and relations of words to the words they depend on; cross-validated.

    Args:
        model: whose vectors.
        trees: a treebank's sentences.
        parts: of the cross-validation.
        seed: of its draw.
        file: what errors call the treebank.

    Raises:
        DataError: the model can read fewer sentences than there are parts.
    """
    bank = read_words(model, [tree.words for tree in trees], file)
    if len(bank.read) < parts:
        what = f"{parts} parts need {parts} sentences: the model can read {len(bank.read)}"
        remedy = Remedy("lower {}", (Argument("parts"),)) if len(bank.read) > 1 else None
        raise DataError(what, file=file, remedy=remedy)
    tags = [(n, (word,), tag) for n in bank.read for word, tag in enumerate(trees[n].tags)]
    relations = [
        (n, (word, head), relation)
        for n in bank.read
        for word, (head, relation) in enumerate(zip(trees[n].heads, trees[n].relations, strict=True))
        if head != ROOT
    ]

    def split(sentences: Whole) -> Sequence[Fold]:
        return folds(sentences, parts, seed)

    named = ((TAGS, tags), (RELATIONS, relations))
    return [_task(name, "accuracy", bank, found, split) for name, found in named if found]


def chunk_task(
    model: Layered, train: Sequence[Sentence], test: Sequence[Sentence], files: tuple[str, str] = ("", "")
) -> Task:
    """Chunks, a tag a word, scored by the chunks that come of the tags.

    Args:
        model: whose vectors.
        train: sentences to train on.
        test: others to score.
        files: what errors call these.

    Raises:
        DataError: the model can read none of one of both.
    """
    both = [*train, *test]
    bank = read_words(model, [sentence.words for sentence in both], " and ".join(filter(None, files)))
    examples = [(n, (word,), tag) for n in bank.read for word, tag in enumerate(both[n].tags)]
    told = [n for n in bank.read if n >= len(train)]
    if not told:
        raise DataError("there is no sentence to score that the model can read", file=files[1])
    if len(told) == len(bank.read):
        raise DataError("there is no sentence to train on that the model can read", file=files[0])

    def split(sentences: Whole) -> Sequence[Fold]:
        return [Fold(np.flatnonzero(sentences < len(train)), np.flatnonzero(sentences >= len(train)))]

    task = _task(CHUNKS, "F1", bank, examples, split)
    starts = np.searchsorted(task.sentences, told)

    def count(best: Whole) -> Whole:
        found = [
            [task.labels[label] for label in best[start : start + len(both[n].tags)]]
            for n, start in zip(told, starts, strict=True)
        ]
        return count_chunks([both[n].tags for n in told], found)

    return replace(task, count=count, score=f1)
