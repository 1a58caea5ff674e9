"""Tests whether a chunker's attention is exclusive, with adversaries, other seeds and uniform attention.

After Jain and Wallace (2019), Wiegreffe and Pinter (2019), and their extension to tagging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from align.analysis.adversary import losses
from align.analysis.adversary.features import Batch, Vocabulary
from align.analysis.adversary.losses import Distance, adversarial_loss, distance, safe_point
from align.analysis.adversary.tagger import Learning, Probe, Tagged, Tagger, learn, read, tags_of, uniform
from align.analysis.data import chunks
from align.evaluation.metrics import Estimate, estimate
from align.evaluation.tables import Column, Value, interval, percent
from align.view.findings import Finding, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

READ_AT_ONCE = 2000
"""Maximum number of words in a batch outside training."""


@dataclass(frozen=True)
class Asked:
    """Settings of the experiment.

    Attributes:
        weights: lambda of each adversary.
        divergence: a key of `align.analysis.adversary.losses.DIVERGENCES`.
        seeds: seeds of taggers that are otherwise the same as the original.
        threshold: total variation distance of the safe point; None for the mean of the other seeds'.
        learning: settings of all trainings; its seed is the original's.
    """

    weights: Sequence[float]
    divergence: str = "js"
    seeds: Sequence[int] = (2, 3)
    threshold: float | None = None
    learning: Learning = field(default_factory=Learning)


@dataclass(frozen=True)
class Model:
    """A trained tagger, its F1 on the test text, and its distance from the original; None for the original."""

    name: str
    tagger: Tagger
    f1: Estimate
    distance: Distance | None
    weight: float | None = None


class Chunking:
    """The chunking task: trains models on one text, and measures them on another.

    Args:
        train: text to train on.
        test: text to tag.
        learning: settings of all trainings.
    """

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
        tagger = learn(Tagger, self._vocabulary, self._train, self._learning.seeded(seed))
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

        learning = self._learning.seeded(self._learning.seed + 1)
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
    options: Asked,
    say: Callable[[str], None] = lambda name: None,
) -> Finding:
    """Train a chunker and its adversaries, and measure how far attention can move.

    Args:
        train: text to train on.
        test: text to measure on.
        options: settings of the experiment.
        say: receives a message after each model.
    """

    def report(model: Model) -> Model:
        say(f"{model.name}: F1 {percent(model.f1.value) or 0:.1f}")
        return model

    task = Chunking(train, test, options.learning)
    original = report(task.original())
    seeds = [report(task.other_seed(seed)) for seed in options.seeds]
    uniform_attention = report(task.with_uniform_attention())
    adversaries = [report(task.adversary(original, weight, options.divergence)) for weight in options.weights]
    distances = [model.distance for model in adversaries if model.distance]
    threshold = options.threshold
    if threshold is None:
        threshold = float(np.mean([model.distance.tvd for model in seeds if model.distance]))
    best = safe_point(distances, threshold)
    safe = None if best is None else adversaries[best]
    guides = {model.name: model for model in (original, safe, adversaries[-1]) if model}
    probes = {"uniform": task.probe(None), **{name: task.probe(model) for name, model in guides.items()}}
    models = [original, *seeds, uniform_attention, *adversaries]
    return Finding(
        {"models": _model_table(models, safe, threshold, options), "probes": _probe_table(probes)},
        _figures(seeds, uniform_attention, adversaries, threshold),
    )


def _model_table(models: Sequence[Model], safe: Model | None, threshold: float, settings: Asked) -> Table:
    columns = [Column("model", "model"), Column("lambda", "lambda", wide=True), Column("f1", "F1, %", 1)]
    columns += [Column("interval", "95 % interval", 1), Column("tvd", "TVD", 3), Column("js", "JSD", 3)]
    columns += [Column("matched", "JSD, matched", 3), Column("ranks", "rank corr.", 2), Column("side", "safe")]
    rows = [_model_row(model, safe) for model in models]
    origin = "that of the other seeds" if settings.threshold is None else "as asked for"
    notes = [
        "TVD of tags, JSD of attention (nats, at most 0.693) and rank correlation: from the original, means over words",
        "matched: each head against the most similar original head; rank corr.: Spearman, of each row of attention",
    ]
    if safe and safe.distance:
        point = f"safe point: JSD {safe.distance.js:.3f} ({safe.name}), the largest with a TVD"
    else:
        point = "no safe point: no adversary has a TVD"
    return Table(columns, rows, [*notes, f"{point} of at most {threshold:.3f}, {origin}"])


def _model_row(model: Model, safe: Model | None) -> dict[str, Value]:
    row: dict[str, Value] = {"model": model.name, "lambda": model.weight, **_f1_columns(model.f1)}
    apart = model.distance
    row |= {key: _known(getattr(apart, key)) if apart else None for key in ("tvd", "js", "matched", "ranks")}
    if model.weight is None or apart is None:
        return {**row, "side": ""}
    label = "safe point" if model is safe else None
    closer = safe is not None and safe.distance is not None and apart.js <= safe.distance.js
    return {**row, "side": label or ("before" if closer else "beyond")}


def _f1_columns(f1: Estimate) -> dict[str, Value]:
    return {"f1": percent(f1.value), "interval": interval(percent(f1.low), percent(f1.high))}


def _known(value: float) -> float | None:
    return None if value != value else value


def _probe_table(probes: dict[str, Estimate]) -> Table:
    columns = [Column("attention", "attention of"), Column("f1", "F1, %", 1), Column("interval", "95 % interval", 1)]
    rows: list[dict[str, Value]] = [{"attention": name, **_f1_columns(f1)} for name, f1 in probes.items()]
    return Table(columns, rows, ["probes: perceptrons without positions, guided by the frozen attention of a model"])


def _figures(
    seeds: Sequence[Model], same: Model, adversaries: Sequence[Model], threshold: float
) -> dict[str, Callable[[], Figure]]:
    def points(models: Sequence[Model], key: str) -> Any:
        return np.array([(model.distance.js, getattr(model.distance, key)) for model in models if model.distance])

    def draw(key: str, label: str) -> Callable[[], Figure]:
        def figure() -> Figure:
            from align.analysis.plots import curves

            lines = {"adversaries": points(adversaries, key)}
            if key == "tvd":
                lines |= {f"{model.name}": points([model], key) for model in (*seeds, same)}
                ends = [0.0, max(model.distance.js for model in adversaries if model.distance)]
                lines["threshold"] = np.array([(end, threshold) for end in ends])
            return curves(lines, "JSD of attention, nats", label, "")

        return figure

    return {"curve": draw("tvd", "TVD of predictions"), "ranks": draw("ranks", "rank correlation of attention")}
