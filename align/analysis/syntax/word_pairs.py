"""Classifies pairs of words by the attention between them: dependency or none, and relation (Coenen et al. 2019, 3.1).

The vector of a pair is the attention of the first word to the second in each head, and of the second to the first. One
logistic regression predicts whether either depends on the other, another predicts their relation. The words are in the
order of the text, so that the order does not reveal the head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.analysis.data.treebank import ROOT, Tree
from align.analysis.maps import Numbers
from align.analysis.resampling import Counts, folds

NONE = ""
"""The relation of two words neither of which depends on the other."""

FOLDS = 5


class WordPair(NamedTuple):
    """Two words of a sentence, in the order of the text."""

    sentence: int
    first: int
    second: int
    relation: str


def draw_pairs(trees: Sequence[Tree], seed: int) -> list[WordPair]:
    """Return all dependencies, and for each a random pair without one from the same sentence, as long as there are any.

    Args:
        trees: N sentences.
        seed: seed of the draws.
    """
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


def vectors(attention: Sequence[Numbers], pairs: Sequence[WordPair]) -> Numbers:
    """Return the vectors of P pairs `[P, 2C]`.

    Args:
        attention: attention in each sentence `[C, n, n]`.
        pairs: P pairs.
    """
    one_way = [attention[n][:, i, j] for n, i, j, _ in pairs]
    other_way = [attention[n][:, j, i] for n, i, j, _ in pairs]
    return np.concatenate((np.stack(one_way), np.stack(other_way)), 1)


def distance_vectors(pairs: Sequence[WordPair], farthest: int) -> Numbers:
    """Return one-hot features of the distance between the words, in place of attention `[P, F]`."""
    distances = np.array([min(j - i, farthest) for _, i, j, _ in pairs])
    features: Numbers = (distances[:, None] == np.arange(1, farthest + 1)).astype(np.float32)
    return features


def classify(features: Numbers, labels: Sequence[str], sentences: Counts, seed: int) -> NDArray[np.bool_]:
    """Tell which pairs a logistic regression classifies correctly, trained on other sentences `[P]`.

    Args:
        features: `[P, F]`.
        labels: P labels.
        sentences: sentence of each pair `[P]`.
        seed: seed of the folds.
    """
    fold = folds(int(sentences.max()) + 1, FOLDS, seed)[sentences]  # [P]
    names = np.array(labels)
    right = np.zeros(len(names), bool)
    for n in range(FOLDS):
        test = fold == n
        if test.any() and len(set(names[~test])) > 1:
            right[test] = regression().fit(features[~test], names[~test]).predict(features[test]) == names[test]
    return right


def regression() -> Any:
    """Return a logistic regression on standardised features, with scikit-learn's default L2 penalty."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def most_frequent(labels: Sequence[str], sentences: Counts, seed: int) -> NDArray[np.bool_]:
    """Tell which pairs have the most frequent label of the other folds, as a baseline `[P]`."""
    fold = folds(int(sentences.max()) + 1, FOLDS, seed)[sentences]
    names = np.array(labels)
    right = np.zeros(len(names), bool)
    for n in range(FOLDS):
        kinds, counts = np.unique(names[fold != n], return_counts=True)
        if len(kinds):
            right[fold == n] = names[fold == n] == kinds[counts.argmax()]
    return right
