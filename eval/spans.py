"""How often tags come to stand where gold links have them, by the window rule, and by the outermost links of a span.

Tags are drawn, with a fixed seed, around spans of 1 to 6 words whose gold links (sure or possible) lead to a run of
target words that no other word is linked with: single, one in another, two side by side; and points between two words,
wherever the target has a place that no gold link crosses. A window is right if both of its edges are, a point if it is
in such a place. Intervals and tests draw and swap sentences.

The rule's free choices are read off dev84 (or what the experiment's gold begins with) in EXPERIMENT.spans_rule.tsv.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from baselines import Baselines
from common import PERMUTATIONS, Text, find_experiment, load_model, read_config, read_text, write_table

from align import Aligner, Direction, two_way
from align.core.types import THRESHOLD, Gold, Pair, Settings
from align.evaluation.dialects import ALL_METHODS
from align.evaluation.metrics import SEED, Counts, compare, estimate
from align.evaluation.tables import Column, Value, interval, percent
from align.io.signature import signature
from align.transfer.markup import PUNCTUATION, place_markup
from align.transfer.tags import read_markup
from align.transfer.windows import FLOOR, OUTSIDE, Window

Links = Mapping[tuple[int, int], float]
"""Links of a sentence pair with their scores; 1 where they have none."""


def model_scores(about: dict[str, Any], data: Path, text: Text) -> tuple[dict[str, list[Links]], list[str]]:
    """All soft scores of each sentence, by the experiment's first models together and by its first one alone.

    Returns:
        The scores, and the models' own names.
    """
    forward, reverse = (load_model(about[key][0], data, "cpu").forward.recorder for key in ("models", "reverse_models"))
    sharp = Settings(threshold=None)
    aligners: dict[str, Aligner] = {
        "two models": two_way(Aligner(Direction(forward, sharp)), Aligner(Direction(reverse, sharp)), threshold=0.0),
        "one model": Aligner(Direction(forward, Settings(threshold=0.0))),
    }
    found = {name: [one.scores for one in aligner(text.pairs)] for name, aligner in aligners.items()}
    return found, [forward.name, reverse.name]


def above(scores: Sequence[Links], floor: float) -> list[Links]:
    """Those of the scores of each sentence that are above a floor."""
    return [{link: score for link, score in some.items() if score > floor} for some in scores]


def links_of(scores: Sequence[Links]) -> list[Links]:
    """The links that `extract-align` makes of all soft scores."""
    return [dict.fromkeys(some, 1.0) for some in above(scores, THRESHOLD)]


LONGEST = 6
DRAWN = {"single": 4, "nested": 2, "adjacent": 2, "point": 4}
"""How many of each kind a sentence has at most."""

TOOL, SYMMETRIZED = "eflomal", "grow-diag-final-and"
"""The statistical aligner beside the models, and how its directions are joined."""

KINDS = ("single", "nested", "adjacent", "point")
OUTSIDES, PUNCTUATIONS, FLOORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0), (0.0, 0.25, 0.5, 1.0, 2.0), (0.0, 0.01, 0.05, 0.2)


@dataclass(frozen=True)
class Task:
    """A sentence with one or two tags.

    Attributes:
        sentence: its number, from 0.
        kind: of KINDS.
        spans: of source words, each with a tag around it; a point is twice the word behind it.
        gold: for each, the window that is right; for a point, the first and the last place that no gold link crosses.
    """

    sentence: int
    kind: str
    spans: tuple[Window, ...]
    gold: tuple[Window, ...]


def windows_of(gold: Gold, words: int) -> dict[Window, Window]:
    """The spans whose gold links lead to a run of target words that no other word is linked with."""
    found = {}
    for first in range(words):
        for behind in range(first + 1, min(words, first + LONGEST) + 1):
            inside = {(i, j) for i, j in gold.possible if first <= i < behind}
            linked = {i for i, _ in inside}
            targets = {j for _, j in inside}
            if first not in linked or behind - 1 not in linked or max(targets) - min(targets) + 1 != len(targets):
                continue
            if not any(j in targets and not first <= i < behind for i, j in gold.possible):
                found[first, behind] = min(targets), max(targets) + 1
    return found


def points_of(gold: Gold, pair: Pair) -> dict[int, Window]:
    """The places between two source words that have one in the target which no gold link crosses."""
    found = {}
    for at in range(1, len(pair.source)):
        places = [k for k in range(len(pair.target) + 1) if not any((i < at) != (j < k) for i, j in gold.possible)]
        if places and gold.possible:
            found[at] = places[0], places[-1]
    return found


def draw(text: Text) -> Iterator[Task]:
    """Tags for each sentence."""
    for n, (pair, gold) in enumerate(zip(text.pairs, text.gold, strict=True)):
        random = Random(f"{SEED}/{n}")
        windows = windows_of(gold, len(pair.source))
        spans = sorted(windows)
        twos = list(combinations(spans, 2))
        choices: dict[str, list[tuple[Window, ...]]] = {
            "single": [(span,) for span in spans],
            "nested": [(b, a) if b[1] > a[1] else (a, b) for a, b in twos if (a[0] == b[0]) or b[1] <= a[1]],
            "adjacent": [(a, b) for a, b in twos if a[1] == b[0]],
        }
        for kind, found in choices.items():
            for drawn in random.sample(found, min(DRAWN[kind], len(found))):
                yield Task(n, kind, drawn, tuple(windows[span] for span in drawn))
        points = points_of(gold, pair)
        for at in random.sample(sorted(points), min(DRAWN["point"], len(points))):
            yield Task(n, "point", ((at, at),), (points[at],))


def tagged(pair: Pair, spans: Sequence[Window]) -> str:
    """A source sentence with its tags, the outer ones first."""
    words = [escape(word) for word in pair.source]
    for n, (first, behind) in enumerate(reversed(spans)):
        if first == behind:
            words[first] = f"<x/> {words[first]}"
        else:
            words[first] = f'<g id="{n}">{words[first]}'
            words[behind - 1] += "</g>"
    return " ".join(words)


Placed = Sequence[Window | None]
"""A window for each tag of a task."""

Rule = Callable[[Task, Pair, Links], Placed]


def by_window(outside: float = OUTSIDE, punctuation: float = PUNCTUATION) -> Rule:
    """The rule of `align.transfer.markup`."""

    def place(task: Task, pair: Pair, scores: Links) -> Placed:
        markup = read_markup(tagged(pair, task.spans), "xml")
        target = " ".join(map(escape, pair.target))
        report = place_markup(markup, target, scores, outside=outside, punctuation=punctuation).report
        found: list[Window | None] = [placement.target[0] for placement in report]
        return found + [None] * (len(task.spans) - len(found))  # in an outer one without links, and put down with it

    return place


def by_outermost(task: Task, pair: Pair, scores: Links) -> Placed:
    """From the first to the last word that a span is linked with; a point before the first of the word behind it."""
    found: list[Window | None] = []
    for first, behind in task.spans:
        targets = [j for i, j in scores if first <= i < max(behind, first + 1)]
        if first < behind:
            found.append((min(targets), max(targets) + 1) if targets else None)
        else:
            before = [j + 1 for i, j in scores if i == first - 1]
            found.append((min(targets),) * 2 if targets else (max(before),) * 2 if before else None)
    return found


RULES: Mapping[str, Rule] = {"window": by_window(), "outermost links": by_outermost}


def right(task: Task, placed: Placed) -> list[tuple[bool, bool, bool]]:
    """Whether the start, the end and both are right, for each tag."""
    found = []
    for gold, window in zip(task.gold, placed, strict=True):
        if window is None:
            found.append((False, False, False))
        elif task.kind == "point":
            found.append((gold[0] <= window[0] <= gold[1],) * 3)
        else:
            start, end = window[0] == gold[0], window[1] == gold[1]
            found.append((start, end, start and end))
    return found


def count(tasks: Sequence[Task], text: Text, links: Sequence[Links], rule: Rule) -> dict[str, list[Counts]]:
    """For each kind the counts of starts, ends and both, each as `[N, 4]` of which the last two columns are all tags.

    With right tags for the first two columns, precision and recall of `align.evaluation.metrics` are their share.
    """
    counts = {kind: [np.zeros((len(text.pairs), 4), dtype=np.int64) for _ in range(3)] for kind in KINDS}
    for task in tasks:
        placed = rule(task, text.pairs[task.sentence], links[task.sentence])
        for found in right(task, placed):
            for table, is_right in zip(counts[task.kind], found, strict=True):
                table[task.sentence] += (is_right, is_right, 1, 1)
    counts["spans"] = [sum(parts) for parts in zip(*(counts[kind] for kind in KINDS[:3]), strict=True)]
    return counts


COLUMNS = [
    *(Column(key, key) for key in ("system", "rule", "gold", "kind", "tags")),
    Column("start", "start", 1),
    Column("end", "end", 1),
    Column("exact", "exact", 1),
    Column("interval", "95 % CI", 1),
    Column("p", "p", 4),
]


def rows_of(
    name: str, rule: str, counts: dict[str, list[Counts]], text: Text, first: dict[str, list[Counts]]
) -> Iterator[dict[str, Value]]:
    """A row for each set of gold and each kind of tag: shares that are right, and a paired test against the first."""
    for gold, part in text.parts():
        for kind in ("spans", *KINDS):
            starts, ends, both = (table[part] for table in counts[kind])
            value, low, high = map(percent, estimate(both, "recall"))
            shares = {key: percent(estimate(one, "recall", 0).value) for key, one in (("start", starts), ("end", ends))}
            same = counts is first
            p = None if same else compare(both, first[kind][2][part], "permutation", "recall", PERMUTATIONS)[1]
            yield {
                **{"system": name, "rule": rule, "gold": gold, "kind": kind, "tags": int(both[:, 3].sum())},
                **shares,
                **{"exact": value, "interval": interval(low, high), "p": p},
            }


def rule_rows(tasks: Sequence[Task], text: Text, scores: Sequence[Links]) -> Iterator[dict[str, Value]]:
    """The rule's choices, on the first set of gold: one of them changed at a time."""
    size = text.sizes[0]
    some = [task for task in tasks if task.sentence < size]
    ways = [(floor, OUTSIDE, PUNCTUATION) for floor in FLOORS]
    ways += [(FLOOR, outside, PUNCTUATION) for outside in OUTSIDES]
    ways += [(FLOOR, OUTSIDE, punctuation) for punctuation in PUNCTUATIONS]
    for floor, outside, punctuation in dict.fromkeys(ways):
        counts = count(some, text, above(scores, floor), by_window(outside, punctuation))
        row: dict[str, Value] = {"scores above": floor, "outside": outside, "punctuation": punctuation}
        for kind in ("spans", *KINDS):
            row[kind] = percent(estimate(counts[kind][2][:size], "recall", 0).value)
        yield row


