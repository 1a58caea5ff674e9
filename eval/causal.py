"""How well a decoder-only model aligns, beside the encoder-decoders trained on the same pairs; see `recipes/`.

Error rates by weight and norm, in every position, in one direction and in two, with layers and heads chosen without
gold; whether what is read outside the source counts as reading nothing (eos) or is left out (mask).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

from align import Aligner, Alignment, Direction, ModelOptions, Settings, load, two_way
from align.core.types import THRESHOLD, Null, PositionChoice, Score
from align.evaluation.metrics import SAMPLES, SEED, Counts, count_all
from align.evaluation.tables import Column
from align.io.signature import signature
from eval.common import (
    PERMUTATIONS,
    Text,
    find_experiment,
    load_directions,
    read_config,
    read_text,
    score_columns,
    score_row,
    swapped,
    write_table,
)

NULLS: tuple[Null, ...] = ("eos", "mask")
DIRECTIONS = ("de-en", "en-de")


def systems(name: str, models: Sequence[Aligner], text: Text, null: Null) -> Iterator[tuple[str, Counts]]:
    """Yield what is linked without gold, in one direction and in two."""

    def counted(alignments: Sequence[Alignment], turn: int = 1) -> Counts:
        links = (frozenset(link[::turn] for link in alignment.links) for alignment in alignments)
        return count_all(links, text.gold)  # type: ignore[arg-type]

    ways: list[tuple[Score, PositionChoice]] = [*product(get_args(Score), get_args(PositionChoice))]
    for score, position in ways:
        settings = Settings(score, position, null=null)
        forward, reverse = (Aligner(Direction(model.forward.recorder, settings)) for model in models)
        for direction, aligner, pairs, turn in zip(
            DIRECTIONS, (forward, reverse), (text.pairs, swapped(text.pairs)), (1, -1), strict=True
        ):
            counts = counted(list(aligner(pairs)), turn)
            yield f"{name}, {direction}: {score}, {position}, threshold {THRESHOLD:g}", counts
        both = two_way(forward, reverse, "soft")
        yield f"{name}, both directions: {score}, {position}, soft", counted(list(both(text.pairs)))


def run(folder: Path, template: str, name: str, data: Path, config: Path, experiment: str, output: Path) -> None:
    """Measure, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
        ModelError: the model cannot be read.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    languages = [direction.split("-") for direction in DIRECTIONS]
    options = [ModelOptions(source_lang=one, target_lang=other, template=template) for one, other in languages]
    models = {
        "decoder-only": [load(folder, device="cpu", options=of_direction) for of_direction in options],
        "encoder-decoder": load_directions(about, data),
    }
    rates = dict(
        rate
        for (kind, both), null in product(models.items(), NULLS)
        for rate in systems(f"{kind}, null {null}", both, text, null)
    )
    parts: dict[str, Any] = {
        "gold": "+".join(text.names),
        "model": [model.forward.recorder.name for both in models.values() for model in both],
        "template": template,
        "ci": f"percentile-{SAMPLES}",
    }
    sign = signature(parts | {"test": f"permutation-{PERMUTATIONS}", "seed": SEED}, "causal")
    default = rates["encoder-decoder, null eos, both directions: norm, both, soft"]
    rows = [
        {"system": system, **score_row(counts, text, None if counts is default else default)}
        for system, counts in rates.items()
    ]
    write_table([Column("system", "system"), *score_columns(text)], rows, sign, output / f"{name}.systems.tsv")
