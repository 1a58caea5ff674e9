"""Scores marks of key words: threshold, precision, recall and F1, with bootstrap intervals over documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from align.analysis.data.keyphrases import DEV, TEST, Corpus, Doubles, Marks, runs
from align.analysis.resampling import draw_times, middle
from align.evaluation.tables import Interval


class Plan(NamedTuple):
    """Settings of the measurement."""

    samples: int = 1000  # bootstrap samples of documents; 0 for no intervals
    seed: int = 1  # seed of the bootstrap, of fine-tuning and of random orders
    epochs: int = 3  # epochs of fine-tuning; 0 for none
    rate: float = 3e-4  # peak learning rate
    orders: int = 5  # random orders in which heads are masked


class Score(NamedTuple):
    """Precision, recall and F1 of the marks of all documents together, from 0 to 1, with the interval of F1."""

    precision: float
    recall: float
    f1: float
    interval: Interval | None


class Judged(NamedTuple):
    """Scores of marked words, and of the phrases that they form."""

    words: Score
    phrases: Score


def best_threshold(scores: Doubles, gold: Marks) -> float:
    """Return the score of words `[N]` from which they are marked for the highest F1; the lowest of several."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    right = np.cumsum(gold[order])  # [N]
    f1 = 2 * right / (np.arange(1, len(scores) + 1) + gold.sum())
    f1[:-1][ranked[:-1] == ranked[1:]] = -1  # words of one score are marked together
    return float(ranked[len(f1) - 1 - int(np.argmax(f1[::-1]))])


def f1_of(marks: Marks, gold: Marks) -> float:
    """Return F1 of the marks of words `[N]`."""
    return float(2 * (marks & gold).sum() / max(marks.sum() + gold.sum(), 1))


def score(counts: Sequence[tuple[int, int, int]], samples: int, seed: int) -> Score:
    """Return precision, recall and F1 of all documents together.

    Args:
        counts: number of correct marks, of marks, and of gold marks in each document.
        samples: bootstrap samples of documents; 0 for no interval.
    """
    table = np.array(counts, float).reshape(-1, 3)

    def f1(sums: Doubles) -> Doubles:
        both = sums[:, 1] + sums[:, 2]
        return np.divide(2 * sums[:, 0], both, out=np.zeros(len(sums)), where=both > 0)

    right, marked, gold = table.sum(0)
    drawn = draw_times(len(table), samples, seed) @ table  # [R, 3]
    precision, recall = float(right / max(marked, 1)), float(right / max(gold, 1))
    return Score(precision, recall, float(f1(table.sum(0)[None])[0]), middle(f1(drawn)))


def judge_marks(corpus: Corpus, marks: Marks, samples: int, seed: int) -> Judged:
    """Compare the marks of the test part with gold: words, and runs of words with all phrases that the data lists.

    Args:
        marks: words marked as key words `[N]`.
        samples: bootstrap samples of documents; 0 for no intervals.
    """
    words, phrases = [], []
    for n in corpus.numbers(TEST):
        document, place = corpus.documents[n], corpus.places[n]
        marked, gold = marks[place], corpus.gold[place]
        words.append((int((marked & gold).sum()), int(marked.sum()), int(gold.sum())))
        marked_phrases = runs(document, marked)
        phrases.append((len(marked_phrases & set(document.phrases)), len(marked_phrases), len(document.phrases)))
    return Judged(score(words, samples, seed), score(phrases, samples, seed))


def judge_scores(corpus: Corpus, scores: Doubles, samples: int, seed: int) -> Judged:
    """Judge the words whose score `[N]` reaches the best threshold of the development part, as `judge_marks` does."""
    dev = corpus.within(DEV)
    return judge_marks(corpus, scores >= best_threshold(scores[dev], corpus.gold[dev]), samples, seed)
