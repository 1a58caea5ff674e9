"""What links are worth to those who use them: eval/results/EXPERIMENT.worth.*.

    .venv/bin/python eval/run.py worth --data DIR

For one model, for two, and for eflomal: precision where 90 % of the sure links are
found and recall where 95 % of the links are right, by thresholds on the links' scores; how often a link of some score
is right; and error rates by class of word, length of sentence and distance from the diagonal. A link is right if gold
has it as possible, and is counted with its target word. Models are read as they are by default; statistical aligners
are trained on the first of the experiment's texts, and both directions joined by grow-diag-final-and.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from baselines import Baselines
from common import Text, find_experiment, load_directions, read_config, read_text, read_train, write_table
from numpy.typing import NDArray
from worth_parts import PARTS
from worth_plot import plot

from align import Aligner, Direction, Settings, two_way
from align.core.settings import THRESHOLD
from align.core.types import Gold, Links
from align.evaluation.dialects import ALL_METHODS
from align.evaluation.metrics import CONFIDENCE, SAMPLES, SEED, Counts, count_all, estimate
from align.evaluation.tables import Column, Value, interval, percent
from align.io.signature import signature

FLOOR = 0.01
"""Links with a lower score are not looked at."""

RECALL, PRECISION = 0.9, 0.95
"""That of the sure links which are found, and that of the links which are right, at which the other is measured."""

BINS = (0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0)
"""Edges of the scores of which it is counted how often they are right."""

FREQUENT = 100
"""How many of the most frequent words of a training text count as function words."""

TOOL = "eflomal"
HEURISTICS = ("intersection", "grow-diag", "grow-diag-final-and", "union")

Scored = Sequence[Mapping[tuple[int, int], float]]
"""The links of each pair, with their scores."""


def above(scored: Scored, threshold: float) -> list[Links]:
    """The links of each pair whose score is above a threshold."""
    return [frozenset(link for link, score in links.items() if score > threshold) for links in scored]


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
    """A measure with its 95 % bootstrap interval over sentences, in percent, and its threshold."""
    draws = np.random.default_rng(SEED).multinomial(sentences, [1 / sentences] * sentences, SAMPLES)
    drawn = np.array([measure(times)[0] for times in draws])
    value, threshold = measure(np.ones(sentences, np.int64))
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.nanpercentile(drawn, [tail, 100 - tail]) if np.isfinite(drawn).any() else (np.nan, np.nan)
    return {"value": percent(value), "interval": interval(percent(low), percent(high)), "threshold": threshold}


def threshold_rows(systems: Mapping[str, Scored], text: Text) -> Iterator[dict[str, Value]]:
    """What thresholds other than the default are good for."""
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


def part_rows(
    systems: Mapping[str, Sequence[Links]], text: Text, frequent: frozenset[str]
) -> Iterator[dict[str, Value]]:
    """Error rates of parts of the links."""
    for kind, parts in PARTS.items():
        for part, belongs in parts.items():
            kept = [partial(belongs, pair, frequent) for pair in text.pairs]
            gold = [
                Gold(frozenset(filter(keep, some.sure)), frozenset(filter(keep, some.possible)))
                for keep, some in zip(kept, text.gold, strict=True)
            ]
            for name, links in systems.items():
                mine = [frozenset(filter(keep, some)) for keep, some in zip(kept, links, strict=True)]
                row: dict[str, Value] = {"kind": kind, "part": part, "system": name}
                yield row | rates(count_all(mine, gold))


def rates(counts: Counts) -> dict[str, Value]:
    """Sure links, AER with its interval, precision and recall."""
    aer, low, high = map(percent, estimate(counts))
    row: dict[str, Value] = {"sure": int(counts[:, 3].sum()), "aer": aer, "interval": interval(low, high)}
    return row | {name: percent(estimate(counts, name, samples=0).value) for name in ("precision", "recall")}


def frequent_words(about: dict[str, Any], data: Path) -> frozenset[str]:
    """The most frequent words of the target side of a training text."""
    words = Counter(word for pair in read_train(about, data) for word in pair.target if word.isalpha())
    return frozenset(word for word, _ in words.most_common(FREQUENT))


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
    places = {"from": 2, "to": 2, "threshold": 3}
    words = ("system", "what", "kind", "part", "links", "sure")
    return [Column(name, name, None if name in words else places.get(name, 1)) for name in names]


def run(data: Path, config: Path, experiment: str, baseline_links: Path | None, output: Path) -> None:
    """Measure, print, write, draw.

    Raises:
        ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    train = settings["train"][about["train"][0]]
    scored = model_links(about, data, text)
    baseline = Baselines(data, baseline_links).align(TOOL, train, text)
    heuristics = {name: [ALL_METHODS[name](*links) for links in baseline.links] for name in HEURISTICS}
    systems: dict[str, Sequence[Links]] = {name: above(links, THRESHOLD) for name, links in scored.items()}
    systems[TOOL] = heuristics["grow-diag-final-and"]
    parts: dict[str, str | list[str]] = {
        "model": [*about["models"][:1], *about["reverse_models"][:1]],
        "gold": "+".join(text.names),
        "tool": baseline.tool,
    }
    sign = signature(parts, "worth")
    tables = {
        "worth": (columns("system", "what", "value", "interval", "threshold"), list(threshold_rows(scored, text))),
        "worth.scores": (
            columns("system", "from", "to", "links", "score", "right", "interval"),
            list(reliability_rows(scored, text)),
        ),
        "worth.parts": (
            columns("kind", "part", "system", "sure", "aer", "interval", "precision", "recall"),
            list(part_rows(systems, text, frequent_words(train, data))),
        ),
    }
    for name, (heads, rows) in tables.items():
        print(f"\n{name}\n")
        write_table(heads, rows, sign, output / f"{experiment}.{name}.tsv")
    points = [count_all(links, text.gold).sum(0) for links in heuristics.values()]
    curves = {name: Curve(some, text.gold)(np.ones(len(text.gold), np.int64)) for name, some in scored.items()}
    plot(curves, {TOOL: points}, tables["worth.scores"][1], tables["worth.parts"][1], output / f"{experiment}.worth")
