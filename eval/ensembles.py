"""Error rates of ensembles: the mean of a model's soft scores and the links of statistical aligners.

One model and two, by themselves and with each statistical aligner, whose score of a link is the share of its two
directions that have it; on the words of the text, and on the pieces of the first model. All means have equal weights,
and the threshold is the default: neither was tuned. Each ensemble is compared with the models by themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from align import Aligner, two_way
from align.core.symmetrize import mean_links, share_of_directions
from align.core.types import FLOOR, THRESHOLD, LinkScores, Settings
from align.evaluation.metrics import count_all
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from eval.baselines import Baselines
from eval.common import (
    Text,
    find_experiment,
    load_directions,
    read_config,
    read_text,
    score_columns,
    score_row,
    write_table,
)

Partners = Mapping[str, Sequence[LinkScores]]
"""Scores of the links of each pair, by the name of who linked them."""


def soft_scores_of(forward: Aligner, reverse: Aligner, text: Text) -> dict[str, list[LinkScores]]:
    """Return the soft scores of one model, and of both, where these choose to be read."""
    readings = [
        replace(model, forward=replace(model.forward, settings=Settings(threshold=FLOOR)))
        for model in (forward, reverse)
    ]
    both = two_way(readings[0], readings[1], threshold=FLOOR)
    return {
        name: [dict(alignment.scores) for alignment in aligner(text.pairs)]
        for name, aligner in (("one model", readings[0]), ("two models", both))
    }


def partners_of(
    tools: Sequence[str], about: dict[str, object], text: Text, forward: Aligner, baselines: Baselines
) -> tuple[Partners, list[str]]:
    """Return the links of each tool on words and on pieces, and the names of the tools with their versions."""
    partners: dict[str, Sequence[LinkScores]] = {}
    versions: list[str] = []
    for tool in tools:
        for unit, cut in (("words", None), ("pieces", forward.forward.recorder.encode)):
            try:
                baseline = baselines.align(tool, about, text, cut)
            except ModuleNotFoundError as error:
                print(f"{tool} on {unit} is left out: {error}", file=sys.stderr)
                continue
            partners[f"{tool}, {unit}"] = [share_of_directions(*both) for both in baseline.links]
            versions = list(dict.fromkeys([*versions, baseline.tool]))
    return partners, versions


def rows_of(models: Partners, partners: Partners, text: Text) -> list[dict[str, Value]]:
    """Return a row for each set of partners, with each of the models."""
    rows: list[dict[str, Value]] = []
    groups = [(), *((name,) for name in partners), *combinations([n for n in partners if n.startswith("giza")], 2)]
    for model, soft in models.items():
        alone = None
        for group in groups:
            scores = zip(soft, *(partners[name] for name in group), strict=True)
            links = [frozenset(mean_links(of_pair, THRESHOLD)) for of_pair in scores]
            counts = count_all(links, text.gold)
            row = score_row(counts, text, alone)
            alone = counts if alone is None else alone
            rows.append({"model": model, "with": "; ".join(group) or "nothing", **row})
    return rows


def run(
    data: Path, config: Path, experiment: str, tools: Sequence[str] | None, baseline_links: Path | None, output: Path
) -> None:
    """Measure, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    forward, reverse = load_directions(about, data)
    train = settings["train"][about["train"][0]]
    baselines = Baselines(data, baseline_links)
    partners, versions = partners_of(tools or about["baselines"], train, text, forward, baselines)
    rows = rows_of(soft_scores_of(forward, reverse, text), partners, text)
    columns = [Column("model", "model"), Column("with", "mean with"), *score_columns(text)]
    names = [aligner.forward.recorder.name for aligner in (forward, reverse)]
    sign = signature({"model": names, "tool": versions, "threshold": f"{THRESHOLD:g}"}, "ensembles")
    write_table(columns, rows, sign, output / f"{experiment}.ensembles.tsv")
