"""Accuracy of parts of speech that are projected from one treebank to another one with the same sentences.

The UPOS labels of each treebank are put on the words of the other one as `extract-align transfer --links` does it, with
the links of each system in turn, so that only these differ, and compared with the labels that are there. Words are the
treebanks': a multi-word token counts as its single words. Statistical aligners are trained on more text and these
pairs, which the bundled models have read, too, without labels and links.

In percent of the words: those with the right label (accuracy), and with any; of the latter, those with the right one
(precision). "agree" is the share of links whose two words have the same label. p is that of a paired test of accuracy
against the first row. The table of classes has the accuracy for the words of each class.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from align import Aligner, Pair, load, two_way
from align.core.types import FLOOR, THRESHOLD, LinkScores
from align.evaluation.metrics import SAMPLES, SEED, Counts, compare, estimate
from align.evaluation.tables import Column, Value, interval, percent
from align.io.signature import signature
from align.transfer.columns import NONE, Labelled, LabelledLine, read_labelled
from eval.baselines import Baselines
from eval.common import PERMUTATIONS, Text, path_of, read_config, write_table
from eval.reproduce import symmetrized

COLUMN = "UPOS"

METHODS = ("intersection", "grow-diag-final-and")
"""Of both directions of a statistical aligner."""

Row = dict[str, Value]
Treebank = list[Labelled]
System = tuple[Sequence[LinkScores], float]
"""Scores of the links of each pair, and the score that gives no label, nor does a lower one."""


def read_treebanks(paths: Sequence[Path]) -> list[Treebank]:
    """Read two treebanks.

    Raises:
        ValueError: their `sent_id` are not the same.
    """
    both = []
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            both.append(list(read_labelled((line.rstrip("\n") for line in lines), path.name, COLUMN)))
    ids, other_ids = (
        [line for sentence in side for line in sentence.comments if line.startswith("# sent_id")] for side in both
    )
    if ids != other_ids or len(ids) != len(both[0]):
        raise ValueError(f"{paths[0].name} and {paths[1].name} have different sentences (sent_id)")
    return both


def project(source: Treebank, target: Treebank, system: System) -> Treebank:
    """Return the target's sentences with the labels of the source."""
    links, least = system
    lines = []
    for n, (sentence, translation, scores) in enumerate(zip(source, target, links, strict=True), 1):
        line = LabelledLine(sentence, Pair(sentence.words, translation.words, n), COLUMN, least)
        lines += line.place(scores).text.split("\n")
    return list(read_labelled(lines, "projected", COLUMN))


def turned(system: System) -> System:
    """Return a system's links from the target to the source."""
    return [{(j, i): score for (i, j), score in scores.items()} for scores in system[0]], system[1]


def count_labels(projected: Treebank, gold: Treebank) -> Counts:
    """Return how many labels are right, again, are there, and should be, of each sentence `[N, 4]`.

    Precision and recall of links become those of labels; recall is the accuracy.
    """
    rows = []
    for projection, sentence in zip(projected, gold, strict=True):
        right, words = sum(map(str.__eq__, projection.labels, sentence.labels)), len(sentence.words)
        rows.append((right, right, words - projection.labels.count(NONE), words))
    return np.array(rows, dtype=np.int64)


def agreement(both: Sequence[Treebank], system: System) -> float:
    """Return the share of links whose words have the same label."""
    sentences = zip(*both, system[0], strict=True)
    return float(
        np.mean(
            [
                source.labels[i] == target.labels[j]
                for source, target, scores in sentences
                for (i, j), score in scores.items()
                if score > system[1]
            ]
        )
    )


def scores_of(aligner: Aligner, pairs: Sequence[Pair], soft: bool = False) -> list[LinkScores]:
    """Return the links of each pair with a score of 1, or their own scores."""
    alignments = aligner(pairs)
    return [dict(alignment.scores) if soft else dict.fromkeys(alignment.links, 1.0) for alignment in alignments]


def of_models(
    models: Sequence[Sequence[str]], pairs: Sequence[Pair], data: Path
) -> tuple[dict[str, System], list[str]]:
    """Return what models link by default, what `transfer` reads of the first one, and their names for signatures."""
    found: dict[str, System] = {}
    names: list[str] = []
    for group in models:
        loaded = [load(path_of(name, data), device="cpu", too_long="blank") for name in group]
        names += [aligner.forward.recorder.name for aligner in loaded]
        aligner = two_way(loaded[0], loaded[1]) if len(loaded) > 1 else loaded[0]
        found[" and ".join(Path(name).name for name in group)] = scores_of(aligner, pairs), 0.0
    first = models[0][0]
    soft = load(path_of(first, data), device="cpu", too_long="blank", threshold=FLOOR, scorer=None)
    found[f"{Path(first).name}, scores"] = scores_of(soft, pairs, soft=True), THRESHOLD
    return found, list(dict.fromkeys(names))


