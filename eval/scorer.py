"""Measure the general link scorer, and others that have not seen a language or an architecture.

`python -m recipes.scorer` trains them. One model and two of each system in [scorer] of experiments.toml that has gold;
p is that of a paired test against the same models without scorer, and Holm's p of all scorers that lack what they are
measured on. A second table has the precision of links by their score, a third error rates by threshold.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from align import Aligner, ModelOptions, Pair, load, two_way
from align.core.types import FLOOR, THRESHOLD, Gold, LinkScores
from align.evaluation.metrics import Counts, count_all, estimate
from align.evaluation.tables import Column, Value, percent
from align.io.signature import signature
from align.models.divide import align_unspaced
from align.models.link_scorer import read_scorer
from eval.common import Text, path_of, read_config, read_text, score_columns, score_row, write_table

THRESHOLDS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6)

BINS = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Borders of scores between which precision is measured."""

DIRECTIONS = ("one model", "two models")


def load_system(about: dict[str, Any], data: Path) -> list[Aligner]:
    """Return the models of a system in [scorer], the forward one and its reverse, without scorers."""
    languages = about.get("languages", [(None, None)] * len(about["models"]))
    options = (ModelOptions(source, target, template=about.get("template")) for source, target in languages)
    return [
        load(path_of(model, data), options=own, device="cpu", too_long="blank", scorer=None)
        for model, own in zip(about["models"], options, strict=True)
    ]


@dataclass(frozen=True)
class System:
    """Models of both directions, and gold to measure them with."""

    name: str
    about: dict[str, Any]
    models: Sequence[Aligner]
    text: Text

    def scores(self, directions: str, scorer: Path | None) -> list[LinkScores]:
        """Return the links of the gold text that score more than FLOOR, by one model or two."""
        forward, reverse = self.models
        settings = replace(forward.forward.settings, threshold=FLOOR)
        forward = replace(forward, forward=replace(forward.forward, settings=settings))
        aligner = forward if directions == DIRECTIONS[0] else two_way(forward, reverse, threshold=FLOOR)
        if scorer:
            aligner = replace(aligner, forward=replace(aligner.forward, scorer=read_scorer(scorer)))
        pairs: Iterable[Pair] = self.text.pairs
        alignments = align_unspaced(aligner, pairs, "segmented") if self.about.get("unspaced") else aligner(pairs)
        return [alignment.scores for alignment in alignments]


def read_systems(config: dict[str, Any], data: Path, names: Sequence[str] | None) -> Iterator[System]:
    """Yield the systems that are named, by default those whose models are there.

    Raises:
        ArgumentError: there is no such system.
    """
    if unknown := {*(names or ())} - {*config["scorer"]}:
        raise argparse.ArgumentError(None, f"no system {min(unknown)}, only {', '.join(config['scorer'])}")
    for name in names or config["scorer"]:
        about = config["scorer"][name]
        if names or all(Path(path_of(model, data)).exists() or "/" not in model for model in about["models"]):
            text = read_text(config, about["gold"], data)
            yield System(name, about, load_system(about, data), text)


def counts_above(scores: Sequence[LinkScores], gold: Sequence[Gold], threshold: float) -> Counts:
    """Count the links above a threshold."""
    links = [frozenset(link for link, score in of_pair.items() if score > threshold) for of_pair in scores]
    return count_all(links, gold)


def holm(values: Sequence[float]) -> list[float]:
    """Return p values adjusted for their number by Holm's method, in the same order."""
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, highest = [0.0] * len(values), 0.0
    for rank, number in enumerate(order):
        highest = max(highest, min(1.0, values[number] * (len(values) - rank)))
        adjusted[number] = highest
    return adjusted


def reliability(scores: Sequence[LinkScores], gold: Sequence[Gold]) -> Iterator[dict[str, Value]]:
    """Yield for each range of scores the number of links, their mean score, and the share that gold has."""
    judged = [
        (score, link in of_gold.possible)
        for of_pair, of_gold in zip(scores, gold, strict=True)
        for link, score in of_pair.items()
    ]
    for low, high in pairwise(BINS):
        here = [(score, right) for score, right in judged if low < score <= high]
        if here:
            mean, right = (100 * sum(column) / len(here) for column in zip(*here, strict=True))
            yield {"from": low, "to": high, "links": len(here), "score": mean, "precision": right}


