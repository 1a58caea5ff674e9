"""Where a model encodes linguistic information: probes of its layers for a pipeline of tasks (Tenney et al. 2019).

The measures are in `align.analysis.layers.probes`, the tasks in `align.analysis.layers.tasks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from align.analysis.layers.probes import (
    Doubles,
    Settings,
    Task,
    Told,
    centre_of_gravity,
    drawn_scores,
    expected_layer,
    gains,
    middle,
    tell,
)
from align.evaluation.tables import Column, Value, interval, percent
from align.view.findings import Finding, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIGITS = 4
"""Decimals of a probability in a file of examples."""


def layers(
    tasks: Sequence[Task], settings: Settings, progress: Callable[[str], None] = lambda _: None
) -> tuple[Finding, list[Told]]:
    """Return tables and figures of each layer's gain in each task and of the layer weights, and the predictions.

    Args:
        tasks: at least one.
        settings: settings of the probes.
        progress: callback for progress messages.
    """
    predictions = [tell(task, settings, progress) for task in tasks]
    scores = {
        predicted.task.name: predicted.task.score(predicted.counts().sum(1)) for predicted in predictions
    }  # [L+1]
    drawn = {predicted.task.name: drawn_scores(predicted, settings.seed) for predicted in predictions}
    tables = {"tasks": _task_table(predictions, scores, drawn), "layers": _layer_table(predictions, scores, drawn)}
    return Finding(tables, _figures(predictions, scores)), predictions


def _task_table(predictions: Sequence[Told], scores: Mapping[str, Doubles], drawn: Mapping[str, Doubles]) -> Table:
    columns = [Column("task", "task"), Column("measure", "measure"), Column("examples", "examples", wide=True)]
    columns += [Column("labels", "labels", wide=True), Column("lowest", "layer 0", 1), Column("score", "all layers", 1)]
    columns += [Column("expected", "expected layer", 2), Column("expected_interval", "95 %", 2)]
    columns += [Column("centre", "centre of gravity", 2), Column("centre_range", "parts", 2, wide=True)]
    columns.append(Column("gamma", "γ", 2, wide=True))
    rows: list[dict[str, Value]] = []
    for predicted in predictions:
        task, score = predicted.task, scores[predicted.task.name]
        expected = float(expected_layer(score)) if score[-1] > score[0] else None
        centres = centre_of_gravity(predicted.shares)  # [folds]
        rows.append(
            {
                "task": task.name,
                "measure": f"{task.measure}, %",
                "examples": int((predicted.best[0] >= 0).sum()),
                "labels": len(task.labels),
                "lowest": percent(score[0]),
                "score": percent(score[-1]),
                "expected": expected,
                "expected_interval": interval(*middle(expected_layer(drawn[task.name]))) if expected else None,
                "centre": float(centres.mean()),
                "centre_range": interval(centres.min(), centres.max()),
                "gamma": float(predicted.gammas.mean()),
            }
        )
    notes = [
        "expected layer: mean of layers 1 to the last by what each adds, and an interval over sentences; "
        "centre of gravity: mean of layers 0 to the last by their weights in a probe of all, over parts of the text"
    ]
    return Table(columns, rows, notes)


def _layer_table(predictions: Sequence[Told], scores: Mapping[str, Doubles], drawn: Mapping[str, Doubles]) -> Table:
    columns = [Column("task", "task"), Column("layer", "layers to"), Column("score", "score, %", 1)]
    columns += [Column("score_interval", "95 %", 1), Column("gain", "gain", 2), Column("gain_interval", "95 %", 2)]
    columns.append(Column("share", "s, %", 1))
    rows: list[dict[str, Value]] = []
    for predicted in predictions:
        score, draws = scores[predicted.task.name], drawn[predicted.task.name]  # [L+1], [DRAWS, L+1]
        added = [None, *gains(score)]
        ranges = [None, *(middle(column) for column in gains(draws).T)]
        for layer, (gain, ends) in enumerate(zip(added, ranges, strict=True)):
            rows.append(
                {
                    "task": predicted.task.name,
                    "layer": layer,
                    "score": percent(score[layer]),
                    "score_interval": interval(*map(percent, middle(draws[:, layer]))),
                    "gain": percent(gain),
                    "gain_interval": interval(*map(percent, ends)) if ends else None,
                    "share": percent(predicted.shares.mean(0)[layer]),
                }
            )
    notes = ["score of a probe of layers 0 to this one, and what this one adds; s: its weight in the probe of all"]
    return Table(columns, rows, notes)


def _figures(predictions: Sequence[Told], scores: Mapping[str, Doubles]) -> dict[str, Callable[[], Figure]]:
    def points(values: Doubles, first: int) -> Doubles:
        return np.stack((np.arange(first, first + len(values)), values), 1)

    def weights() -> Figure:
        from align.analysis.plots import curves

        lines = {predicted.task.name: points(predicted.shares.mean(0), 0) for predicted in predictions}
        return curves(lines, "layer", "weight s", "where a probe of all layers looks")

    def added() -> Figure:
        from align.analysis.plots import curves

        lines = {name: points(100 * gains(values), 1) for name, values in scores.items()}
        return curves(lines, "layer", "gain, % points", "what each layer adds")

    return {"weights": weights, "gains": added}


def examples(predictions: Told, text: Sequence[Sequence[str]]) -> Iterator[dict[str, object]]:
    """Yield the predictions for each example, as records of a file of JSON lines.

    `sentence` counts from 1, `places` of words from 0. Lists have a probability or a label for each layer l, from the
    probe of layers 0 to l.

    Args:
        predictions: predictions of the probes.
        text: words of each sentence.
    """
    task = predictions.task
    for n in np.flatnonzero(predictions.best[0] >= 0):
        words = text[task.sentences[n]]
        yield {
            "task": task.name,
            "sentence": int(task.sentences[n]) + 1,
            "places": task.places[n].tolist(),
            "words": [words[place] for place in task.places[n]],
            "gold": task.labels[task.gold[n]],
            "probability": [round(float(p), DIGITS) for p in predictions.gold[:, n]],
            "best": [task.labels[label] for label in predictions.best[:, n]],
            "best_probability": [round(float(p), DIGITS) for p in predictions.sure[:, n]],
        }
