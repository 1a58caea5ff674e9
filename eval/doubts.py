"""How lexical consistency tells a text that is not the model's from one that is, for the bound of the warning.

Runs of lines of one source of the training text each: as they are, with a share of targets shuffled among themselves,
with the targets of the lines below, and lines of other languages. Either model as it is, and the first with weights
drawn at random. The ratio is that of consistency as given to that with the neighbours' targets.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import torch
from common import find_experiment, load_model, read_config, read_labels, read_lines_of, swapped, write_table

from align import Aligner, Pair
from align.core.choice import MIN_STRANGERS, RELATED, STRANGERS, consistency_of_shifted
from align.core.stream import encode
from align.evaluation.metrics import SEED
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.models.fairseq.architecture import attention_of
from align.models.recorder import ModelRecorder

SIZES = (MIN_STRANGERS, STRANGERS)
SHUFFLED = (0.1, 0.3, 0.5, 0.7, 0.9)
DRAWS = 8

Change = Callable[[list[Pair], Random], list[Pair]]
"""Takes a run of pairs and the one that follows them, and gives as many pairs as the run has."""


def as_they_are(pairs: list[Pair], random: Random) -> list[Pair]:
    """A run."""
    return pairs[:-1]


def shifted(pairs: list[Pair], random: Random) -> list[Pair]:
    """Each source with the target of the line below."""
    return [Pair(one.source, after.target, one.id) for one, after in pairwise(pairs)]


def shuffled(share: float) -> Change:
    """A share of the targets shuffled among themselves."""

    def change(pairs: list[Pair], random: Random) -> list[Pair]:
        found = pairs[:-1]
        numbers = [n for n in range(len(found)) if random.random() < share]
        order = random.sample(numbers, len(numbers))
        for n, other in zip(numbers, order, strict=True):
            found[n] = Pair(found[n].source, pairs[other].target, found[n].id)
        return found

    return change


CHANGES: dict[str, Change] = {
    "as it is": as_they_are,
    **{f"{share:.0%} shuffled": shuffled(share) for share in SHUFFLED},
    "shifted by a line": shifted,
    "sides swapped": lambda pairs, random: swapped(pairs[:-1]),
}


def read_sources(about: dict[str, Any], data: Path) -> Iterator[list[Pair]]:
    """What a training text has of each of its sources, in its order; all of it where it does not name them."""
    pairs = read_lines_of(about, data)
    labels = read_labels(about, data) or [""] * len(pairs)
    for label in dict.fromkeys(labels):
        yield [pair for pair, of in zip(pairs, labels, strict=True) if of == label]


def ratio(aligner: Aligner, pairs: Sequence[Pair]) -> tuple[float, bool]:
    """Consistency as given to that with neighbours' targets, and whether a warning would come."""
    encoded = [encode(aligner.forward.recorder, pair, "blank") for pair in pairs]
    readable = [one for one in encoded if one.pieces]
    recorder, reader, place = aligner.forward.recorder, aligner.forward.reader, aligner.forward.choose(encoded).place
    given, later, earlier = (consistency_of_shifted(recorder, reader, readable, place, shift) for shift in (0, 1, -1))
    neighbours = max(later, earlier)
    return given / max(neighbours, 1e-9), given < RELATED * neighbours


def rows_of(name: str, aligner: Aligner, texts: Sequence[list[Pair]], other: list[Pair]) -> Iterator[dict[str, Value]]:
    """A row for each change and size."""
    for (text, change), size in product([*CHANGES.items(), ("other languages", as_they_are)], SIZES):
        random = Random(SEED)
        found = []
        for draw in range(DRAWS):
            source = other if text == "other languages" else texts[draw % len(texts)]
            start = random.randrange(len(source) - size)
            found.append(ratio(aligner, change(source[start : start + size + 1], random)))
        ratios = [one for one, _ in found]
        yield {
            **{"model": name, "text": text, "lines": size, "draws": DRAWS},
            **{"lowest": min(ratios), "median": statistics.median(ratios), "highest": max(ratios)},
            "warned": 100 * sum(warned for _, warned in found) / DRAWS,
        }


COLUMNS = [
    Column("model", "model"),
    Column("text", "text"),
    Column("lines", "lines"),
    Column("draws", "draws"),
    Column("lowest", "lowest ratio", 2),
    Column("median", "median", 2),
    Column("highest", "highest", 2),
    Column("warned", "warned, %", 0),
]


def at_random(aligner: Aligner) -> Aligner:
    """The same model, its weights drawn anew."""
    recorder = aligner.forward.recorder
    assert isinstance(recorder, ModelRecorder)
    model = recorder.own_model()
    torch.manual_seed(SEED)
    for weights in model.parameters():
        if weights.dim() > 1:
            torch.nn.init.xavier_uniform_(weights)
    recorder.transformer = attention_of(model, name=recorder.name).transformer
    return aligner


def run(data: Path, config: Path, experiment: str, output: Path) -> None:
    """Draw, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    texts = [text for text in read_sources(settings["train"][about["train"][0]], data) if len(text) > 2 * max(SIZES)]
    other = next(read_sources(settings["train"][about["other"]], data))
    models = {key: load_model(about[key][0], data, "cpu", too_long="blank") for key in ("models", "reverse_models")}
    forward, reverse = models.values()
    rows: list[dict[str, Value]] = []
    names = about["models"][0], about["reverse_models"][0]
    for name, aligner, turn in ((names[0], forward, False), (names[1], reverse, True)):
        some = [swapped(text) if turn else text for text in texts]
        rows += rows_of(name, aligner, some, swapped(other) if turn else other)
    rows += rows_of(f"{names[0]}, at random", at_random(forward), texts, other)
    sign = signature({"model": [forward.forward.recorder.name, reverse.forward.recorder.name], "seed": SEED}, "doubts")
    write_table(COLUMNS, rows, sign, output / f"{experiment}.doubts.tsv")
