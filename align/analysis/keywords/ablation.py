"""Fine-tunes an encoder to mark key words, and measures F1 as its heads are masked one after another."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.analysis.data.keyphrases import DEV, TEST, TRAIN, Corpus, Doubles, Marks
from align.analysis.keywords.scores import Judged, Plan, best_threshold, f1_of, judge_marks
from align.analysis.keywords.tuning import Marker, Sentence, own_encoder, predict, read_sentences, seeded, tune
from align.analysis.maps import Inspected
from align.analysis.models.heads import AttentionHead, attention_blocks, masked

STEPS = 6
"""Maximum number of steps in which heads are masked."""


class Tuned(NamedTuple):
    """Results of fine-tuning, and F1 of the model without some heads.

    Attributes:
        epochs: loss on the training part and F1 on the development part, for each epoch.
        judged: scores of the best epoch's marks on the test part.
        removed: numbers of masked heads, from none to all.
        worst: F1 on the test part, with the worst heads masked first.
        best: F1 on the test part, with the best heads masked first.
        random: F1 on the test part, with heads masked in R random orders `[R, steps]`.
    """

    epochs: list[tuple[float, float]]
    judged: Judged
    removed: list[int]
    worst: list[float]
    best: list[float]
    random: Doubles


def ablate(model: Inspected, corpus: Corpus, ranked: NDArray[np.int64], plan: Plan) -> Tuned:
    """Fine-tune a copy of the model's encoder, and mask its heads.

    Args:
        model: model of a framework, whose own module is trained.
        corpus: texts with keyphrases.
        ranked: cells of the encoder, the best first.
        plan: settings of the measurement.

    Raises:
        ValueError: the framework cannot build the model.
        ModuleNotFoundError: the framework is not installed.
    """
    encoder = own_encoder(model)
    sentences = {split: list(read_sentences(corpus, split, encoder.read)) for split in (TRAIN, DEV, TEST)}
    with seeded(plan.seed):
        marker = Marker(encoder)
        epochs, threshold = train(marker, corpus, sentences[TRAIN], sentences[DEV], plan)
    test = corpus.within(TEST)

    def marks() -> Marks:
        return test & (predict(marker, sentences[TEST], len(test)) >= threshold)

    blocks = [block for block in attention_blocks(encoder.module) if block.part == "encoder"]
    heads = model.shape["encoder"][1]
    order = [AttentionHead("encoder", int(cell) // heads + 1, int(cell) % heads + 1) for cell in ranked]
    removed = sorted({round(len(order) * n / STEPS) for n in range(STEPS + 1)})

    @cache
    def without(heads: frozenset[AttentionHead]) -> float:
        with masked(blocks, heads):
            return f1_of(marks()[test], corpus.gold[test])

    def curve(order: Sequence[AttentionHead]) -> list[float]:
        return [without(frozenset(order[:count])) for count in removed]

    numbers = np.random.default_rng(plan.seed)
    random = [curve([order[n] for n in numbers.permutation(len(order))]) for _ in range(plan.orders)]
    judged = judge_marks(corpus, marks(), plan.samples, plan.seed)
    by_order = np.array(random).reshape(len(random), len(removed))
    return Tuned(epochs, judged, removed, curve(order[::-1]), curve(order), by_order)


def train(
    marker: Marker, corpus: Corpus, sentences: Sequence[Sentence], dev: Sequence[Sentence], plan: Plan
) -> tuple[list[tuple[float, float]], float]:
    """Train a marker, and restore its state after the epoch that is best on the development part.

    Returns:
        Loss of each epoch and its F1 on the development part, and the score from which words are marked.
    """
    within = corpus.within(DEV)
    gold = corpus.gold[within]
    epochs: list[tuple[float, float]] = []
    best, threshold, best_state = -1.0, 0.0, marker.state_dict()
    for loss in tune(marker, sentences, corpus.gold, plan.epochs, plan.rate, plan.seed):
        scores = predict(marker, dev, len(within))[within]
        chosen = best_threshold(scores, gold)
        epochs.append((loss, f1_of(scores >= chosen, gold)))
        if epochs[-1][1] > best:
            best, threshold, best_state = epochs[-1][1], chosen, deepcopy(marker.state_dict())
    marker.load_state_dict(best_state)
    return epochs, threshold
