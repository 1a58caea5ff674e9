"""A tagger of one Transformer layer that shows its attention, or is given another's; it learns in a minute on a core.

Letters: B sentences, T words of the longest, H heads, d head size, D model size, F features of a word, K tags.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from align.analysis.adversary.features import UNKNOWN, Batch, Vocabulary

NEVER = -1e4
"""A logarithm whose number is 0, and which has a gradient all the same."""

LOST = 0.05
"""Of words that are taken for unknown in training, so that their suffix and shape have to do."""


class Tagged(NamedTuple):
    """Logarithms: of tags' probabilities `[B, T, K]`, of attention weights `[B, H, T, T]`, NEVER at pads."""

    tags: Tensor
    attention: Tensor


@dataclass(frozen=True)
class Learning:
    """How models learn.

    Attributes:
        heads: of attention.
        width: D.
        epochs: passes over the training text.
        rate: the highest learning rate; it rises over the first tenth of updates, and falls to 0.
        drop: dropout.
        seed: of weights, dropout, and the order of batches.
    """

    heads: int = 4
    width: int = 128
    epochs: int = 6
    rate: float = 4e-3
    drop: float = 0.2
    seed: int = 1

    def seeded(self, seed: int) -> Learning:
        """The same with another seed."""
        return replace(self, seed=seed)


POSITIONS = 2.0
"""How large positions are beside words: a head finds the word before more easily where they stand out."""


def positions(count: int, width: int) -> Tensor:
    """Sines and cosines of T positions `[T, D]` (Vaswani et al. 2017)."""
    angles = torch.arange(count)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))
    return torch.cat((angles.sin(), angles.cos()), 1)


class Embedding(nn.Module):
    """Words as vectors: the sum over their features, normalised."""

    def __init__(self, sizes: Sequence[int], learning: Learning) -> None:
        super().__init__()
        self.vectors = nn.ModuleList(nn.Embedding(size, learning.width) for size in sizes)
        for vectors in self.vectors:
            nn.init.normal_(vectors.weight, std=learning.width**-0.5)  # type: ignore[arg-type]
        self.norm = nn.LayerNorm(learning.width)
        self.drop = nn.Dropout(learning.drop)

    def forward(self, features: Tensor) -> Tensor:
        """`[B, T, F]` to `[B, T, D]`."""
        if self.training:
            lost = torch.rand(features.shape[:2]) < LOST
            features = torch.cat((features[..., :1].masked_fill(lost[..., None], UNKNOWN), features[..., 1:]), -1)
        x = torch.stack([vectors(features[..., n]) for n, vectors in enumerate(self.vectors)]).sum(0)  # [B, T, D]
        dropped: Tensor = self.drop(self.norm(x))
        return dropped


class Tagger(nn.Module):
    """One post-norm Transformer layer over words and their positions.

    Args:
        vocabulary: of features and tags.
        learning: heads, width and dropout.
    """

    def __init__(self, vocabulary: Vocabulary, learning: Learning) -> None:
        super().__init__()
        width = learning.width
        self.heads = learning.heads
        self.embedding = Embedding(vocabulary.sizes, learning)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.drop = nn.Dropout(learning.drop)
        self.tag = nn.Linear(width, len(vocabulary.tags))

    def forward(self, batch: Batch, given: Tensor | None = None) -> Tagged:
        """Tag a batch.

        Args:
            batch: the sentences.
            given: logarithmic attention weights to use in place of the layer's own `[B, H, T, T]`.
        """
        x = self.embedding(batch.features)
        x = x + POSITIONS * positions(*x.shape[1:])
        logs = self._attention(x, batch.kept) if given is None else given
        context = logs.exp() @ _split(self.value(x), self.heads)  # [B, H, T, d]
        x = self.norms[0](x + self.drop(self.out(_join(context))))
        x = self.norms[1](x + self.drop(self.feed(x)))
        return Tagged(self.tag(x).log_softmax(-1), logs)

    def _attention(self, x: Tensor, kept: Tensor) -> Tensor:
        """Logarithmic weights `[B, H, T, T]`."""
        queries, keys = _split(self.query(x), self.heads), _split(self.key(x), self.heads)
        scores = queries @ keys.transpose(2, 3) / math.sqrt(queries.shape[3])
        return scores.masked_fill(~kept[:, None, None], NEVER).log_softmax(-1)