def result_rows(
    systems: dict[str, System], both: Sequence[Treebank], names: Sequence[str]
) -> tuple[list[Row], list[Row]]:
    """Return the rows of both tables."""
    rows: list[Row] = []
    classes: list[Row] = []
    firsts: dict[str, Counts] = {}
    for system, links in systems.items():
        row: Row = {"system": system, "agree": percent(agreement(both, links))}
        for side, way in ((1, links), (0, turned(links))):
            name, target = names[side], both[side]
            projected = project(both[1 - side], target, way)
            counts = count_labels(projected, target)
            value, low, high = map(percent, estimate(counts, "recall"))
            row |= {f"accuracy_{name}": value, f"interval_{name}": interval(low, high)}
            row[f"labelled_{name}"] = percent(counts[:, 2].sum() / counts[:, 3].sum())
            for metric in ("precision", "f1"):
                row[f"{metric}_{name}"] = percent(estimate(counts, metric, samples=0).value)
            p = compare(counts, firsts[name], "permutation", "recall", PERMUTATIONS)[1] if name in firsts else None
            row[f"p_{name}"] = p
            firsts.setdefault(name, counts)
            right: dict[str, list[bool]] = {}
            for projection, sentence in zip(projected, target, strict=True):
                for label, given in zip(sentence.labels, projection.labels, strict=True):
                    right.setdefault(label, []).append(label == given)
            of_class = {label: percent(float(np.mean(hits))) for label, hits in sorted(right.items())}
            classes.append({"target": name, "system": system, **of_class})
        rows.append(row)
    return rows, classes


def run(data: Path, config: Path, baseline_links: Path | None, output: Path) -> None:
    """Measure, print, write.

    Raises:
        ValueError: the treebanks have different sentences.
    """
    settings = read_config(config)
    about = settings["projection"]
    both = read_treebanks([data / name for name in about["treebanks"]])
    sentences = enumerate(zip(*both, strict=True), 1)
    pairs = [Pair(source.words, target.words, n) for n, (source, target) in sentences]
    systems, models = of_models(about["models"], pairs, data)
    text, baselines, tools = Text([], pairs, [], []), Baselines(data, baseline_links), list[str]()
    for train, tool in ((train, tool) for train, programs in about["train"].items() for tool in programs):
        try:
            described, directions = baselines.align(tool, settings["train"][train], text)
        except ModuleNotFoundError as error:
            print(f"without {tool} ({train} text): {error}", file=sys.stderr)
            continue
        tools.append(described)
        merged = symmetrized(directions)
        for method in METHODS:
            systems[f"{tool} ({train} text): {method}"] = [dict.fromkeys(links, 1.0) for links in merged[method]], 0.0
    names = about["languages"]
    rows, classes = result_rows(systems, both, names)
    columns = [Column("system", "system"), Column("agree", "agree", 1)]
    for name in reversed(names):
        columns += [Column(f"accuracy_{name}", name, 1), Column(f"interval_{name}", "95 % CI", 1, wide=True)]
        columns += [Column(f"{key}_{name}", key, 1, wide=True) for key in ("labelled", "precision", "f1")]
        columns += [Column(f"p_{name}", "p", 4)]
    parts: dict[str, Any] = {
        "treebank": "+".join(Path(name).name for name in about["treebanks"]),
        "label": COLUMN,
        "model": models,
    }
    parts |= {"tool": list(dict.fromkeys(tools)), "n": len(pairs), "ci": f"percentile-{SAMPLES}"}
    sign = signature(parts | {"test": f"permutation-{PERMUTATIONS}", "seed": SEED}, "projection")
    write_table(columns, rows, sign, output / "projection.tsv")
    labels = sorted({label for row in classes for label in row if label not in ("target", "system")})
    columns = [Column("target", "target"), Column("system", "system"), *(Column(label, label, 1) for label in labels)]
    write_table(columns, [dict.fromkeys(labels) | row for row in classes], sign, output / "projection.classes.tsv")