def expected_best(scores: Iterable[LinkScores]) -> float:
    """Return the threshold at which the expected F of links is highest, if their scores are probabilities."""
    ordered = sorted((score for of_pair in scores for score in of_pair.values()), reverse=True)
    total, right, best = sum(ordered), 0.0, (0.0, 1.0)
    for count, score in enumerate(ordered, 1):
        right += score
        best = max(best, (2 * right / (count + total), score))
    return best[1]


def run(
    folder: Path, data: Path, config: Path, threads: int, systems: Sequence[str] | None, name: str, output: Path
) -> None:
    """Measure, print, write."""
    torch.set_num_threads(threads)
    settings = read_config(config)
    rows: list[dict[str, Value]] = []
    left_out: list[dict[str, Value]] = []
    reliabilities: list[dict[str, Value]] = []
    thresholds: list[dict[str, Value]] = []
    models: list[str] = []
    for system in read_systems(settings, data, systems):
        models += [model.forward.recorder.name for model in system.models]
        for directions in DIRECTIONS:
            of, text = {"system": system.name, "models": directions}, system.text
            plain = counts_above(system.scores(directions, None), text.gold, THRESHOLD)
            rows.append({**of, "scorer": "none", **measured(plain, text, None)})
            kinds = (system.about[kind] for kind in ("language", "architecture"))
            lacking = [path for kind in kinds if (path := folder / f"without-{kind}.safetensors").exists()]
            for path in [*sorted(folder.glob("all.*.safetensors")), *lacking]:
                scores = system.scores(directions, path)
                rows.append(
                    {**of, "scorer": path.stem, **measured(counts_above(scores, text.gold, THRESHOLD), text, plain)}
                )
                if path in lacking or (path.stem == "all.1" and "labels" not in system.about):
                    left_out.append(rows[-1])
                if path.stem == "all.1":
                    reliabilities += ({**of, **row} for row in reliability(scores, text.gold))
                    thresholds.append({**of, "expected": expected_best(scores), **by_threshold(scores, text.gold)})
    for row, value in zip(left_out, holm([float(str(row["p"])) for row in left_out]), strict=True):
        row["holm"] = value
    sign = signature({"model": models}, "scorer")
    of_system = [Column("system", "system"), Column("models", "models")]
    rates = [Column("gold", "gold"), *score_columns(Text(["all"], [], [], [0]))]
    write_table(
        [*of_system, Column("scorer", "scorer"), *rates, Column("holm", "Holm's p", 4)],
        rows,
        sign,
        output / f"{name}.tsv",
    )
    columns = [Column("from", "score from", 2), Column("to", "to", 2), Column("links", "links")]
    columns += [Column("score", "mean score", 1), Column("precision", "precision", 1)]
    write_table([*of_system, *columns], reliabilities, sign, output / f"{name}.reliability.tsv")
    columns = [
        Column("expected", "highest expected F", 2),
        *(Column(f"aer_{round(100 * t)}", f"AER {t:g}", 1) for t in THRESHOLDS),
    ]
    write_table([*of_system, *columns], thresholds, sign, output / f"{name}.thresholds.tsv")


def measured(counts: Counts, text: Text, reference: Counts | None) -> dict[str, Value]:
    """Return the scores of all gold of a system together."""
    whole = Text(["all"], text.pairs, text.gold, [len(text.gold)])
    return {"gold": "+".join(text.names), "holm": None, **score_row(counts, whole, reference)}


def by_threshold(scores: Sequence[LinkScores], gold: Sequence[Gold]) -> dict[str, Value]:
    """Return the error rate at each threshold."""
    return {
        f"aer_{round(100 * t)}": percent(estimate(counts_above(scores, gold, t), samples=0).value) for t in THRESHOLDS
    }
