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
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from baselines import Baselines
from common import Text, find_experiment, load_directions, read_config, read_text, read_train, write_table
from matplotlib.figure import Figure
from numpy.typing import NDArray

from align import Aligner, Direction, Settings, two_way
from align.core.types import THRESHOLD, Gold, Links, Pair
from align.evaluation.dialects import ALL_METHODS
from align.evaluation.metrics import CONFIDENCE, SAMPLES, SEED, Counts, count_all, estimate, precision, recall
from align.evaluation.tables import Column, Interval, Value, interval, percent
from align.io.signature import signature
from align.view.plots import in_style, save

Link = tuple[int, int]

Belongs = Callable[[Pair, frozenset[str], Link], bool]
"""Whether a link of a pair belongs to a part, given the target language's most frequent words in lower case."""


def word_class(words: tuple[str, ...], place: int, frequent: frozenset[str]) -> str:
    """What kind of word stands at a place: a name has a capital, but not because it begins a sentence."""
    word = words[place]
    if any(map(str.isdigit, word)):
        return "number"
    if not any(map(str.isalpha, word)):
        return "punctuation"
    if word.lower() in frequent:
        return "function word"
    begins = not any(letter.isalpha() for before in words[:place] for letter in before)
    return "name" if word[0].isupper() and not begins else "content word"


def is_class(name: str, pair: Pair, frequent: frozenset[str], link: Link) -> bool:
    """Whether a link's target word is of a class."""
    return word_class(pair.target, link[1], frequent) == name


def is_length(least: int, most: int, pair: Pair, frequent: frozenset[str], link: Link) -> bool:
    """Whether a link's source sentence has so many words."""
    return least <= len(pair.source) <= most


def is_distance(least: float, most: float, pair: Pair, frequent: frozenset[str], link: Link) -> bool:
    """Whether a link is so far from the diagonal, as a share of the sentence."""
    i, j = ((place + 0.5) / len(words) for place, words in zip(link, (pair.source, pair.target), strict=True))
    return least <= abs(i - j) < most


CLASSES = ("content word", "function word", "name", "number", "punctuation")
LENGTHS = {"up to 10": (0, 10), "11 to 20": (11, 20), "21 to 30": (21, 30), "over 30": (31, 1 << 31)}
DISTANCES = {"under 0.05": (0, 0.05), "0.05 to 0.15": (0.05, 0.15), "0.15 to 0.3": (0.15, 0.3), "over 0.3": (0.3, 2)}

PARTS: dict[str, dict[str, Belongs]] = {
    "target word": {name: partial(is_class, name) for name in CLASSES},
    "words of the source": {name: partial(is_length, *ends) for name, ends in LENGTHS.items()},
    "distance from the diagonal": {name: partial(is_distance, *ends) for name, ends in DISTANCES.items()},
}
"""All parts, by what they are parts of."""


COLOURS = {
    "two models": "tab:orange",
    "one model": "tab:blue",
    "eflomal": "tab:green",
}
"""Of the systems."""

Row = Mapping[str, Value]
Shares = NDArray[np.float64]


@in_style
def plot(
    curves: Mapping[str, tuple[Shares, Shares]],
    points: Mapping[str, Sequence[NDArray[np.int64]]],
    scores: Sequence[Row],
    parts: Sequence[Row],
    path: Path,
) -> list[Path]:
    """Draw all of it into one figure.

    Args:
        curves: precision and recall of each model over thresholds.
        points: counts of each statistical aligner's links by heuristic `[4]`.
        scores: rows of `worth.scores`.
        parts: rows of `worth.parts`.
        path: of the files without suffix.
    """
    figure = Figure(figsize=(7.2, 8.4), layout="constrained")
    grid = figure.add_gridspec(3, 2, height_ratios=(3, 2, 2))
    _trade_off(figure.add_subplot(grid[0, 0]), curves, points)
    _reliability(figure.add_subplot(grid[0, 1]), scores)
    kinds = [(kind, list(rows)) for kind, rows in groupby(parts, lambda row: str(row["kind"]))]
    places = (grid[1, :], grid[2, 0], grid[2, 1])
    for (kind, rows), place in zip(kinds, places, strict=True):
        _bars(figure.add_subplot(place), kind, rows)
    return save(figure, path)


def _trade_off(
    axes: Any, curves: Mapping[str, tuple[Shares, Shares]], points: Mapping[str, Sequence[NDArray[np.int64]]]
) -> None:
    for name, (precisions, recalls) in curves.items():
        axes.plot(100 * recalls, 100 * precisions, color=COLOURS[name], linewidth=1.2, label=name)
    for name, counts in points.items():
        shares = sorted((100 * float(recall(some)), 100 * float(precision(some))) for some in counts)
        axes.plot(*zip(*shares, strict=True), ":", marker="o", markersize=3, color=COLOURS[name], label=name)
    axes.set(xlim=(50, 100), ylim=(50, 100), xlabel="recall of sure links, %", ylabel="precision, %")
    axes.set_title("thresholds; heuristics of statistical aligners")
    axes.grid(visible=True, linewidth=0.3)
    axes.legend(frameon=False, loc="lower left")


def _reliability(axes: Any, rows: Sequence[Row]) -> None:
    axes.plot((0, 100), (0, 100), color="black", linewidth=0.6, linestyle=":")
    for name, some in groupby(rows, lambda row: str(row["system"])):
        known = [(row["score"], row["right"], row["interval"]) for row in some]
        shown = np.array([(x, y, *ends) for x, y, ends in known if isinstance(ends, Interval)]).reshape(-1, 4)
        x, y, low, high = shown.T
        axes.errorbar(
            x, y, yerr=(y - low, high - y), color=COLOURS[name], linewidth=1.2, elinewidth=0.6, marker=".", label=name
        )
    axes.set(xlim=(0, 100), ylim=(0, 100), xlabel="score × 100", ylabel="links that are right, %")
    axes.set_title("is a link of score 0.8 right 80 % of the time?")
    axes.grid(visible=True, linewidth=0.3)


def _bars(axes: Any, kind: str, rows: Sequence[Row]) -> None:
    names = list(dict.fromkeys(str(row["part"]) for row in rows))
    systems = list(dict.fromkeys(str(row["system"]) for row in rows))
    width = 0.8 / len(systems)
    for n, system in enumerate(systems):
        values = [row["aer"] for row in rows if row["system"] == system]
        places = np.arange(len(names)) + (n - (len(systems) - 1) / 2) * width
        axes.bar(places, [np.nan if v is None else float(str(v)) for v in values], width, color=COLOURS[system])
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("AER, %")
    axes.set_title(kind)
    axes.grid(visible=True, axis="y", linewidth=0.3)


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
