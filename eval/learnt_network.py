"""The network of `learnt`: word vectors of frozen translation models in, how likely words are each other's match out.

Letters: B batch, J target words, I source words, N of either side, each with NULL before them; P pieces of a sentence;
D size of a state, H heads, d their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

HEADS, HEAD, LEXICON = 8, 32, 64
"""Similarities, and the size of vectors: that a head compares, that predict pieces."""

LOWEST = 0.1
"""Soft links below this are none."""

RATE, WEIGHT = 3e-3, 0.1
"""The highest learning rate, and what predicting pieces counts in the loss."""


class Words(NamedTuple):
    """One side of a batch.

    Attributes:
        vectors: means of the states of each word's pieces `[B, N, D]`; in bfloat16, to be kept.
        there: which are words of the pair, or NULL `[B, N]`.
        pieces: ids `[B, P]`.
        parts: what each piece is of a word, 1 by their number `[B, N, P]`.
    """

    vectors: Tensor
    there: Tensor
    pieces: Tensor
    parts: Tensor


class Sample(NamedTuple):
    """A batch: both sides, and the soft links to learn from `[B, J - 1, I - 1]`."""

    source: Words
    target: Words
    links: Tensor


class Tower(nn.Module):
    """One side's words.

    Args:
        size: D of its states.
        pieces: in the other side's dictionary.
    """

    def __init__(self, size: int, pieces: int) -> None:
        super().__init__()
        width = HEADS * HEAD
        self.hidden = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, width), nn.GELU())
        self.heads, self.lexicon = nn.Linear(width, width), nn.Linear(width, LEXICON)
        self.pieces = nn.Linear(LEXICON, pieces)

    def forward(self, words: Words, other: Words) -> tuple[Tensor, Tensor, Tensor]:
        """What the heads compare `[B, H, N, d]`; what the words predict of the other side's words, and of all pieces.

        Predictions are logits of the other side's words, means over their pieces `[B, N, N']`, and the logarithm of
        what all pieces that the batch has on that side come to `[B, N, 1]`.
        """
        hidden = self.hidden(words.vectors.float())  # [B, N, H d]
        heads = self.heads(hidden).unflatten(-1, (HEADS, HEAD)).transpose(1, 2)
        of_lexicon = self.lexicon(hidden)
        weight, bias = self.pieces.weight, self.pieces.bias
        logits = of_lexicon @ weight[other.pieces].mT + bias[other.pieces][:, None]  # [B, N, P]
        batch = other.pieces.unique()  # type: ignore[no-untyped-call]
        total = functional.linear(of_lexicon, weight[batch], bias[batch]).logsumexp(2, keepdim=True)
        return heads, logits @ other.parts.float().mT, total


class Network(nn.Module):
    """Scores of word pairs.

    Args:
        sizes: D of the source and of the target side's states.
        pieces: in either side's dictionary.
    """

    def __init__(self, sizes: tuple[int, int], pieces: tuple[int, int]) -> None:
        super().__init__()
        self.source, self.target = Tower(sizes[0], pieces[1]), Tower(sizes[1], pieces[0])
        channels = HEADS + 2
        self.convolutions = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.last = nn.Conv2d(channels, 1, 1)

    def forward(self, source: Words, target: Words) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Logarithms of probabilities, all `[B, J, I]`.

        Returns:
            Of source words given the target word; of target words given the source word; of a target word's pieces,
            and of a source word's, given the word of the other side, among those of the batch.
        """
        of_source, forward, forward_total = self.source(source, target)  # of either [B, I, J]
        of_target, reverse, reverse_total = self.target(target, source)  # of either [B, J, I]
        similar = of_target @ of_source.mT / HEAD**0.5  # [B, H, J, I]
        scores = torch.cat([similar, forward.mT[:, None], reverse[:, None]], 1)
        there = (target.there[:, None, :, None] & source.there[:, None, None, :]).float()
        for convolution in self.convolutions:
            scores = scores + convolution(functional.gelu(scores) * there)
        last = self.last(scores)[:, 0]  # [B, J, I]
        lowest = torch.finfo(last.dtype).min
        sources = last.masked_fill(~source.there[:, None, :], lowest).log_softmax(2)
        targets = last.masked_fill(~target.there[:, :, None], lowest).log_softmax(1)
        return sources, targets, (forward - forward_total).mT, reverse - reverse_total

    @torch.no_grad()
    def scores(self, source: Words, target: Words) -> Tensor:
        """The mean of both directions' probabilities, without NULL `[B, J - 1, I - 1]`."""
        sources, targets, *_ = self(source, target)
        mean: Tensor = (sources.exp() + targets.exp())[:, 1:, 1:] / 2
        return mean


def loss(network: Network, sample: Sample) -> Tensor:
    """Cross entropy against the soft links, of the words that are linked and of their pieces."""
    source, target, links = sample
    sources, targets, forward, reverse = network(source, target)
    wanted = links.float() * (links > LOWEST)
    rows = _with_null(wanted, 2) * target.there[:, 1:, None]  # [B, J - 1, I]
    columns = _with_null(wanted, 1) * source.there[:, None, 1:]  # [B, J, I - 1]
    of_words = (rows * sources[:, 1:]).sum(2), (columns * targets[:, :, 1:]).sum(1)
    of_pieces = (rows * reverse[:, 1:])[:, :, 1:].sum(2), (columns * forward[:, :, 1:])[:, 1:].sum(1)
    logs = (words + WEIGHT * parts for words, parts in zip(of_words, of_pieces, strict=True))
    counts = target.there[:, 1:].sum(), source.there[:, 1:].sum()
    return -sum((some.sum() / count for some, count in zip(logs, counts, strict=True)), torch.zeros(()))


def _with_null(links: Tensor, axis: int) -> Tensor:
    """Shares of an axis, after NULL has been put before it, which gets what has no link."""
    total = links.sum(axis, keepdim=True)
    return torch.cat([(total == 0).float(), links], axis) / total.where(total > 0, 1)


def train(network: Network, samples: Sequence[Sample], seed: int) -> None:
    """One epoch over shuffled batches, by AdamW; the learning rate rises over a tenth of them and falls to nothing."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=len(samples) + 1, pct_start=0.1)
    for sample in Random(seed).sample(samples, len(samples)):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            found = loss(network, sample)
        found.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
