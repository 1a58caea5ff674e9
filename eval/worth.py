"""What links are worth to those who use them: eval/results/EXPERIMENT.worth.tsv and .worth.scores.tsv.

    .venv/bin/python eval/run.py worth --data DIR

For one model and for two, as they are read by default: precision where 90 % of the sure links are found and recall
where 95 % of the links are right, by thresholds on the links' scores; and how often a link of some score is right. A
link is right if gold has it as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from align import Aligner, Direction, Settings, two_way
from align.core.types import Gold
from align.evaluation.metrics import CONFIDENCE, SAMPLES, SEED, count_all, estimate
from align.evaluation.tables import Column, Value, interval, percent
from align.io.signature import signature
from eval.common import Text, find_experiment, load_directions, read_config, read_text, write_table

FLOOR = 0.01
"""Links with a lower score are not looked at."""

RECALL, PRECISION = 0.9, 0.95
"""That of the sure links which are found, and that of the links which are right, at which the other is measured."""

BINS = (0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0)
"""Edges of the scores of which it is counted how often they are right."""

Scored = Sequence[Mapping[tuple[int, int], float]]
"""The links of each pair, with their scores."""


class Curve:
    """Precision and recall of the links whose score is at or above each of K thresholds, of all or of drawn sentences.

    Args:
        scored: links with their scores.
        gold: of the same N sentences.

    Attributes:
        thresholds: all scores that there are, highest first `[K]`.
    """

    def __init__(self, scored: Scored, gold: Sequence[Gold]) -> None:
        links = [
            (score, n, link in gold[n].sure, link in gold[n].possible)
            for n, some in enumerate(scored)
            for link, score in some.items()
        ]
        links.sort(key=lambda link: -link[0])
        columns = np.array(links, dtype=np.float64).reshape(-1, 4)  # [L, 4]
        scores, sentences, self._sure, self._right = columns.T
        self._sentences = sentences.astype(np.int64)
        self._last = np.flatnonzero(np.diff(scores, append=-1))  # of links with equal scores
        self.thresholds = scores[self._last]
        self._wanted = np.array([len(some.sure) for some in gold])

    def __call__(self, drawn: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Precision and recall at each threshold `[K]`; `drawn` says how often each sentence counts `[N]`."""
        times = drawn[self._sentences]
        links, right, sure = (part.cumsum()[self._last] for part in (times, times * self._right, times * self._sure))
        return right / np.maximum(links, 1), sure / (drawn * self._wanted).sum()

    def precision_at(self, recall: float, drawn: NDArray[np.int64]) -> tuple[float, float]:
        """Precision at the highest threshold that reaches a recall, and this threshold; NaN where none does."""
        precisions, recalls = self(drawn)
        reached = np.flatnonzero(recalls >= recall)
        return (precisions[reached[0]], self.thresholds[reached[0]]) if len(reached) else (np.nan, np.nan)

    def recall_at(self, precision: float, drawn: NDArray[np.int64]) -> tuple[float, float]:
        """Recall at the lowest threshold that has a precision, and this threshold; NaN where none has."""
        precisions, recalls = self(drawn)
        kept = np.flatnonzero(precisions >= precision)
        return (recalls[kept[-1]], self.thresholds[kept[-1]]) if len(kept) else (np.nan, np.nan)


def with_interval(measure: Callable[[NDArray[np.int64]], tuple[float, float]], sentences: int) -> dict[str, Value]:
    """Return a measure with its 95 % bootstrap interval over sentences, in percent, and its threshold."""
    draws = np.random.default_rng(SEED).multinomial(sentences, [1 / sentences] * sentences, SAMPLES)
    drawn = np.array([measure(times)[0] for times in draws])
    value, threshold = measure(np.ones(sentences, np.int64))
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.nanpercentile(drawn, [tail, 100 - tail]) if np.isfinite(drawn).any() else (np.nan, np.nan)
    return {"value": percent(value), "interval": interval(percent(low), percent(high)), "threshold": threshold}


def threshold_rows(systems: Mapping[str, Scored], text: Text) -> Iterator[dict[str, Value]]:
    """Yield rows that show what thresholds other than the default are good for."""
    for name, scored in systems.items():
        curve = Curve(scored, text.gold)
        for what, measure in (
            (f"precision where recall is {RECALL:.0%}", lambda times, curve=curve: curve.precision_at(RECALL, times)),
            (
                f"recall where precision is {PRECISION:.0%}",
                lambda times, curve=curve: curve.recall_at(PRECISION, times),
            ),
        ):
            row: dict[str, Value] = {"system": name, "what": what}
            yield row | with_interval(measure, len(text.gold))


def reliability_rows(systems: Mapping[str, Scored], text: Text) -> Iterator[dict[str, Value]]:
    """How often links are right, by their score."""
    for name, scored in systems.items():
        for low, high in pairwise(BINS):
            some = [{link: score for link, score in links.items() if low < score <= high} for links in scored]
            scores = [score for links in some for score in links.values()]
            right, *ends = map(percent, estimate(count_all(map(frozenset, some), text.gold), "precision"))
            row: dict[str, Value] = {"system": name, "from": low, "to": high, "links": len(scores)}
            mean = percent(float(np.mean(scores))) if scores else None
            yield row | {"score": mean, "right": right, "interval": interval(*ends)}


def model_links(experiment: dict[str, Any], data: Path, text: Text) -> dict[str, Scored]:
    """One model's links and two models', as they are read by default but for the threshold."""
    settings = Settings(threshold=FLOOR)
    forward, reverse = (
        Aligner(Direction(some.forward.recorder, settings)) for some in load_directions(experiment, data)
    )
    aligners: dict[str, Aligner] = {
        "one model": forward,
        "two models": two_way(forward, reverse, threshold=FLOOR),
    }
    return {name: [alignment.scores for alignment in aligner(text.pairs)] for name, aligner in aligners.items()}


def columns(*names: str) -> list[Column]:
    """Columns by name; thresholds have three decimals, other figures one."""
    places = {"system": None, "what": None, "links": None, "from": 2, "to": 2, "threshold": 3}
    return [Column(name, name, places.get(name, 1)) for name in names]


def run(data: Path, config: Path, experiment: str, output: Path) -> None:
    """Measure, print, write.

    Raises:
        ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    scored = model_links(about, data, text)
    models = [*about["models"][:1], *about["reverse_models"][:1]]
    sign = signature({"model": models, "gold": "+".join(text.names)}, "worth")
    heads = columns("system", "what", "value", "interval", "threshold")
    write_table(heads, list(threshold_rows(scored, text)), sign, output / f"{experiment}.worth.tsv")
    heads = columns("system", "from", "to", "links", "score", "right", "interval")
    write_table(heads, list(reliability_rows(scored, text)), sign, output / f"{experiment}.worth.scores.tsv")
