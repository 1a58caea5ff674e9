"""Where a model encodes linguistic information: probes of its layers for a pipeline of tasks (Tenney et al. 2019).

A probe is a small classifier that reads a weighted sum of layers, `gamma sum_l s_l h_l`, with the model frozen. Trained
on all layers, it shows where the information is: at the centre of gravity of its weights s. Trained on layers 0 to l,
for each l, it shows what each layer adds to those below. The tasks are parts of speech, dependency relations, and
chunks.

Letters: L layers above the embeddings, which are layer 0, N examples, W words, K words in an example, D model size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from align.analysis.commands.common import Answer, load_inspected, names_of, progress_of
from align.analysis.commands.questions import Layers
from align.analysis.data.chunks import Sentence, count_chunks, f1, read_sentences
from align.analysis.data.treebank import ROOT, Tree, read_treebank
from align.analysis.maps import Counts, Doubles, Inspected, membership
from align.analysis.plots import curves
from align.analysis.resampling import SAMPLES, draw_times, middle, percents
from align.cli.common import open_output
from align.cli.loading import Request
from align.core.errors import DataError
from align.core.formats import to_json
from align.core.types import Pair
from align.evaluation.tables import interval
from align.io.reader import name_shown
from align.view.findings import Finding, make_table

DIGITS = 4  # decimals of a probability in a file of examples
RATE, MIX_RATE, BATCH = 1e-3, 1e-2, 256
"""Adam's peak learning rate, which decays linearly to 0; the rate of s and gamma; examples in a batch.

With a single rate, a classifier would adapt to the initial s before s has moved.
"""


@dataclass(frozen=True)
class Task:
    """Labels to predict from words' vectors."""

    name: str  # name of the task
    measure: str  # name of the score
    labels: tuple[str, ...]  # all labels
    states: Tensor  # vectors of words in each layer `[W, L+1, D]`; float16 to save memory
    words: Counts  # words of each example, as places in `states` `[N, K]`
    gold: Counts  # label of each example, as a place in `labels` `[N]`
    sentences: Counts  # sentence of each example, from 0 `[N]`
    places: Counts  # positions of its words in their sentence, from 0 `[N, K]`
    folds: Sequence[tuple[Counts, Counts]]  # examples to train on, and to predict: each in one fold
    # maps predicted labels `[N]`, negative for unpredicted ones, to how many are right, predicted and gold in each
    # sentence `[S, 3]`
    count: Callable[[Counts], Counts]

    def vectors(self, examples: Counts, top: int) -> Tensor:
        """Return layers 0 to `top` of the examples' words `[n, K, top+1, D]`."""
        return self.states[torch.from_numpy(self.words[examples]), : top + 1].float()


class Probe(nn.Module):
    """A classifier that reads a weighted sum of so many layers; the width of an example's input is K D."""

    def __init__(self, layers: int, width: int, hidden: int, labels: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))
        parts = [nn.Linear(width, hidden), nn.Tanh(), nn.LayerNorm(hidden)] if hidden else []
        self.classify = nn.Sequential(*parts, nn.Linear(hidden or width, labels))

    def forward(self, x: Tensor) -> Tensor:
        """Return scores of labels `[B, labels]` for vectors `[B, K, l+1, D]`."""
        mixed = self.gamma * (self.mix.softmax(0) @ x)  # [B, K, D]
        scores: Tensor = self.classify(mixed.flatten(1))
        return scores


@torch.enable_grad()
def train_probe(task: Task, examples: Counts, top: int, options: Layers) -> Probe:
    """Train a probe of layers 0 to `top` on some examples of a task."""
    torch.manual_seed(options.seed)
    random = np.random.default_rng(options.seed)
    width = task.words.shape[1] * task.states.shape[2]
    probe = Probe(top + 1, width, options.hidden, len(task.labels))
    groups: list[dict[str, Any]] = [
        {"params": probe.classify.parameters()},
        {"params": [probe.mix, probe.gamma], "lr": MIX_RATE},
    ]
    optimizer = torch.optim.Adam(groups, lr=RATE)
    updates = options.epochs * -(-len(examples) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, updates)
    for _ in range(options.epochs):
        order = random.permutation(examples)
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            scores = probe(task.vectors(batch, top))
            loss = nn.functional.cross_entropy(scores, torch.from_numpy(task.gold[batch]))
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
    return probe.eval()


