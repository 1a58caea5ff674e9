"""Probes: what each layer of a model adds (Tenney et al. 2019, "BERT rediscovers the classical NLP pipeline").

A probe is a small classifier that reads a weighted sum of layers, `gamma sum_l s_l h_l`, with the model frozen. Trained
on all layers, it shows where the information is: at the centre of gravity of its weights s. Trained on layers 0 to l,
for each l, it shows what each layer adds to those below.

Letters: L layers above the embeddings, which are layer 0, N examples, W words, K words in an example, D model size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from align.analysis.resampling import draw_times

Doubles = NDArray[np.float64]
Whole = NDArray[np.int64]

RATE, MIX_RATE, BATCH = 1e-3, 1e-2, 256
"""Adam's peak learning rate, which decays linearly to 0; the rate of s and gamma; examples in a batch.

With a single rate, a classifier would adapt to the initial s before s has moved.
"""

DRAWS = 1000
"""Bootstrap samples of sentences for an interval."""


class Fold(NamedTuple):
    """Examples to train on, and examples to predict `[n]`."""

    train: Whole
    test: Whole


@dataclass(frozen=True)
class Task:
    """Labels to predict from words' vectors."""

    name: str  # name of the task
    measure: str  # name of the score
    labels: tuple[str, ...]  # all labels
    states: Tensor  # vectors of words in each layer `[W, L+1, D]`; float16 to save memory
    words: Whole  # words of each example, as places in `states` `[N, K]`
    gold: Whole  # label of each example, as a place in `labels` `[N]`
    sentences: Whole  # sentence of each example, from 0 `[N]`
    places: Whole  # positions of its words in their sentence, from 0 `[N, K]`
    folds: Sequence[Fold]  # every predicted example is in the test part of one of them
    # maps predicted labels `[N]`, negative for unpredicted ones, to counts of each sentence that can be
    # summed `[S, C]`
    count: Callable[[Whole], Whole]
    score: Callable[[Whole], Doubles]  # maps sums of these `[..., C]` to a score from 0 to 1 `[...]`


class Settings(NamedTuple):
    """Settings of the training of probes: units of the hidden layer, 0 for a linear probe; epochs; and the seed."""

    hidden: int = 256
    epochs: int = 10
    seed: int = 1


