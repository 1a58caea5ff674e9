"""A tagger of one Transformer layer that returns its attention, or uses another's; trains in a minute on one core.

Letters: B sentences, T words of the longest, H heads, d head size, D model size, F features of a word, K tags.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss
from torch.nn.utils.rnn import pad_sequence

from align.analysis.data.chunks import Sentence

UNKNOWN = 1
"""Id of unknown values; 0 is padding."""

SUFFIX = 3
"""Length in letters of the suffix feature."""

WORDS_IN_BATCH = 700
"""Maximum number of words in a training batch, padding included."""


def shape_of(word: str) -> str:
    """Return the shape of a word: A, a and 0 for runs of capitals, small letters and digits, others once per run."""
    kinds = ("A" if c.isupper() else "a" if c.isalpha() else "0" if c.isdigit() else c for c in word)
    return "".join(kind for kind, _ in groupby(kinds))[:6]


FEATURES: tuple[tuple[Callable[[str], str], int], ...] = (
    (str.lower, 2),
    (lambda word: word.lower()[-SUFFIX:], 3),
    (shape_of, 5),
)
"""Features of a word, the word itself first, each with the minimum count of a value that has its own vector."""


class Batch(NamedTuple):
    """Sentences of similar length."""

    features: Tensor  # ids `[B, T, F]`
    tags: Tensor  # ids `[B, T]`
    mask: Tensor  # mask of words that are not padding `[B, T]`
    numbers: list[int]  # indices of the sentences in their text, from 0


class Vocabulary:
    """Ids of the feature values and tags of a training text.

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

        A tag that is not in the training text has the id of the first tag: such text can be tagged, but not learnt.
        """
        groups: list[list[int]] = [[]]
        for n in sorted(range(len(sentences)), key=lambda n: len(sentences[n].words)):
            if groups[-1] and len(sentences[n].words) * (len(groups[-1]) + 1) > words:
                groups.append([])
            groups[-1].append(n)
        tag_ids = {tag: n for n, tag in enumerate(self.tags)}
        made = []
        for numbers in groups:
            words_of = [sentences[n].words for n in numbers]
            features = [torch.tensor([self._features(word) for word in text]) for text in words_of]
            tags = [torch.tensor([tag_ids.get(tag, 0) for tag in sentences[n].tags]) for n in numbers]
            lengths = torch.tensor([[len(text)] for text in words_of])
            padded = pad_sequence(features, batch_first=True)  # [B, T, F]
            mask = torch.arange(padded.shape[1]) < lengths
            made.append(Batch(padded, pad_sequence(tags, batch_first=True), mask, numbers))
        return made

    def _features(self, word: str) -> list[int]:
        return [ids.get(feature(word), UNKNOWN) for ids, (feature, _) in zip(self._ids, FEATURES, strict=True)]

    def best_tags(self, outputs: Sequence[Tagged], batches: Sequence[Batch]) -> list[list[str]]:
        """Return the most likely tag of each word, with sentences in the order of their text."""
        tags: dict[int, list[str]] = {}
        for output, batch in zip(outputs, batches, strict=True):
            for row, mask, number in zip(output.tags.argmax(-1), batch.mask, batch.numbers, strict=True):
                tags[number] = [self.tags[n] for n in row[mask].tolist()]
        return [tags[n] for n in range(len(tags))]


NEVER = -1e4
"""Logarithm of a weight of 0: finite, so that it has a gradient."""

LOST = 0.05
"""Share of words that are replaced by the unknown word in training, so that suffix and shape are learnt."""


class Tagged(NamedTuple):
    """Log-probabilities of tags `[B, T, K]`, and logarithms of attention weights `[B, H, T, T]`, NEVER at padding."""

    tags: Tensor
    attention: Tensor


class Learning(NamedTuple):
    """Settings of the training."""

    heads: int = 4
    width: int = 128  # D
    epochs: int = 6
    rate: float = 4e-3  # peak learning rate; it rises over the first tenth of updates, and falls to 0
    drop: float = 0.2  # dropout
    seed: int = 1  # seed of weights, dropout, and the order of batches


POSITIONS = 2.0
"""Factor of positions relative to words: with large positions a head finds the previous word more easily."""


def positions(count: int, width: int) -> Tensor:
    """Return sines and cosines of T positions `[T, D]` (Vaswani et al. 2017)."""
    angles = torch.arange(count)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))
    return torch.cat((angles.sin(), angles.cos()), 1)


class Embedding(nn.Module):
    """Embeds words: the sum of the vectors of their features, normalised."""

    def __init__(self, sizes: Sequence[int], learning: Learning) -> None:
        super().__init__()
        self.vectors = nn.ModuleList(nn.Embedding(size, learning.width) for size in sizes)
        for vectors in self.vectors:
            nn.init.normal_(vectors.weight, std=learning.width**-0.5)  # type: ignore[arg-type]
        self.norm = nn.LayerNorm(learning.width)
        self.drop = nn.Dropout(learning.drop)

    def forward(self, features: Tensor) -> Tensor:
        """Embed feature ids `[B, T, F]` as vectors `[B, T, D]`."""
        if self.training:
            lost = torch.rand(features.shape[:2]) < LOST
            features = torch.cat((features[..., :1].masked_fill(lost[..., None], UNKNOWN), features[..., 1:]), -1)
        x = torch.stack([vectors(features[..., n]) for n, vectors in enumerate(self.vectors)]).sum(0)  # [B, T, D]
        dropped: Tensor = self.drop(self.norm(x))
        return dropped


class Tagger(nn.Module):
    """One post-norm Transformer layer over words and their positions."""

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

    def forward(self, batch: Batch, attention: Tensor | None = None) -> Tagged:
        """Tag a batch, if given with logarithms of attention weights in place of the layer's own `[B, H, T, T]`."""
        x = self.embedding(batch.features)
        x = x + POSITIONS * positions(*x.shape[1:])
        logs = attention
        if logs is None:
            queries, keys = _split(self.query(x), self.heads), _split(self.key(x), self.heads)
            scores = queries @ keys.transpose(2, 3) / math.sqrt(queries.shape[3])
            logs = scores.masked_fill(~batch.mask[:, None, None], NEVER).log_softmax(-1)
        context = logs.exp() @ _split(self.value(x), self.heads)  # [B, H, T, d]
        x = self.norms[0](x + self.drop(self.out(_join(context))))
        x = self.norms[1](x + self.drop(self.feed(x)))
        return Tagged(self.tag(x).log_softmax(-1), logs)