@dataclass(frozen=True)
class Predictions:
    """Predictions of the probes of a task."""

    task: Task  # the task
    # the most probable label of each example, by probes of layers 0 to l `[L+1, N]`; -1 for unused examples
    best: Counts
    sure: Doubles  # its probability `[L+1, N]`
    gold: Doubles  # probability of the gold label `[L+1, N]`
    shares: Doubles  # weights s of all layers, of each fold's probe `[folds, L+1]`
    gammas: Doubles  # their factors `[folds]`

    def scores(self, seed: int) -> tuple[Doubles, Doubles]:
        """Return the scores of probes of layers 0 to l `[L+1]`, and of bootstrap samples `[SAMPLES, L+1]`."""
        counts = np.stack([self.task.count(best) for best in self.best])  # of each sentence [L+1, S, 3]
        times = draw_times(counts.shape[1], SAMPLES, seed)  # [SAMPLES, S]
        return f1(counts.sum(1)), f1(np.einsum("rs,lsc->rlc", times, counts, optimize=True))


@torch.no_grad()
def predict(task: Task, options: Layers, progress: Callable[[str], None]) -> Predictions:
    """Train a probe of layers 0 to l, for each l, in each fold, and predict the labels of its test part."""
    layers, size = task.states.shape[1], len(task.gold)
    best = np.full((layers, size), -1)
    sure, gold = np.zeros((layers, size)), np.zeros((layers, size))
    shares, gammas = np.zeros((len(task.folds), layers)), np.zeros(len(task.folds))
    for n, (train, test) in enumerate(task.folds):
        for top in range(layers):
            probe = train_probe(task, train, top, options)
            parts = np.array_split(test, max(1, len(test) // 4096))
            predicted = torch.cat([probe(task.vectors(part, top)).softmax(1) for part in parts]).numpy()
            best[top, test] = predicted.argmax(1)
            sure[top, test] = predicted.max(1)
            gold[top, test] = predicted[np.arange(len(predicted)), task.gold[test]]
        progress(f"{task.name}: part {n + 1} of {len(task.folds)} told, by {layers} probes")
        shares[n], gammas[n] = probe.mix.softmax(0).numpy(), float(probe.gamma)  # of all layers
    return Predictions(task, best, sure, gold, shares, gammas)


def expected_layer(scores: Doubles) -> Doubles:
    """Return the mean of layers 1 to L weighted by their gains, `[..., L+1]` to `[...]` (equations 3 and 4).

    NaN if all layers together add nothing.
    """
    added = np.diff(scores)
    total = added.sum(-1)
    sums = added @ np.arange(1, added.shape[-1] + 1)
    means: Doubles = np.divide(sums, total, out=np.full(np.shape(total), np.nan), where=total > 0)
    return means


TAGS, RELATIONS, CHUNKS = "parts of speech", "dependencies", "chunks"  # names of the tasks


def read_words(
    model: Inspected, sentences: Sequence[Sequence[str]], file: str = ""
) -> tuple[Tensor, Counts, list[int]]:
    """Return words' vectors: the mean over their pieces; zeros for a word without a piece.

    Returns:
        The vectors of the W words that the model reads in each layer, float16 `[W, L+1, D]`; where those of each
        sentence begin, -1 for sentences that are too long for the model; and the numbers of the others.
    """
    parts: list[NDArray[np.float16]] = []
    starts = np.full(len(sentences), -1)
    place = 0
    pairs = (Pair(tuple(words), (), n) for n, words in enumerate(sentences, 1))
    for n, states in enumerate(model.states(pairs)):
        if states:
            tokens, layers = states
            share = membership(tokens.words, len(sentences[n])).T  # [J, S]
            share /= share.sum(1, keepdims=True).clip(1)
            parts.append(np.einsum("js,lsd->jld", share, layers, optimize=True).astype(np.float16))
            starts[n] = place
            place += len(sentences[n])
    if not parts:
        raise DataError("there is no sentence that the model can read: too long, or without pieces", file=file)
    return torch.from_numpy(np.concatenate(parts)), starts, np.flatnonzero(starts >= 0).tolist()


def treebank_tasks(model: Inspected, trees: Sequence[Tree], parts: int, seed: int, file: str = "") -> list[Task]:
    """Return the tasks of parts of speech and of dependency relations, with cross-validation in so many parts."""
    states, starts, read = read_words(model, [tree.words for tree in trees], file)
    if len(read) < parts:
        message = f"{parts} parts need {parts} sentences: the model can read {len(read)}"
        hint = "lower ‹folds›" if len(read) > 1 else ""
        raise DataError(message, file=file, hint=hint)
    tags, relations = [], []
    for n in read:
        tags += [(n, (word,), tag) for word, tag in enumerate(trees[n].tags)]
        edges = enumerate(zip(trees[n].heads, trees[n].relations, strict=True))
        relations += [(n, (word, head), relation) for word, (head, relation) in edges if head != ROOT]
    folds = np.full(len(trees), -1)
    folds[read] = np.argsort(np.random.default_rng(seed).permutation(len(read))) % parts
    named = (TAGS, tags), (RELATIONS, relations)
    return [_task(name, states, starts, examples, folds, parts) for name, examples in named if examples]


def chunk_task(
    model: Inspected, train: Sequence[Sentence], test: Sequence[Sentence], files: tuple[str, str] = ("", "")
) -> Task:
    """Return the task of chunking, one tag per word, with F1 of chunks as its score."""
    both = [*train, *test]
    states, starts, read = read_words(model, [sentence.words for sentence in both], " and ".join(filter(None, files)))
    scored = [n for n in read if n >= len(train)]
    for count, purpose, file in ((len(scored), "score", files[1]), (len(read) - len(scored), "train on", files[0])):
        if not count:
            raise DataError(f"there is no sentence to {purpose} that the model can read", file=file)
    examples = [(n, (word,), tag) for n in read for word, tag in enumerate(both[n].tags)]
    task = _task(CHUNKS, states, starts, examples, np.repeat([-1, 0], [len(train), len(test)]), 1)

    def count_words(best: Counts) -> Counts:
        predicted = [[task.labels[label] for label in best[task.sentences == n]] for n in scored]
        return count_chunks([both[n].tags for n in scored], predicted)

    return replace(task, measure="F1", count=count_words)


def _task(
    name: str,
    states: Tensor,
    starts: Counts,
    examples: Sequence[tuple[int, tuple[int, ...], str]],
    folds: Counts,
    parts: int,
) -> Task:
    """Return a task from examples of a sentence, words in it, and a label, and from each sentence's fold `[S]`.

    Its F1 is accuracy.
    """
    sentences = np.array([sentence for sentence, _, _ in examples])
    places = np.array([places for _, places, _ in examples])
    labels, gold = np.unique([label for _, _, label in examples], return_inverse=True)

    def count(best: Counts) -> Counts:
        predicted = best >= 0
        total = np.bincount(sentences[predicted])
        right = np.bincount(sentences[predicted], (best == gold)[predicted]).astype(np.int64)
        return np.stack((right, total, total), 1)[total > 0]

    words = starts[sentences][:, None] + places
    fold = folds[sentences]
    splits = [(np.flatnonzero(fold != n), np.flatnonzero(fold == n)) for n in range(parts)]
    return Task(name, "accuracy", tuple(labels.tolist()), states, words, gold, sentences, places, splits, count)


def layers(
    tasks: Sequence[Task], options: Layers, progress: Callable[[str], None] = lambda _: None
) -> tuple[Finding, list[Predictions]]:
    """Return tables and figures of each layer's gain in each task and of the layer weights, and the predictions."""
    predictions = [predict(task, options, progress) for task in tasks]
    by_task, by_layer, weights, added = [], [], {}, {}
    for predicted in predictions:
        task, shares = predicted.task, predicted.shares.mean(0)
        score, drawn = predicted.scores(options.seed)  # [L+1] and [SAMPLES, L+1]
        expected: tuple[Any, Any] = (None, None)
        if score[-1] > score[0]:
            expected = expected_layer(score), middle(expected_layer(drawn))
        centres = predicted.shares @ np.arange(len(shares))  # [folds]
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
        "weights": partial(curves, weights, "layer", "weight s", "where a probe of all layers looks"),
        "gains": partial(curves, added, "layer", "gain, % points", "what each layer adds"),
    }
    return Finding(tables, figures), predictions


def examples(predictions: Predictions, text: Sequence[Sequence[str]]) -> Iterator[dict[str, object]]:
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


def answer(question: Layers, request: Request) -> Answer:
    """Answer the question of `extract-align analyse layers`."""
    model = load_inspected(request)
    tasks: list[Task] = []
    texts: list[Sequence[Sequence[str]]] = []  # of each task
    lines = 0
    if question.treebank:
        trees = read_treebank(question.treebank, question.lines)
        tasks += treebank_tasks(model, trees, question.folds, question.seed, name_shown(question.treebank))
        texts += [[tree.words for tree in trees]] * len(tasks)
        lines += len(trees)
    if question.train and question.test:
        train, test = (read_sentences(name)[: question.lines] for name in (question.train, question.test))
        tasks.append(chunk_task(model, train, test, (name_shown(question.train), name_shown(question.test))))
        texts.append([sentence.words for sentence in (*train, *test)])
        lines += len(train) + len(test)
    finding, predictions = layers(tasks, question, progress_of(request))
    if question.examples:
        with open_output(question.examples) as out:
            for predicted, text in zip(predictions, texts, strict=True):
                for example in examples(predicted, text):
                    out.write(to_json(example).encode() + b"\n")
    data, parts = names_of(question.treebank, question.train, question.test), question.folds
    return finding, {"model": model.name, "data": data, "n": lines, "parts": parts if question.treebank else None}