RULE_COLUMNS = [
    *(Column(key, key) for key in ("scores above", "outside", "punctuation")),
    *(Column(kind, kind, 1) for kind in ("spans", *KINDS)),
]


def run(data: Path, config: Path, experiment: str, baseline_links: Path | None, output: Path) -> None:
    """Draw, align, place, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    tasks = list(draw(text))
    models, names = model_scores(about, data, text)
    sign = signature({"model": names, "seed": SEED}, "spans")
    write_table(
        RULE_COLUMNS, list(rule_rows(tasks, text, models["two models"])), sign, output / f"{experiment}.spans_rule.tsv"
    )
    systems: dict[tuple[str, str], Sequence[Links]] = {}
    for name, scores in models.items():
        systems[f"{name}, soft scores", "window"] = above(scores, FLOOR)
    for name, scores in models.items():
        systems[f"{name}, links", "window"] = systems[f"{name}, links", "outermost links"] = links_of(scores)
    baseline = Baselines(data, baseline_links).align(TOOL, settings["train"][about["train"][0]], text)
    given = [dict.fromkeys(ALL_METHODS[SYMMETRIZED](*links), 1.0) for links in baseline.links]
    systems[f"{TOOL}, {SYMMETRIZED}", "window"] = systems[f"{TOOL}, {SYMMETRIZED}", "outermost links"] = given
    rows: list[dict[str, Value]] = []
    first: dict[str, list[Counts]] = {}
    for (name, rule), links in systems.items():
        counts = count(tasks, text, links, RULES[rule])
        first = first or counts
        rows += rows_of(name, rule, counts, text, first)
    write_table(COLUMNS, rows, sign, output / f"{experiment}.spans.tsv")
