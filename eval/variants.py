"""What two models in the input position come to on gold, in many ways: eval/results/EXPERIMENT.variants.*.

    .venv/bin/python eval/run.py variants --data DIR

Scores, merge rules, NULL, symmetrisation by heuristics and by soft scores, a lexicon of the text's own links, final
punctuation: each is one change of a reference, with a paired test against it. What did not win is in no other file of
this project. The reference is `two_way`, read in the input position; that the variants are changes of nothing
else is checked link for link. Models, gold and text to learn a lexicon from are those of an experiment in
eval/experiments.toml.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from common import (
    Text,
    find_experiment,
    letters,
    load_directions,
    read_at,
    read_config,
    read_text,
    read_train,
    score_columns,
    score_row,
    swapped,
    write_table,
)
from variants_lexicon import Lexicon
from variants_scores import Scores, Way, best, soft
from variants_table import PARTS, THRESHOLDS, Material, above, turned

from align import Aligner, Alignment, two_way
from align.core.settings import THRESHOLD
from align.core.types import Links
from align.evaluation.dialects import ALL_METHODS
from align.evaluation.metrics import SEED, count_all, estimate
from align.evaluation.tables import Column, Rows, Value, percent
from align.io.signature import signature

TIE = 1e-4
"""Scores that differ by less may do so because float32 sums in another order in a batch of another size."""


def check_same(reference: Sequence[Alignment], scores: Scores) -> None:
    """Make sure that the reference's links and scores are those that the variants are changes of.

    Args:
        reference: what `two_way` links.
        scores: soft scores of all pairs, each `[1, J, I]`.

    Raises:
        ValueError: a link that only one of them has, or has with another score; ties aside.
    """
    for alignment, words in zip(reference, scores, strict=True):
        rows = words[0].tolist()
        for i, j in alignment.links | above([words], THRESHOLD)[0]:
            linked, ours = alignment.scores.get((i, j), THRESHOLD), rows[j][i]
            if abs(linked - ours) > TIE:
                raise ValueError(
                    f"pair {alignment.pair.id}, link {i}-{j}: the reference is not what the variants change: "
                    f"two_way has {linked:.6f}, or no link; the score here is {ours:.6f}"
                )


def table(material: Material) -> tuple[list[Column], Rows]:
    """A row for each variant."""
    text = material.text
    reference = count_all(material.reference, text.gold)
    rows = []
    for part, variants in PARTS.items():
        for name, links, threshold in variants(material):
            row: dict[str, Value] = {"part": part, "variant": name, "threshold": threshold}
            rows.append(row | score_row(count_all(links, text.gold), text, reference))
    columns = [Column("part", "part"), Column("variant", "variant"), Column("threshold", "threshold")]
    return [*columns, *score_columns(text)], rows


CURVE = [Column("links", "links"), *(Column(metric, metric, 1) for metric in ("precision", "recall", "aer"))]


def curve(scores: Scores, ways: tuple[Way, Way], text: Text) -> Iterator[dict[str, Value]]:
    """Precision and recall of soft scores over thresholds, and of heuristics."""
    forward, reverse = best(ways[0].word_scores()), turned(best(ways[1].word_scores()))
    links = {f"soft {threshold:g}": above(scores, threshold) for threshold in THRESHOLDS}
    links |= {name: list(map(method, forward, reverse)) for name, method in ALL_METHODS.items()}
    for name, some in links.items():
        counts = count_all(some, text.gold)
        rates = {key: percent(estimate(counts, key, samples=0).value) for key in ("precision", "recall", "aer")}
        yield {"links": name, **rates}


def learn_lexicon(
    aligners: tuple[Aligner, Aligner], ways: tuple[Way, Way], text: Text, about: dict[str, Any], data: Path, pairs: int
) -> Lexicon:
    """A lexicon of the text and of so many other pairs, drawn at random from a training text."""
    train = list(read_train(about, data))
    random.Random(SEED).shuffle(train)
    tested = {letters(pair) for pair in text.pairs}
    others = islice((pair for pair in train if letters(pair) not in tested and not pair.blank), pairs)
    forward, reverse = (read_at(aligner, way.cell, "blank") for aligner, way in zip(aligners, ways, strict=True))
    return Lexicon(forward, reverse, [*text.pairs, *others])


def links_of(alignments: Iterable[Alignment]) -> list[Links]:
    """The links alone."""
    return [alignment.links for alignment in alignments]


def run(data: Path, config: Path, experiment: str, pairs: int, output: Path) -> None:
    """Try, print, write.

    Raises:
        ArgumentError: there is no such experiment.
        ValueError: the reference is not what the variants change.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    aligners = load_directions(about, data)
    ways = Way(aligners[0], text.pairs), Way(aligners[1], swapped(text.pairs))
    reference = list(two_way(*aligners)(text.pairs))
    scores = soft(ways[0].shares(), ways[1].shares())
    check_same(reference, scores)
    train = settings["train"][about["train"][0]]
    lexicon = learn_lexicon(aligners, ways, text, train, data, pairs) if pairs else None
    names = [aligner.forward.recorder.name for aligner in aligners]
    cells = f"{ways[0].cell}, reverse:{ways[1].cell}"
    sign = signature({"model": names, "forward": cells, "pairs": pairs}, "variants")
    tables = {
        "variants": table(Material(text, ways, links_of(reference), lexicon)),
        "variants.curve": (CURVE, list(curve(scores, ways, text))),
    }
    for name, (columns, rows) in tables.items():
        print(f"\n{name}\n")
        write_table(columns, rows, sign, output / f"{experiment}.{name}.tsv")
