"""Tests whether a chunker's attention is exclusive, with adversaries, other seeds and uniform attention.

After Jain and Wallace (2019), Wiegreffe and Pinter (2019), and their extension to tagging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from align.analysis.adversary import losses
from align.analysis.adversary.losses import Distance, adversarial_loss, distance, safe_point
from align.analysis.adversary.tagger import (
    Batch,
    Learning,
    Probe,
    Tagged,
    Tagger,
    Vocabulary,
    learn,
    read,
    tags_of,
    uniform,
)
from align.analysis.data import chunks
from align.analysis.plots import curves
from align.evaluation.metrics import Estimate, estimate
from align.evaluation.tables import Interval, interval, percent
from align.view.findings import Finding, make_table

READ_AT_ONCE = 2000
"""Maximum number of words in a batch outside training."""


class Model(NamedTuple):
    """A trained tagger, its F1 on the test text, and its distance from the original; None for the original."""

    name: str
    tagger: Tagger
    f1: Estimate
    distance: Distance | None
    weight: float | None = None


class Chunking:
    """The chunking task: trains models on one text, and measures them on another."""

    def __init__(self, train: Sequence[chunks.Sentence], test: Sequence[chunks.Sentence], learning: Learning) -> None:
        self._vocabulary = Vocabulary(train)
        self._train = self._vocabulary.batches(train)
        self._test = self._vocabulary.batches(test, READ_AT_ONCE)
        self._gold = [sentence.tags for sentence in test]
        self._learning = learning
        self._uniform = [uniform(batch, learning.heads) for batch in self._train]
        self._uniform_test = [uniform(batch, learning.heads) for batch in self._test]
        self._original: list[losses.Sentence] = []

    def original(self) -> Model:
        """Train the tagger that all others are compared with; must be called first."""
        tagger = learn(Tagger, self._vocabulary, self._train, self._learning)
        outputs = read(tagger, self._test)
        self._original = list(_sentences(outputs, self._test))
        return Model("original", tagger, self._f1(outputs), None)

    def other_seed(self, seed: int) -> Model:
        """Train a tagger with another seed."""
        tagger = learn(Tagger, self._vocabulary, self._train, self._learning._replace(seed=seed))
        return self._model(f"seed {seed}", tagger, read(tagger, self._test))

    def with_uniform_attention(self) -> Model:
        """Train a tagger whose attention is the same for all words."""
        tagger = learn(Tagger, self._vocabulary, self._train, self._learning, attention=self._uniform)
        return self._model("uniform", tagger, read(tagger, self._test, self._uniform_test))

    def adversary(self, original: Model, weight: float, divergence: str) -> Model:
        """Train a tagger, with the next seed, on the original's predictions and away from its attention."""
        outputs_of_original = read(original.tagger, self._train)

        def loss(output: Tagged, batch: Batch, number: int) -> Tensor:
            expected = outputs_of_original[number]
            attention, original_attention = (
                tagged.attention.transpose(1, 2)[batch.mask] for tagged in (output, expected)
            )  # [N, H, T]
            tags, original_tags = output.tags[batch.mask], expected.tags[batch.mask]  # [N, K]
            return adversarial_loss(tags, original_tags, attention, original_attention, weight, divergence)

        learning = self._learning._replace(seed=self._learning.seed + 1)
        tagger = learn(Tagger, self._vocabulary, self._train, learning, loss)
        return self._model(f"adversary {weight:g}", tagger, read(tagger, self._test), weight)

    def probe(self, guide: Model | None) -> Estimate:
        """Return F1 of a perceptron with the attention of a model, or with uniform attention."""
        texts = ((self._train, self._uniform), (self._test, self._uniform_test))
        attention = [
            [output.attention for output in read(guide.tagger, batches)] if guide else even for batches, even in texts
        ]
        probe = learn(Probe, self._vocabulary, self._train, self._learning, attention=attention[0])
        return self._f1(read(probe, self._test, attention[1]))

    def _model(self, name: str, tagger: Tagger, outputs: Sequence[Tagged], weight: float | None = None) -> Model:
        from_original = distance(self._original, _sentences(outputs, self._test))
        return Model(name, tagger, self._f1(outputs), from_original, weight)

    def _f1(self, outputs: Sequence[Tagged]) -> Estimate:
        counts = chunks.count_chunks(self._gold, tags_of(outputs, self._test, self._vocabulary))
        return estimate(counts[:, [0, 0, 1, 2]], "f1")  # as links, all of which are sure


