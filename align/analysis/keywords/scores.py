"""How well words are marked as key words: the threshold, precision, recall and F1, and intervals over documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from align.analysis.data.keyphrases import DEV, TEST, Corpus, Doubles, Marks, runs
from align.evaluation.tables import Interval

CERTAINTY = 0.95


@dataclass(frozen=True)
class Plan:
    """Settings of the measurement.

    Attributes:
        samples: bootstrap samples of documents; 0 for no intervals.
        seed: seed of the bootstrap, of fine-tuning and of random orders.
        epochs: epochs of fine-tuning; 0 for none.
        rate: peak learning rate.
        orders: random orders in which heads are masked.
    """

    samples: int = 1000
    seed: int = 1
    epochs: int = 3
    rate: float = 3e-4
    orders: int = 5


class Score(NamedTuple):
    """Of the marks of all documents together; all are shares, F1 with both ends of its interval."""

    precision: float
    recall: float
    f1: float
    interval: Interval | None


class Judged(NamedTuple):
    """How well words are marked, and how well the phrases that they make."""

    words: Score
    phrases: Score


def best_threshold(scores: Doubles, gold: Marks) -> float:
    """The score from which on words are to be marked for the best F1; the lowest of several.

    Args:
        scores: of words `[N]`.
        gold: which are key words `[N]`.
    """
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    right = np.cumsum(gold[order])  # [N]
    f1 = 2 * right / (np.arange(1, len(scores) + 1) + gold.sum())
    f1[:-1][ranked[:-1] == ranked[1:]] = -1  # words of one score are marked together
    return float(ranked[len(f1) - 1 - int(np.argmax(f1[::-1]))])


def f1_of(marks: Marks, gold: Marks) -> float:
    """F1 of some words' marks `[N]`."""
    return float(2 * (marks & gold).sum() / max(marks.sum() + gold.sum(), 1))


def draws(documents: int, samples: int, seed: int) -> Doubles:
    """How often each document is in each sample of the bootstrap `[R, D]`."""
    even = np.full(documents, 1 / documents)
    return np.random.default_rng(seed).multinomial(documents, even, size=samples).astype(float)


def ends(values: Doubles) -> Interval | None:
    """The middle 95 % of a bootstrap's values; None of none."""
    if not len(values):
        return None
    low, high = np.nanquantile(values, [(1 - CERTAINTY) / 2, (1 + CERTAINTY) / 2])
    return Interval(float(low), float(high))


def score(counts: Sequence[tuple[int, int, int]], samples: int, seed: int) -> Score:
    """Precision, recall and F1 of documents together.

    Args:
        counts: how many marks are right, how many there are, and how many there should be, of each document.
        samples: of the bootstrap over documents; 0 for no interval.
        seed: of these.
    """
    table = np.array(counts, float).reshape(-1, 3)

    def f1(sums: Doubles) -> Doubles:
        both = sums[:, 1] + sums[:, 2]
        return np.divide(2 * sums[:, 0], both, out=np.zeros(len(sums)), where=both > 0)

    right, given, wanted = table.sum(0)
    drawn = draws(len(table), samples, seed) @ table  # [R, 3]
    return Score(
        float(right / max(given, 1)), float(right / max(wanted, 1)), float(f1(table.sum(0)[None])[0]), ends(f1(drawn))
    )


def judge_marks(corpus: Corpus, marks: Marks, samples: int, seed: int) -> Judged:
    """Compare the marks of the test part with gold: words, and runs of words with all phrases that the data lists.

    Args:
        corpus: of N words.
        marks: which are said to be key words `[N]`.
        samples: of the bootstrap over documents; 0 for no intervals.
        seed: of these.
    """
    words, phrases = [], []
    for n in corpus.numbers(TEST):
        document, place = corpus.documents[n], corpus.places[n]
        given, wanted = marks[place], corpus.gold[place]
        words.append((int((given & wanted).sum()), int(given.sum()), int(wanted.sum())))
        said = runs(document, given)
        phrases.append((len(said & set(document.phrases)), len(said), len(document.phrases)))
    return Judged(score(words, samples, seed), score(phrases, samples, seed))


def judge_scores(corpus: Corpus, scores: Doubles, samples: int, seed: int) -> Judged:
    """The same for words that are marked from a score on `[N]`, which is chosen on the development part."""
    dev = corpus.within(DEV)
    return judge_marks(corpus, scores >= best_threshold(scores[dev], corpus.gold[dev]), samples, seed)
