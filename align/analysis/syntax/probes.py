"""Probes of all attention heads together: of the head of each word, and of pairs of words.

Words are attached to heads (Clark et al. 2019, 5). The score of word j as the head of word i is
`sum_k w_k a_k[i, j] + u_k a_k[j, i]` over all heads of attention k (equation 5). With embeddings v, `w_k` is
`W_k (v_i + v_j)`, where + concatenates, and `u_k` is `U_k (v_i + v_j)` (equation 6). A softmax over all other words
makes it a probability. Both are convex, so that the seed hardly matters.

Pairs of words are classified by the attention between them: dependency or none, and relation (Coenen et al. 2019, 3.1).
The vector of a pair is the attention of the first word to the second in each head, and of the second to the first. One
logistic regression predicts whether either depends on the other, another predicts their relation. The words are in the
order of the text, so that the order does not reveal the head.

Letters: B sentences, K features of a pair of words, n words, E numbers of an embedding, P pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from align.analysis.data.treebank import ROOT, Tree
from align.analysis.maps import Numbers
from align.analysis.resampling import Counts, folds

FOLDS, EPOCHS, BATCH, RATE, DECAY = 5, 30, 16, 0.02, 1e-4

NEVER = -1e9
"""Score of impossible heads: finite, since -inf gives no gradient if a word has no possible head."""

FARTHEST = 10
"""Maximum distance in words as a feature; larger distances are clipped."""


@dataclass(frozen=True)
class Sentence:
    """Features of a sentence, and its gold heads."""

    features: Numbers  # of word i and its possible head j `[K, n, n]`
    heads: Counts  # head of each word, from 0; ROOT for words that are not attached `[n]`
    vectors: Numbers | None = None  # embeddings of the words `[n, E]`; None for a probe without embeddings


def both_directions(attention: Numbers) -> Numbers:
    """Stack attention from each word and attention to it: `[C, n, n]` to `[2C, n, n]`."""
    return np.concatenate((attention, attention.transpose(0, 2, 1)))


def distances(words: int) -> Numbers:
    """Return one-hot features of the distance from i to j, in place of attention `[2 FARTHEST + 1, n, n]`."""
    distance = np.clip(np.arange(words) - np.arange(words)[:, None], -FARTHEST, FARTHEST)
    features: Numbers = (distance == np.arange(-FARTHEST, FARTHEST + 1)[:, None, None]).astype(np.float32)
    return features


class _Batch(NamedTuple):
    """Padded sentences: features `[B, K, n, n]`, vectors `[B, n, E]`, heads `[B, n]`, and a mask of words `[B, n]`."""

    features: Tensor
    vectors: Tensor
    heads: Tensor
    mask: Tensor


class Probe(torch.nn.Module):
    """Scores heads by equation 5 and, with embeddings of a size that is not 0, by equation 6.

    Args:
        scale: divisor of each feature `[K]`.
    """

    def __init__(self, scale: Tensor, size: int) -> None:
        super().__init__()
        self.scale = scale
        self.bias = torch.nn.Parameter(torch.zeros(len(scale)))
        self.of_word = torch.nn.Parameter(torch.zeros(size, len(scale)))
        self.of_head = torch.nn.Parameter(torch.zeros(size, len(scale)))

    def forward(self, batch: _Batch) -> Tensor:
        """Return scores of each word's possible heads `[B, n, n]`; the word itself and padding score NEVER."""
        features = batch.features / self.scale[:, None, None]  # [B, K, n, n]
        scores = torch.einsum("bkij,bik->bij", features, batch.vectors @ self.of_word + self.bias)  # [B, n, n]
        scores = scores + torch.einsum("bkij,bjk->bij", features, batch.vectors @ self.of_head)  # [B, n, n]
        itself = torch.eye(features.shape[2], dtype=torch.bool)
        return scores.masked_fill(itself | ~batch.mask[:, None], NEVER)


def attach(sentences: Sequence[Sentence], seed: int) -> list[Counts]:
    """Predict the heads `[n]` of each sentence, with a probe trained on the folds that do not contain it."""
    predicted: dict[int, Counts] = {}
    numbers = folds(len(sentences), FOLDS, seed)
    for fold in range(FOLDS):
        probe = fit([sentence for sentence, number in zip(sentences, numbers, strict=True) if number != fold], seed)
        for n, sentence in enumerate(sentences):
            if numbers[n] == fold:
                with torch.inference_mode():
                    predicted[n] = probe(_collate([sentence]))[0].argmax(1).numpy()
    return [predicted[n] for n in range(len(sentences))]