def _sentences(outputs: Sequence[Tagged], batches: Sequence[Batch]) -> Iterator[losses.Sentence]:
    """Yield a model's output for each sentence, without padding."""
    for output, batch in zip(outputs, batches, strict=True):
        probabilities, attention = output.tags.exp().numpy(), output.attention.exp().numpy()
        for b, t in enumerate(batch.mask.sum(1).tolist()):
            yield losses.Sentence(probabilities[b, :t], attention[b, :, :t, :t])


def exclusive(
    train: Sequence[chunks.Sentence],
    test: Sequence[chunks.Sentence],
    weights: Sequence[float],
    divergence: str = "js",
    seeds: Sequence[int] = (2, 3),
    threshold: float | None = None,
    learning: Learning | None = None,
    say: Callable[[str], None] = lambda name: None,
) -> Finding:
    """Train a chunker and its adversaries, and measure how far attention can move.

    Args:
        weights: lambda of each adversary.
        divergence: a key of `align.analysis.adversary.losses.DIVERGENCES`.
        seeds: seeds of taggers that are otherwise the same as the original.
        threshold: total variation distance of the safe point; None for the mean of the other seeds'.
        learning: settings of all trainings; its seed is the original's.
    """

    def report(model: Model) -> Model:
        say(f"{model.name}: F1 {percent(model.f1.value) or 0:.1f}")
        return model

    task = Chunking(train, test, learning or Learning())
    original = report(task.original())
    others = [report(task.other_seed(seed)) for seed in seeds]
    even = report(task.with_uniform_attention())
    adversaries = [report(task.adversary(original, weight, divergence)) for weight in weights]
    distances = [model.distance for model in adversaries if model.distance]
    origin = "as asked for"
    if threshold is None:
        threshold = float(np.mean([model.distance.tvd for model in others if model.distance]))
        origin = "that of the other seeds"
    best = safe_point(distances, threshold)
    safe = None if best is None else adversaries[best]
    guides = {model.name: model for model in (original, safe, adversaries[-1]) if model}
    probes = {"uniform": task.probe(None), **{name: task.probe(model) for name, model in guides.items()}}
    rows = []
    for model in (original, *others, even, *adversaries):
        apart, side = model.distance, ""
        if model.weight is not None and apart:
            closer = best is not None and apart.js <= distances[best].js
            side = "safe point" if model is safe else "before" if closer else "beyond"
        rows.append([model.name, model.weight, *_percents(model.f1), *(apart[:4] if apart else [None] * 4), side])
    point = "no safe point: no adversary has a TVD"
    if best is not None and safe:
        point = f"safe point: JSD {distances[best].js:.3f} ({safe.name}), the largest with a TVD"
    tables = {
        "models": make_table(
            "model | lambda + | f1: F1, % .1 | interval: 95 % interval .1 | tvd: TVD .3 | js: JSD .3 | "
            "matched: JSD, matched .3 | ranks: rank corr. .2 | side: safe",
            rows,
            "TVD of tags, JSD of attention (nats, at most 0.693) and rank correlation: from the original, means over "
            "words",
            "matched: each head against the most similar original head; rank corr.: Spearman, of each row of attention",
            f"{point} of at most {threshold:.3f}, {origin}",
        ),
        "probes": make_table(
            "attention: attention of | f1: F1, % .1 | interval: 95 % interval .1",
            [[name, *_percents(f1)] for name, f1 in probes.items()],
            "probes: perceptrons without positions, guided by the frozen attention of a model",
        ),
    }
    points = {model.name: np.array([model.distance[:4]]) for model in (*others, even) if model.distance}
    points["adversaries"] = np.array([apart[:4] for apart in distances])  # TVD, JSD, JSD matched, rank correlation
    ends = np.array([[0.0, threshold], [points["adversaries"][:, 1].max(), threshold]])
    names = ["adversaries", *(model.name for model in (*others, even))]
    lines = {name: points[name][:, [1, 0]] for name in names} | {"threshold": ends}
    ranks = {"adversaries": points["adversaries"][:, [1, 3]]}
    figures = {
        "curve": curves(lines, "JSD of attention, nats", "TVD of predictions", ""),
        "ranks": curves(ranks, "JSD of attention, nats", "rank correlation of attention", ""),
    }
    return Finding(tables, figures)


def _percents(f1: Estimate) -> tuple[float | None, Interval | None]:
    return percent(f1.value), interval(percent(f1.low), percent(f1.high))
