"""A fine-tuned marker of key words, and its F1 as heads are masked one after the other."""

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
"""Heads are masked in at most so many steps."""


class Tuned(NamedTuple):
    """How fine-tuning went, and what the model does without some heads.

    Attributes:
        epochs: loss on the training part, and F1 on the development part.
        judged: the best epoch's marks on the test part.
        removed: how many heads are masked, from none to all.
        worst: F1 on the test part as the worst heads go first.
        best: the same, the best first.
        random: the same, in random orders `[R, steps]`.
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
        model: whose framework's own module is trained.
        corpus: texts with keyphrases.
        ranked: cells of the encoder, the best first.
        plan: how.

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
    """Train a marker, and leave it as it was after the epoch that is best on the development part.

    Returns:
        The loss of each epoch and its F1 on the development part, and the score from which on words are marked.
    """
    within = corpus.within(DEV)
    gold = corpus.gold[within]
    epochs: list[tuple[float, float]] = []
    best, threshold, kept = -1.0, 0.0, marker.state_dict()
    for loss in tune(marker, sentences, corpus.gold, plan.epochs, plan.rate, plan.seed):
        scores = predict(marker, dev, len(within))[within]
        chosen = best_threshold(scores, gold)
        epochs.append((loss, f1_of(scores >= chosen, gold)))
        if epochs[-1][1] > best:
            best, threshold, kept = epochs[-1][1], chosen, deepcopy(marker.state_dict())
    marker.load_state_dict(kept)
    return epochs, threshold
