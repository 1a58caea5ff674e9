"""What a model's layers know, one on another (Tenney et al. 2019, "BERT rediscovers the classical NLP pipeline").

A probe is a small classifier that reads a weighted sum of layers, `gamma sum_l s_l h_l`, with everything below it
frozen. Trained on all layers it tells where what it needs is: the centre of gravity of its weights s. Trained on layers
0 to l, for each l, it tells what each layer adds to those below.

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

Doubles = NDArray[np.float64]
Whole = NDArray[np.int64]

RATE, MIX_RATE, BATCH = 1e-3, 1e-2, 256
"""Adam's highest rate, which falls in a line to 0, the same of s and gamma, and examples in a batch: with one rate for
all, a classifier would adapt to the first s before that had moved."""

DRAWS = 1000
"""Texts that are drawn out of a text's sentences for an interval."""

MIDDLE = (2.5, 97.5)
"""Percentiles of what comes of them."""


class Fold(NamedTuple):
    """Examples to train on, and those to be told `[n]`."""

    train: Whole
    test: Whole


@dataclass(frozen=True)
class Task:
    """Labels to be told from words' vectors.

    Attributes:
        name: what it is called.
        measure: of how well it is done.
        labels: all there are.
        states: of words, in each layer `[W, L+1, D]`; float16 to save memory.
        words: of each example, places in `states` `[N, K]`.
        gold: of each example, places in `labels` `[N]`.
        sentences: of each example, from 0 `[N]`.
        places: of its words in their sentence, from 0 `[N, K]`.
        folds: every example that is told is in the second part of one of them.
        count: labels told `[N]`, of which only those of the folds' second parts count, to counts of each sentence that
            can be summed `[S, C]`.
        score: sums of these `[..., C]` to a number from 0 to 1 `[...]`.
    """

    name: str
    measure: str
    labels: tuple[str, ...]
    states: Tensor
    words: Whole
    gold: Whole
    sentences: Whole
    places: Whole
    folds: Sequence[Fold]
    count: Callable[[Whole], Whole]
    score: Callable[[Whole], Doubles]


@dataclass(frozen=True)
class Settings:
    """How probes are trained.

    Attributes:
        hidden: units of the hidden layer; 0 for a linear probe.
        epochs: times that the examples are gone through.
        seed: of first weights, order, and of texts drawn for intervals.
    """

    hidden: int = 256
    epochs: int = 10
    seed: int = 1


class Probe(nn.Module):
    """Labels from a weighted sum of layers.

    Args:
        layers: how many are summed.
        width: numbers that describe an example, K D.
        hidden: units of the hidden layer; 0 for none.
        labels: how many there are.
    """

    def __init__(self, layers: int, width: int, hidden: int, labels: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))
        parts = [nn.Linear(width, hidden), nn.Tanh(), nn.LayerNorm(hidden)] if hidden else []
        self.classify = nn.Sequential(*parts, nn.Linear(hidden or width, labels))

    def shares(self) -> Tensor:
        """The layers' weights s `[l+1]`, which add up to 1."""
        return self.mix.softmax(0)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of labels `[B, labels]` for vectors `[B, K, l+1, D]`."""
        mixed = self.gamma * (self.shares() @ x)  # [B, K, D]
        scores: Tensor = self.classify(mixed.flatten(1))
        return scores


def train_probe(task: Task, examples: Whole, top: int, settings: Settings) -> Probe:
    """A probe of layers 0 to `top`, trained on some examples of a task."""
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
    """What a probe says of examples `[n, labels]`."""
    parts = np.array_split(examples, max(1, len(examples) // 4096))
    return torch.cat([probe(_vectors(task, part, top)).softmax(1) for part in parts]).numpy()


def _vectors(task: Task, examples: Whole, top: int) -> Tensor:
    """Layers 0 to `top` of the examples' words `[n, K, top+1, D]`."""
    return task.states[torch.from_numpy(task.words[examples]), : top + 1].float()


