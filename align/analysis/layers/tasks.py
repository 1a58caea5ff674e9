"""Tasks for probes of words: parts of speech, dependency relations, and chunks."""

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
from align.core.errors import DataError
from align.core.types import Pair

TAGS, RELATIONS, CHUNKS = "parts of speech", "dependencies", "chunks"
"""Names of the tasks."""


class Bank(NamedTuple):
    """The vectors of a text's words.

    Attributes:
        states: vectors in each layer `[W, L+1, D]`, float16.
        starts: place of each sentence's first word in `states`; -1 for sentences that are too long for the model.
    """

    states: Tensor
    starts: Whole

    @property
    def read(self) -> list[int]:
        """Indices of the sentences that the model has read."""
        return [int(n) for n in np.flatnonzero(self.starts >= 0)]


def read_words(model: Layered, sentences: Sequence[Sequence[str]], file: str = "") -> Bank:
    """Return words' vectors: the mean over their pieces; zeros for a word without a piece.

    Args:
        sentences: words of each sentence.
        file: name of the sentences' file for errors.

    Raises:
        DataError: the model can read none of the sentences.
    """
    parts: list[NDArray[np.float16]] = []
    starts = np.full(len(sentences), -1)
    place = 0
    pairs = (Pair(tuple(words), (), n) for n, words in enumerate(sentences, 1))
    for n, states in enumerate(model.states(pairs)):
        if states.tokens is not None and states.layers is not None:
            parts.append(word_means(states.layers, states.tokens.words, len(sentences[n])))
            starts[n] = place
            place += len(sentences[n])
    if not parts:
        raise DataError("there is no sentence that the model can read: all are too long for it", file=file)
    return Bank(torch.from_numpy(np.concatenate(parts)), starts)


def word_means(layers: Numbers, words: Sequence[int], count: int) -> NDArray[np.float16]:
    """Return the mean over each word's pieces.

    Args:
        layers: vectors of pieces `[L+1, S, D]`.
        words: word of each piece, from 0; negative for pieces of no word `[S]`.
        count: number of words, J.

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
    """Return a task with accuracy as its score, from examples of a sentence, words in it, and a label."""
    labels = tuple(sorted({label for _, _, label in examples}))
    number = {label: n for n, label in enumerate(labels)}
    sentences = np.array([sentence for sentence, _, _ in examples])
    places = np.array([places for _, places, _ in examples])
    gold = np.array([number[label] for _, _, label in examples])

    def count(best: Whole) -> Whole:
        predicted = best >= 0
        size = int(sentences.max()) + 1
        right = np.bincount(sentences[predicted], (best == gold)[predicted], size)
        counts = np.stack((right, np.bincount(sentences[predicted], minlength=size)), 1).astype(np.int64)
        return counts[counts[:, 1] > 0]

    words = bank.starts[sentences][:, None] + places
    return Task(name, measure, labels, bank.states, words, gold, sentences, places, split(sentences), count, _share)


def _share(counts: Whole) -> NDArray[np.float64]:
    share: NDArray[np.float64] = counts[..., 0] / counts[..., 1]
    return share


def treebank_tasks(model: Layered, trees: Sequence[Tree], parts: int, seed: int, file: str = "") -> list[Task]:
    """Return the tasks of parts of speech and of dependency relations, with cross-validation.

    Args:
        trees: sentences of a treebank.
        parts: parts of the cross-validation.
        seed: seed of the partition.
        file: name of the treebank's file for errors.

    Raises:
        DataError: the model can read fewer sentences than there are parts.
    """
    bank = read_words(model, [tree.words for tree in trees], file)
    if len(bank.read) < parts:
        message = f"{parts} parts need {parts} sentences: the model can read {len(bank.read)}"
        hint = "lower ‹folds›" if len(bank.read) > 1 else ""
        raise DataError(message, file=file, hint=hint)
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
    return [_task(name, "accuracy", bank, examples, split) for name, examples in named if examples]


def chunk_task(
    model: Layered, train: Sequence[Sentence], test: Sequence[Sentence], files: tuple[str, str] = ("", "")
) -> Task:
    """Return the task of chunking, one tag per word, with F1 of chunks as its score.

    Args:
        train: sentences to train on.
        test: sentences to score.
        files: names of their files for errors.

    Raises:
        DataError: the model can read no sentence of `train` or none of `test`.
    """
    both = [*train, *test]
    bank = read_words(model, [sentence.words for sentence in both], " and ".join(filter(None, files)))
    examples = [(n, (word,), tag) for n in bank.read for word, tag in enumerate(both[n].tags)]
    scored = [n for n in bank.read if n >= len(train)]
    if not scored:
        raise DataError("there is no sentence to score that the model can read", file=files[1])
    if len(scored) == len(bank.read):
        raise DataError("there is no sentence to train on that the model can read", file=files[0])

    def split(sentences: Whole) -> Sequence[Fold]:
        return [Fold(np.flatnonzero(sentences < len(train)), np.flatnonzero(sentences >= len(train)))]

    task = _task(CHUNKS, "F1", bank, examples, split)
    starts = np.searchsorted(task.sentences, scored)

    def count(best: Whole) -> Whole:
        predicted = [
            [task.labels[label] for label in best[start : start + len(both[n].tags)]]
            for n, start in zip(scored, starts, strict=True)
        ]
        return count_chunks([both[n].tags for n in scored], predicted)

    return replace(task, count=count, score=f1)
