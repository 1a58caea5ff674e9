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


def vectors(attention: Sequence[Numbers], pairs: Sequence[WordPair]) -> Numbers:
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
