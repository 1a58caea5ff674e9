"""Is there a dependency between two words, and which? Of the attention of all heads alone (Coenen et al. 2019, 3.1).

A pair of words is a vector: what the first attends to the second in each head, and the second to the first. A logistic
regression says whether one depends on the other, and another one which relation they are in. The words stand in the
order of the text, so that neither tells which of them is the head.
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
    """Two words of a sentence, the first of which stands before the second."""

    sentence: int
    first: int
    second: int
    relation: str


def draw_pairs(trees: Sequence[Tree], seed: int) -> list[WordPair]:
    """All dependencies, and for each a pair of words of the same sentence without one, if there is any left.

    Args:
        trees: N sentences.
        seed: of the draws.
    """
    draw = np.random.default_rng(seed)
    pairs: list[WordPair] = []
    for n, tree in enumerate(trees):
        edges = {
            (min(i, head), max(i, head)): relation
            for i, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True))
            if head != ROOT
        }
        others = [
            (i, j) for j in range(len(tree.words)) for i in range(j) if (i, j) not in edges
        ]  # a tree: no two words depend on each other
        drawn = draw.choice(len(others), min(len(edges), len(others)), replace=False) if others else ()
        pairs += [WordPair(n, i, j, relation) for (i, j), relation in edges.items()]
        pairs += [WordPair(n, others[k][0], others[k][1], NONE) for k in drawn]
    return pairs


def vectors(attention: Sequence[Numbers], pairs: Sequence[WordPair]) -> Numbers:
    """The vector of each of P pairs `[P, 2C]`.

    Args:
        attention: of each sentence `[C, n, n]`.
        pairs: P.
    """
    one_way = [attention[n][:, i, j] for n, i, j, _ in pairs]
    other_way = [attention[n][:, j, i] for n, i, j, _ in pairs]
    return np.concatenate((np.stack(one_way), np.stack(other_way)), 1)


def distance_vectors(pairs: Sequence[WordPair], farthest: int) -> Numbers:
    """How far apart the words are, in place of attention: one feature for each distance `[P, F]`."""
    distances = np.array([min(j - i, farthest) for _, i, j, _ in pairs])
    features: Numbers = (distances[:, None] == np.arange(1, farthest + 1)).astype(np.float32)
    return features


def classify(features: Numbers, labels: Sequence[str], sentences: Counts, seed: int) -> NDArray[np.bool_]:
    """Which pairs a logistic regression classifies rightly that was trained on other sentences.

    Args:
        features: `[P, F]`.
        labels: P of them.
        sentences: that the pairs are of `[P]`.
        seed: of the folds.
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
    """A logistic regression with scikit-learn's own L2 penalty, of features of one scale."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def most_frequent(labels: Sequence[str], sentences: Counts, seed: int) -> NDArray[np.bool_]:
    """The baseline: which pairs have the label that is the most frequent in the other folds."""
    fold = folds(int(sentences.max()) + 1, FOLDS, seed)[sentences]
    names = np.array(labels)
    right = np.zeros(len(names), bool)
    for n in range(FOLDS):
        kinds, counts = np.unique(names[fold != n], return_counts=True)
        if len(kinds):
            right[fold == n] = names[fold == n] == kinds[counts.argmax()]
    return right