@dataclass(frozen=True)
class Told:
    """What the probes of a task say.

    Attributes:
        task: it.
        best: the likeliest label of each example, by probes of layers 0 to l `[L+1, N]`; -1 where none was asked for.
        sure: its probability `[L+1, N]`.
        gold: the right label's `[L+1, N]`.
        shares: weights s of all layers, of each fold's probe `[folds, L+1]`.
        gammas: their factors `[folds]`.
    """

    task: Task
    best: Whole
    sure: Doubles
    gold: Doubles
    shares: Doubles
    gammas: Doubles

    def counts(self) -> Whole:
        """What the sentences add to the score, by probes of layers 0 to l `[L+1, S, C]`."""
        return np.stack([self.task.count(best) for best in self.best])


def tell(task: Task, settings: Settings, progress: Callable[[str], None]) -> Told:
    """Train a probe of layers 0 to l, for each l, in each fold.

    Args:
        task: what to tell.
        settings: how to train.
        progress: is told what is done.
    """
    layers, size = task.states.shape[1], len(task.gold)
    best = np.full((layers, size), -1)
    sure, gold = np.zeros((layers, size)), np.zeros((layers, size))
    shares, gammas = np.zeros((len(task.folds), layers)), np.zeros(len(task.folds))
    for n, fold in enumerate(task.folds):
        for top in range(layers):
            probe = train_probe(task, fold.train, top, settings)
            found = probabilities(probe, task, fold.test, top)
            best[top, fold.test] = found.argmax(1)
            sure[top, fold.test] = found.max(1)
            gold[top, fold.test] = found[np.arange(len(found)), task.gold[fold.test]]
        progress(f"{task.name}: part {n + 1} of {len(task.folds)} told, by {layers} probes")
        shares[n], gammas[n] = probe.shares().numpy(force=True), float(probe.gamma.detach())  # of all layers
    return Told(task, best, sure, gold, shares, gammas)


def gains(scores: Doubles) -> Doubles:
    """What layers 1 to L add to those below `[..., L+1]` to `[..., L]` (equation 3 of the paper)."""
    found: Doubles = np.diff(scores)
    return found


def expected_layer(scores: Doubles) -> Doubles:
    """Where a task is done: the mean of layers 1 to L by what they add `[..., L+1]` to `[...]` (equation 4).

    NaN where all layers together add nothing.
    """
    added = gains(scores)
    whole = added.sum(-1)
    found: Doubles = np.divide(
        added @ np.arange(1, added.shape[-1] + 1), whole, out=np.full(np.shape(whole), np.nan), where=whole > 0
    )
    return found


def centre_of_gravity(shares: Doubles) -> Doubles:
    """The mean of layers 0 to L by their weights in a probe of all `[..., L+1]` to `[...]`."""
    found: Doubles = shares @ np.arange(shares.shape[-1])
    return found


def drawn_scores(told: Told, seed: int) -> Doubles:
    """Scores of texts whose sentences are drawn out of this one's, with replacement `[DRAWS, L+1]`."""
    counts = told.counts()  # [L+1, S, C]
    size = counts.shape[1]
    random = np.random.default_rng(seed)
    times = random.multinomial(size, np.full(size, 1 / size), DRAWS)  # [DRAWS, S]
    return told.task.score(np.einsum("rs,lsc->rlc", times, counts, optimize=True))


def middle(values: Doubles) -> tuple[float, float] | tuple[None, None]:
    """Both ends of the middle 95 % of what was drawn `[DRAWS]`; None without any."""
    kept = values[~np.isnan(values)]
    if not len(kept):
        return None, None
    low, high = np.percentile(kept, MIDDLE)
    return float(low), float(high)


def folds(sentences: Whole, parts: int, seed: int) -> list[Fold]:
    """Cross-validation: each part of the sentences, drawn at random, is told by probes trained on the others.

    Args:
        sentences: of each example, from 0 `[N]`.
        parts: how many.
        seed: of the draw.
    """
    order = np.random.default_rng(seed).permutation(int(sentences.max()) + 1)
    part = np.empty_like(order)
    part[order] = np.arange(len(order)) % parts
    mine = part[sentences]
    return [Fold(np.flatnonzero(mine != n), np.flatnonzero(mine == n)) for n in range(parts)]
