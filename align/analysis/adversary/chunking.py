"""Tests whether a chunker's attention is exclusive, with adversaries, other seeds and uniform attention.

After Jain and Wallace (2019), Wiegreffe and Pinter (2019), and their extension to tagging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor, nn

from align.analysis.adversary.losses import Distance, Output, adversarial_loss, distance
from align.analysis.adversary.tagger import Batch, Learning, Probe, Tagged, Tagger, Vocabulary, learn, read, uniform
from align.analysis.data.chunks import Sentence, count_chunks
from align.analysis.plots import curves
from align.evaluation.metrics import Estimate, estimate
from align.evaluation.tables import Interval, interval, percent
from align.view.findings import Finding, make_table

READ_AT_ONCE = 2000
"""Maximum number of words in a batch outside training."""


class Model(NamedTuple):
    """A trained tagger, its F1 on the test text, and its distance from the original; None for the original."""

    name: str
    tagger: nn.Module
    f1: Estimate
    distance: Distance | None
    weight: float | None = None


def exclusive(
    train: Sequence[Sentence],
    test: Sequence[Sentence],
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
    settings = learning or Learning()
    vocabulary = Vocabulary(train)
    batches, test_batches = vocabulary.batches(train), vocabulary.batches(test, READ_AT_ONCE)
    even, test_even = ([uniform(batch, settings.heads) for batch in text] for text in (batches, test_batches))
    original_outputs: list[Output] = []

    def score(outputs: Sequence[Tagged]) -> Estimate:
        counts = count_chunks([sentence.tags for sentence in test], vocabulary.best_tags(outputs, test_batches))
        return estimate(counts[:, [0, 0, 1, 2]], "f1")  # as links, all of which are sure

    def measure(
        name: str, tagger: nn.Module, attention: Sequence[Tensor] | None = None, weight: float | None = None
    ) -> Model:
        outputs = read(tagger, test_batches, attention)
        apart = distance(original_outputs, _sentences(outputs, test_batches)) if original_outputs else None
        model = Model(name, tagger, score(outputs), apart, weight)
        say(f"{name}: F1 {percent(model.f1.value) or 0:.1f}")
        return model

    original = measure("original", learn(Tagger, vocabulary, batches, settings))
    original_outputs += _sentences(read(original.tagger, test_batches), test_batches)
    others = [
        measure(f"seed {seed}", learn(Tagger, vocabulary, batches, settings._replace(seed=seed))) for seed in seeds
    ]
    tagger = learn(Tagger, vocabulary, batches, settings, attention=even)
    others.append(measure("uniform", tagger, test_even))

    # Adversaries learn from the original's predictions, with the next seed, and away from its attention.
    expected = read(original.tagger, batches)
    adversaries: list[Model] = []
    for weight in weights:

        def loss(output: Tagged, batch: Batch, number: int, weight: float = weight) -> Tensor:
            said, of_original = (
                (tagged.tags[batch.mask], tagged.attention.transpose(1, 2)[batch.mask])  # [N, K] and [N, H, T]
                for tagged in (output, expected[number])
            )
            return adversarial_loss(said[0], of_original[0], said[1], of_original[1], weight, divergence)

        tagger = learn(Tagger, vocabulary, batches, settings._replace(seed=settings.seed + 1), loss)
        adversaries.append(measure(f"adversary {weight:g}", tagger, weight=weight))

    # The safe point is the largest JSD of attention among the adversaries that say nearly the same.
    origin = "as asked for"
    if threshold is None:
        threshold = float(np.mean([model.distance.tvd for model in others[:-1] if model.distance]))
        origin = "that of the other seeds"
    distances = [model.distance for model in adversaries if model.distance]
    near = [n for n, apart in enumerate(distances) if apart.tvd <= threshold]
    best = max(near, key=lambda n: distances[n].js, default=None)
    point = "no safe point: no adversary has a TVD"
    if best is not None:
        point = f"safe point: JSD {distances[best].js:.3f} ({adversaries[best].name}), the largest with a TVD"

    # Perceptrons that are guided by frozen attention.
    guides = [original, *([] if best is None else [adversaries[best]]), adversaries[-1]]
    attention = {"uniform": (even, test_even)}
    for model in guides:
        of_train, of_test = (read(model.tagger, text) for text in (batches, test_batches))
        attention[model.name] = [tagged.attention for tagged in of_train], [tagged.attention for tagged in of_test]
    probes = []
    for name, (known, test_known) in attention.items():
        probe = learn(Probe, vocabulary, batches, settings, attention=known)
        probes.append([name, *_percents(score(read(probe, test_batches, test_known)))])

    rows = []
    for model in (original, *others, *adversaries):
        apart, side = model.distance, ""
        if model.weight is not None and apart:
            closer = best is not None and apart.js <= distances[best].js
            side = "before" if closer else "beyond"
            side = "safe point" if best is not None and model is adversaries[best] else side
        rows.append([model.name, model.weight, *_percents(model.f1), *(apart[:4] if apart else [None] * 4), side])
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
            probes,
            "probes: perceptrons without positions, guided by the frozen attention of a model",
        ),
    }
    points = np.array([apart[:4] for apart in distances])  # TVD, JSD, JSD matched, rank correlation
    lines = {"adversaries": points[:, [1, 0]]}
    lines |= {model.name: np.array([[model.distance.js, model.distance.tvd]]) for model in others if model.distance}
    lines["threshold"] = np.array([[0.0, threshold], [points[:, 1].max(), threshold]])
    figures = {
        "curve": curves(lines, "JSD of attention, nats", "TVD of predictions", ""),
        "ranks": curves(
            {"adversaries": points[:, [1, 3]]}, "JSD of attention, nats", "rank correlation of attention", ""
        ),
    }
    return Finding(tables, figures)


def _sentences(outputs: Sequence[Tagged], batches: Sequence[Batch]) -> Iterator[Output]:
    """Yield a model's output for each sentence, without padding."""
    for output, batch in zip(outputs, batches, strict=True):
        probabilities, attention = output.tags.exp().numpy(), output.attention.exp().numpy()
        for b, t in enumerate(batch.mask.sum(1).tolist()):
            yield probabilities[b, :t], attention[b, :, :t, :t]


def _percents(f1: Estimate) -> tuple[float | None, Interval | None]:
    return percent(f1.value), interval(percent(f1.low), percent(f1.high))