class Probe(nn.Module):
    """A classifier that reads a weighted sum of layers.

    Args:
        layers: number of layers to sum.
        width: size of an example's input, K D.
    """

    def __init__(self, layers: int, width: int, hidden: int, labels: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))
        parts = [nn.Linear(width, hidden), nn.Tanh(), nn.LayerNorm(hidden)] if hidden else []
        self.classify = nn.Sequential(*parts, nn.Linear(hidden or width, labels))

    def shares(self) -> Tensor:
        """Return the layers' weights s `[l+1]`, which sum to 1."""
        return self.mix.softmax(0)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores of labels `[B, labels]` for vectors `[B, K, l+1, D]`."""
        mixed = self.gamma * (self.shares() @ x)  # [B, K, D]
        scores: Tensor = self.classify(mixed.flatten(1))
        return scores


def train_probe(task: Task, examples: Whole, top: int, settings: Settings) -> Probe:
    """Train a probe of layers 0 to `top` on some examples of a task."""
    torch.manual_seed(settings.seed)
    random = np.random.default_rng(settings.seed)
    width = task.words.shape[1] * task.states.shape[2]
    probe = Probe(top + 1, width, settings.hidden, len(task.labels))
    groups: list[dict[str, Any]] = [
        {"params": probe.classify.parameters()},
        {"params": [probe.mix, probe.gamma], "lr": MIX_RATE},
    ]
    optimizer = torch.optim.Adam(groups, lr=RATE)
    updates = settings.epochs * -(-len(examples) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, updates)
    for _ in range(settings.epochs):
        order = random.permutation(examples)
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            scores = probe(_vectors(task, batch, top))
            loss = nn.functional.cross_entropy(scores, torch.from_numpy(task.gold[batch]))
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
    return probe.eval()


@torch.inference_mode()
def probabilities(probe: Probe, task: Task, examples: Whole, top: int) -> NDArray[np.float32]:
    """Return a probe's probabilities of labels `[n, labels]`."""
    parts = np.array_split(examples, max(1, len(examples) // 4096))
    return torch.cat([probe(_vectors(task, part, top)).softmax(1) for part in parts]).numpy()


def _vectors(task: Task, examples: Whole, top: int) -> Tensor:
    """Return layers 0 to `top` of the examples' words `[n, K, top+1, D]`."""
    return task.states[torch.from_numpy(task.words[examples]), : top + 1].float()


@dataclass(frozen=True)
class Told:
    """Predictions of the probes of a task."""

    task: Task  # the task
    # the most probable label of each example, by probes of layers 0 to l `[L+1, N]`; -1 for unused examples
    best: Whole
    sure: Doubles  # its probability `[L+1, N]`
    gold: Doubles  # probability of the gold label `[L+1, N]`
    shares: Doubles  # weights s of all layers, of each fold's probe `[folds, L+1]`
    gammas: Doubles  # their factors `[folds]`

    def counts(self) -> Whole:
        """Return each sentence's counts for the score, by probes of layers 0 to l `[L+1, S, C]`."""
        return np.stack([self.task.count(best) for best in self.best])


def tell(task: Task, settings: Settings, progress: Callable[[str], None]) -> Told:
    """Train a probe of layers 0 to l, for each l, in each fold, and predict the labels of its test part."""
    layers, size = task.states.shape[1], len(task.gold)
    best = np.full((layers, size), -1)
    sure, gold = np.zeros((layers, size)), np.zeros((layers, size))
    shares, gammas = np.zeros((len(task.folds), layers)), np.zeros(len(task.folds))
    for n, fold in enumerate(task.folds):
        for top in range(layers):
            probe = train_probe(task, fold.train, top, settings)
            predicted = probabilities(probe, task, fold.test, top)
            best[top, fold.test] = predicted.argmax(1)
            sure[top, fold.test] = predicted.max(1)
            gold[top, fold.test] = predicted[np.arange(len(predicted)), task.gold[fold.test]]
        progress(f"{task.name}: part {n + 1} of {len(task.folds)} told, by {layers} probes")
        shares[n], gammas[n] = probe.shares().numpy(force=True), float(probe.gamma.detach())  # of all layers
    return Told(task, best, sure, gold, shares, gammas)


def expected_layer(scores: Doubles) -> Doubles:
    """Return the mean of layers 1 to L weighted by their gains, `[..., L+1]` to `[...]` (equations 3 and 4).

    NaN if all layers together add nothing.
    """
    added = np.diff(scores)
    total = added.sum(-1)
    means: Doubles = np.divide(
        added @ np.arange(1, added.shape[-1] + 1), total, out=np.full(np.shape(total), np.nan), where=total > 0
    )
    return means


def centre_of_gravity(shares: Doubles) -> Doubles:
    """Return the mean of layers 0 to L weighted by the probe of all layers, `[..., L+1]` to `[...]`."""
    centre: Doubles = shares @ np.arange(shares.shape[-1])
    return centre


def drawn_scores(predictions: Told, seed: int) -> Doubles:
    """Return the scores of bootstrap samples of the sentences `[DRAWS, L+1]`."""
    counts = predictions.counts()  # [L+1, S, C]
    times = draw_times(counts.shape[1], DRAWS, seed)  # [DRAWS, S]
    return predictions.task.score(np.einsum("rs,lsc->rlc", times, counts, optimize=True))


def split(sentences: Whole, parts: int, seed: int) -> list[Fold]:
    """Return folds for cross-validation, from random parts of the sentences, of which each example is `[N]`."""
    order = np.random.default_rng(seed).permutation(int(sentences.max()) + 1)
    fold_numbers = np.argsort(order)[sentences] % parts
    return [Fold(np.flatnonzero(fold_numbers != n), np.flatnonzero(fold_numbers == n)) for n in range(parts)]
