"""Where a model encodes linguistic information: probes of its layers for a pipeline of tasks (Tenney et al. 2019).

The tasks are parts of speech, dependency relations, and chunks; the measures are in `align.analysis.layers.probes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from align.analysis.data.chunks import Sentence, count_chunks, f1
from align.analysis.data.treebank import ROOT, Tree
from align.analysis.layers.probes import (
    Doubles,
    Fold,
    Settings,
    Task,
    Told,
    Whole,
    centre_of_gravity,
    drawn_scores,
    expected_layer,
    split,
    tell,
)
from align.analysis.maps import Inspected, Numbers, membership
from align.analysis.plots import curves
from align.analysis.resampling import middle, percents
from align.core.errors import DataError
from align.core.types import Pair
from align.evaluation.tables import interval
from align.view.findings import Finding, make_table

TAGS, RELATIONS, CHUNKS = "parts of speech", "dependencies", "chunks"
"""Names of the tasks."""


class Bank(NamedTuple):
    """The vectors of a text's W words in each layer, float16, and where those of each sentence begin.

    That is -1 for sentences that are too long for the model.
    """

    states: Tensor
    starts: Whole

    @property
    def read(self) -> list[int]:
        """Indices of the sentences that the model has read."""
        return [int(n) for n in np.flatnonzero(self.starts >= 0)]


def read_words(model: Inspected, sentences: Sequence[Sequence[str]], file: str = "") -> Bank:
    """Return words' vectors: the mean over their pieces; zeros for a word without a piece."""
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
    share = membership(words, count).T  # [J, S]
    share /= share.sum(1, keepdims=True).clip(1)
    means: NDArray[np.float16] = np.einsum("js,lsd->jld", share, layers, optimize=True).astype(np.float16)
    return means