class Probe(nn.Module):
    """A perceptron over a word's vector and a bag of the sentence's vectors, weighted by the attention passed to it.

    It has no positions: all that it learns about a word's neighbours comes through that attention (Wiegreffe and Pinter
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

    def forward(self, batch: Batch, attention: Tensor) -> Tagged:
        """Tag a batch with these logarithms of attention weights `[B, H, T, T]`."""
        x = self.embedding(batch.features)
        bags = _join(attention.exp() @ _split(self.value(x), self.heads))  # [B, T, D]
        return Tagged(self.tag(self.feed(torch.cat((x, bags), -1))).log_softmax(-1), attention)


def _split(x: Tensor, heads: int) -> Tensor:
    """Split heads: `[B, T, D]` to `[B, H, T, d]`."""
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def _join(x: Tensor) -> Tensor:
    """Join heads: `[B, H, T, d]` to `[B, T, D]`."""
    return x.transpose(1, 2).flatten(2)


def uniform(batch: Batch, heads: int) -> Tensor:
    """Return logarithms of weights that are the same for all words of a sentence `[B, H, T, T]`."""
    logs = torch.where(batch.mask, 0.0, NEVER).log_softmax(-1)  # [B, T]
    return logs[:, None, None].expand(-1, heads, batch.mask.shape[1], -1)


def learn(
    kind: Callable[[Vocabulary, Learning], nn.Module],
    vocabulary: Vocabulary,
    batches: Sequence[Batch],
    learning: Learning,
    loss: Callable[[Tagged, Batch, int], Tensor] | None = None,
    attention: Sequence[Tensor] | None = None,
) -> Any:
    """Train a new Tagger or Probe; on one thread the result depends on nothing random but the seed.

    Args:
        loss: of a model's output for a batch, and the number of the batch; None for that of the batch's own tags.
        attention: logarithms of attention weights in each batch, in place of the model's own.
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
                batch = batches[n]
                output = model(batch, attention[n] if attention else None)
                losses = loss(output, batch, n) if loss else nll_loss(output.tags[batch.mask], batch.tags[batch.mask])
                optimizer.zero_grad()
                torch.autograd.backward(losses)
                optimizer.step()
                schedule.step()
    return model.eval().requires_grad_(False)


@torch.no_grad()
def read(model: nn.Module, batches: Iterable[Batch], attention: Sequence[Tensor] | None = None) -> list[Tagged]:
    """Return a model's output for each batch, with its own attention or the given one."""
    return [model(batch, attention[n] if attention else None) for n, batch in enumerate(batches)]