def fit(sentences: Sequence[Sentence], seed: int) -> Probe:
    """Train a probe by the negative log-likelihood of the gold heads, by AdamW with a rate that falls to 0."""
    vectors = sentences[0].vectors
    pairs = sum(sentence.features[0].size for sentence in sentences)
    squares = sum(np.square(sentence.features, dtype=np.float64).sum((1, 2)) for sentence in sentences)
    scale = np.sqrt(squares / pairs).clip(1e-9).astype(np.float32)  # the root mean square of each feature
    probe = Probe(torch.from_numpy(scale), 0 if vectors is None else vectors.shape[1])
    optimizer = torch.optim.AdamW(probe.parameters(), lr=RATE, weight_decay=DECAY)
    order = sorted(range(len(sentences)), key=lambda n: len(sentences[n].heads))
    batches = [_collate([sentences[n] for n in order[i : i + BATCH]]) for i in range(0, len(order), BATCH)]
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, EPOCHS * len(batches))
    draw = np.random.default_rng(seed)
    for _ in range(EPOCHS):
        for n in draw.permutation(len(batches)):
            scores, heads = probe(batches[n]).flatten(0, 1), batches[n].heads.flatten()
            loss = cross_entropy(scores, heads, ignore_index=ROOT, reduction="sum") / (heads != ROOT).sum().clamp(min=1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return probe


def _collate(sentences: Sequence[Sentence]) -> _Batch:
    lengths = [len(sentence.heads) for sentence in sentences]
    longest, size = max(lengths), 0 if sentences[0].vectors is None else sentences[0].vectors.shape[1]
    batch = _Batch(
        torch.zeros(len(sentences), len(sentences[0].features), longest, longest),
        torch.zeros(len(sentences), longest, size),
        torch.full((len(sentences), longest), ROOT),
        torch.arange(longest) < torch.tensor(lengths)[:, None],
    )
    for b, (sentence, n) in enumerate(zip(sentences, lengths, strict=True)):
        batch.features[b, :, :n, :n] = torch.from_numpy(sentence.features)
        batch.heads[b, :n] = torch.from_numpy(sentence.heads)
        if sentence.vectors is not None:
            batch.vectors[b, :n] = torch.from_numpy(sentence.vectors)
    return batch


# Pairs of words.

NONE = ""
"""The relation of two words neither of which depends on the other."""


class WordPair(NamedTuple):
    """Two words of a sentence, in the order of the text."""

    sentence: int
    first: int
    second: int
    relation: str


def draw_pairs(trees: Sequence[Tree], seed: int) -> list[WordPair]:
    """Return all dependencies, and for each a random pair of the same sentence without one, if there are any left."""
    draw = np.random.default_rng(seed)
    pairs: list[WordPair] = []
    for n, tree in enumerate(trees):
        edges = {
            (min(i, head), max(i, head)): relation
            for i, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True))
            if head != ROOT
        }
        unrelated = [
            (i, j) for j in range(len(tree.words)) for i in range(j) if (i, j) not in edges
        ]  # a tree: no two words depend on each other
        drawn = draw.choice(len(unrelated), min(len(edges), len(unrelated)), replace=False) if unrelated else ()
        pairs += [WordPair(n, i, j, relation) for (i, j), relation in edges.items()]
        pairs += [WordPair(n, unrelated[k][0], unrelated[k][1], NONE) for k in drawn]
    return pairs


def vectors_of_pairs(attention: Sequence[Numbers], pairs: Sequence[WordPair]) -> Numbers:
    """Return the vectors of P pairs `[P, 2C]`, from the attention in each sentence `[C, n, n]`."""
    one_way = [attention[n][:, i, j] for n, i, j, _ in pairs]
    other_way = [attention[n][:, j, i] for n, i, j, _ in pairs]
    return np.concatenate((np.stack(one_way), np.stack(other_way)), 1)


def distance_vectors(pairs: Sequence[WordPair], farthest: int) -> Numbers:
    """Return one-hot features of the distance between the words, in place of attention `[P, F]`."""
    distances = np.array([min(j - i, farthest) for _, i, j, _ in pairs])
    features: Numbers = (distances[:, None] == np.arange(1, farthest + 1)).astype(np.float32)
    return features


def classify(features: Numbers | None, labels: Sequence[str], sentences: Counts, seed: int) -> NDArray[np.bool_]:
    """Tell which of P pairs a logistic regression classifies correctly, trained on other sentences `[P]`.

    Args:
        features: `[P, F]`, standardised before the regression, whose L2 penalty is scikit-learn's default; None to
            predict the most frequent label.
        sentences: sentence of each pair `[P]`.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model: Any = DummyClassifier(strategy="most_frequent")
    if features is None:
        features = np.zeros((len(labels), 1), np.float32)
    else:
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    fold = folds(int(sentences.max()) + 1, FOLDS, seed)[sentences]  # [P]
    names = np.array(labels)
    right = np.zeros(len(names), bool)
    for test in (fold == n for n in range(FOLDS)):
        if test.any() and len(set(names[~test])) > 1:
            right[test] = model.fit(features[~test], names[~test]).predict(features[test]) == names[test]
    return right