def _task(
    name: str,
    measure: str,
    bank: Bank,
    examples: Sequence[tuple[int, tuple[int, ...], str]],
    fold: Callable[[Whole], Sequence[Fold]],
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

    def share(counts: Whole) -> Doubles:
        right_of_all: Doubles = counts[..., 0] / counts[..., 1]
        return right_of_all

    words = bank.starts[sentences][:, None] + places
    return Task(name, measure, labels, bank.states, words, gold, sentences, places, fold(sentences), count, share)


def treebank_tasks(model: Inspected, trees: Sequence[Tree], parts: int, seed: int, file: str = "") -> list[Task]:
    """Return the tasks of parts of speech and of dependency relations, with cross-validation.

    Args:
        parts: parts of the cross-validation.
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
    return [
        _task(name, "accuracy", bank, examples, partial(split, parts=parts, seed=seed))
        for name, examples in ((TAGS, tags), (RELATIONS, relations))
        if examples
    ]


def chunk_task(
    model: Inspected, train: Sequence[Sentence], test: Sequence[Sentence], files: tuple[str, str] = ("", "")
) -> Task:
    """Return the task of chunking, one tag per word, with F1 of chunks as its score."""
    both = [*train, *test]
    bank = read_words(model, [sentence.words for sentence in both], " and ".join(filter(None, files)))
    examples = [(n, (word,), tag) for n in bank.read for word, tag in enumerate(both[n].tags)]
    scored = [n for n in bank.read if n >= len(train)]
    if not scored:
        raise DataError("there is no sentence to score that the model can read", file=files[1])
    if len(scored) == len(bank.read):
        raise DataError("there is no sentence to train on that the model can read", file=files[0])

    def halves(sentences: Whole) -> Sequence[Fold]:
        return [Fold(np.flatnonzero(sentences < len(train)), np.flatnonzero(sentences >= len(train)))]

    task = _task(CHUNKS, "F1", bank, examples, halves)
    starts = np.searchsorted(task.sentences, scored)

    def count(best: Whole) -> Whole:
        predicted = [
            [task.labels[label] for label in best[start : start + len(both[n].tags)]]
            for n, start in zip(scored, starts, strict=True)
        ]
        return count_chunks([both[n].tags for n in scored], predicted)

    return replace(task, count=count, score=f1)


DIGITS = 4
"""Decimals of a probability in a file of examples."""


def layers(
    tasks: Sequence[Task], settings: Settings, progress: Callable[[str], None] = lambda _: None
) -> tuple[Finding, list[Told]]:
    """Return tables and figures of each layer's gain in each task and of the layer weights, and the predictions."""
    predictions = [tell(task, settings, progress) for task in tasks]
    by_task, by_layer, weights, added = [], [], {}, {}
    for predicted in predictions:
        task, shares = predicted.task, predicted.shares.mean(0)
        score = task.score(predicted.counts().sum(1))  # [L+1]
        drawn = drawn_scores(predicted, settings.seed)  # [DRAWS, L+1]
        expected: tuple[Any, Any] = (None, None)
        if score[-1] > score[0]:
            expected = expected_layer(score), middle(expected_layer(drawn))
        centres = centre_of_gravity(predicted.shares)  # [folds]
        centre = centres.mean(), interval(centres.min(), centres.max())
        sizes = int((predicted.best[0] >= 0).sum()), len(task.labels)
        ends = 100 * score[[0, -1]]
        by_task.append([task.name, f"{task.measure}, %", *sizes, *ends, *expected, *centre, predicted.gammas.mean()])
        gains = [(None, None), *zip(100 * np.diff(score), map(percents, np.diff(drawn).T), strict=True)]
        for layer, (share, gain) in enumerate(zip(shares, gains, strict=True)):
            scored = 100 * score[layer], percents(drawn[:, layer])
            by_layer.append([task.name, layer, *scored, *gain, 100 * share])
        numbers = np.arange(len(shares))
        weights[task.name] = np.stack((numbers, shares), 1)
        added[task.name] = np.stack((numbers[1:], 100 * np.diff(score)), 1)
    tables = {
        "tasks": make_table(
            "task | measure | examples + | labels + | lowest: layer 0 .1 | score: all layers .1 | "
            "expected: expected layer .2 | expected_interval: 95 % .2 | centre: centre of gravity .2 | "
            "centre_range: parts .2 + | gamma: γ .2 +",
            by_task,
            "expected layer: mean of layers 1 to the last by what each adds, and an interval over sentences; "
            "centre of gravity: mean of layers 0 to the last by their weights in a probe of all, over parts of "
            "the text",
        ),
        "layers": make_table(
            "task | layer: layers to | score: score, % .1 | score_interval: 95 % .1 | gain .2 | "
            "gain_interval: 95 % .2 | share: s, % .1",
            by_layer,
            "score of a probe of layers 0 to this one, and what this one adds; s: its weight in the probe of all",
        ),
    }
    figures = {
        "weights": curves(weights, "layer", "weight s", "where a probe of all layers looks"),
        "gains": curves(added, "layer", "gain, % points", "what each layer adds"),
    }
    return Finding(tables, figures), predictions


def examples(predictions: Told, text: Sequence[Sequence[str]]) -> Iterator[dict[str, object]]:
    """Yield the predictions for each example, as records of a file of JSON lines.

    `sentence` counts from 1, `places` of words from 0. Lists have a probability or a label for each layer l, from the
    probe of layers 0 to l.
    """
    task = predictions.task
    for n in np.flatnonzero(predictions.best[0] >= 0):
        words = text[task.sentences[n]]
        yield {
            "task": task.name,
            "sentence": int(task.sentences[n]) + 1,
            "places": task.places[n].tolist(),
            "words": [words[place] for place in task.places[n]],
            "gold": task.labels[task.gold[n]],
            "probability": [round(float(p), DIGITS) for p in predictions.gold[:, n]],
            "best": [task.labels[label] for label in predictions.best[:, n]],
            "best_probability": [round(float(p), DIGITS) for p in predictions.sure[:, n]],
        }