class Probe(nn.Module):
    """A perceptron over a word's vector and a bag of the sentence's, weighted by attention that it is given.

    It knows no positions: what it learns of a word's neighbours comes through that attention (Wiegreffe and Pinter
    2019, section 3.3).
    """

    def __init__(self, vocabulary: Vocabulary, learning: Learning) -> None:
        super().__init__()
        width = learning.width
        self.heads = learning.heads
        self.embedding = Embedding(vocabulary.sizes, learning)
        self.value = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Dropout(learning.drop))
        self.tag = nn.Linear(2 * width, len(vocabulary.tags))

    def forward(self, batch: Batch, given: Tensor) -> Tagged:
        """Tag a batch with logarithmic attention weights `[B, H, T, T]`."""
        x = self.embedding(batch.features)
        bags = _join(given.exp() @ _split(self.value(x), self.heads))  # [B, T, D]
        return Tagged(self.tag(self.feed(torch.cat((x, bags), -1))).log_softmax(-1), given)


def _split(x: Tensor, heads: int) -> Tensor:
    """`[B, T, D]` to `[B, H, T, d]`."""
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def _join(x: Tensor) -> Tensor:
    """`[B, H, T, d]` to `[B, T, D]`."""
    return x.transpose(1, 2).flatten(2)


def uniform(batch: Batch, heads: int) -> Tensor:
    """Logarithmic weights that are the same for all words of a sentence `[B, H, T, T]`."""
    logs = torch.where(batch.kept, 0.0, NEVER).log_softmax(-1)  # [B, T]
    return logs[:, None, None].expand(-1, heads, batch.kept.shape[1], -1)


Loss = Callable[[Tagged, Batch, int], Tensor]
"""What is to be little, of what a model says of a batch, and the batch's number."""


def gold_loss(found: Tagged, batch: Batch, number: int = 0) -> Tensor:
    """Mean negative log-likelihood of the batch's own tags."""
    return nn.functional.nll_loss(found.tags[batch.kept], batch.tags[batch.kept])


def learn(
    kind: Callable[[Vocabulary, Learning], nn.Module],
    vocabulary: Vocabulary,
    batches: Sequence[Batch],
    learning: Learning,
    loss: Loss = gold_loss,
    given: Sequence[Tensor] | None = None,
) -> Any:
    """A new model that has learnt from batches; the same on one thread whatever was drawn before.

    Args:
        kind: Tagger or Probe.
        vocabulary: of its features and tags.
        batches: what to learn from.
        learning: how.
        loss: what is to be little.
        given: the attention to use in each batch, in place of the model's own.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(learning.seed)
        model = kind(vocabulary, learning).train()
        optimizer = torch.optim.Adam(model.parameters(), learning.rate, (0.9, 0.98))
        updates = learning.epochs * len(batches)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda n: min(10 * (n + 1) / updates, (updates - n) / updates)
        )
        for _ in range(learning.epochs):
            for n in torch.randperm(len(batches)).tolist():
                optimizer.zero_grad()
                torch.autograd.backward(loss(model(batches[n], given[n] if given else None), batches[n], n))
                optimizer.step()
                schedule.step()
    return model.eval().requires_grad_(False)


@torch.no_grad()
def read(model: nn.Module, batches: Iterable[Batch], given: Sequence[Tensor] | None = None) -> list[Tagged]:
    """What a model says of each batch, with its own attention or what it is given."""
    return [model(batch, given[n] if given else None) for n, batch in enumerate(batches)]


def tags_of(found: Sequence[Tagged], batches: Sequence[Batch], vocabulary: Vocabulary) -> list[list[str]]:
    """The likeliest tag of each word, sentences in the order of their text."""
    tags: dict[int, list[str]] = {}
    for one, batch in zip(found, batches, strict=True):
        for row, kept, number in zip(one.tags.argmax(-1), batch.kept, batch.numbers, strict=True):
            tags[number] = [vocabulary.tags[n] for n in row[kept].tolist()]
    return [tags[n] for n in range(len(tags))]
