"""Whether lexical consistency tells which position to read: input, output, or both with their scores joined.

In each position the most consistent cell is taken, as `extract-align` does, on the gold's text or on runs of lines of
the training text. "auto" is what has the highest consistency of the three; error rates are those on the gold.

Models are those of the experiment, those of --models, and the former with a head of the last decoder layer that aligns
in the output position, as `positions_heads` makes one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    PERMUTATIONS,
    Text,
    find_experiment,
    load_directions,
    load_model,
    read_config,
    read_lines_of,
    read_text,
    swapped,
    write_table,
)
from positions_heads import Copied, train_head
from variants_table import turned as turn

from align import Pair, two_way
from align.core.aligner import align_encoded
from align.core.backend import Recorder
from align.core.batching import BATCH_TOKENS, Encoded, cut, encode
from align.core.choice import all_cells, consistency_of
from align.core.consistency import LinkedWords
from align.core.extraction import Reader
from align.core.scores import best_words
from align.core.settings import THRESHOLD, PositionChoice
from align.core.types import Cell, Links, Place, Position
from align.evaluation.metrics import Counts, compare, count_all, estimate
from align.evaluation.tables import Column, Value, interval, percent
from align.io.signature import signature
from align.models.recorder import ModelRecorder

SIZES = (100, 200, 1000)
RUNS = 2
LONGEST = 50
"""Words of a side of what a head is trained on."""

Lessons = tuple[list[Pair], list[Links]]
"""Pairs and their links, for a head to learn."""


def readable(recorder: Recorder, pairs: Sequence[Pair]) -> list[Encoded]:
    """Those pairs that have something to align."""
    return [one for one in (encode(recorder, pair, "blank") for pair in pairs) if one.pieces]


def best_cells(reader: Reader, encoded: Sequence[Encoded], cells: Sequence[Cell]) -> dict[Position, Cell]:
    """The most consistent of some cells in either position."""
    found = consistency_of(reader, encoded, {"input": cells, "output": cells})
    return {position: cells[int(np.argmax(values))] for position, values in found.items()}


def consistency_at(reader: Reader, encoded: Sequence[Encoded], place: Place) -> float:
    """Lexical consistency of the best words at a place."""
    linked = LinkedWords(())
    for numbers, batch in cut(encoded, BATCH_TOKENS):
        for n, words in zip(numbers, best_words(reader.scores(batch, place), reader.null)[0].numpy(), strict=True):
            linked.add(encoded[n].pair, words)
    return float(linked.consistency())


def places(reader: Reader, encoded: Sequence[Encoded]) -> dict[PositionChoice, Place]:
    """The most consistent cell of either position, by itself and both together."""
    best = best_cells(reader, encoded, all_cells(reader.recorder))
    read, predicted = best["input"], best["output"]
    return {"input": Place(read), "output": Place(None, predicted), "both": Place(read, predicted)}


class Gold:
    """The gold's text as a model reads it, and error counts at a place, each found once."""

    def __init__(self, recorder: Recorder, text: Text, turned: bool) -> None:
        self.reader = Reader(recorder, threshold=THRESHOLD)
        self.encoded = [encode(recorder, pair) for pair in (swapped(text.pairs) if turned else text.pairs)]
        self._text, self._turned = text, turned
        self._found: dict[Place, Counts] = {}

    def counts(self, place: Place) -> Counts:
        """Those of each sentence `[N, 4]`."""
        if place not in self._found:
            links = [alignment.links for alignment in align_encoded(self.reader, self.encoded, place)]
            self._found[place] = count_all(turn(links) if self._turned else links, self._text.gold)
        return self._found[place]


def rows_of(
    recorder: ModelRecorder, text: Text, turned: bool, runs: Sequence[tuple[str, list[Pair]]]
) -> Iterator[dict[str, Value]]:
    """A row for each text to choose by: the gold's own, then runs of lines."""
    gold = Gold(recorder, text, turned)
    given = ((name, readable(recorder, swapped(pairs) if turned else pairs)) for name, pairs in runs)
    for name, encoded in [("gold", gold.encoded), *given]:
        ways = places(gold.reader, encoded)
        consistency = {way: consistency_at(gold.reader, encoded, place) for way, place in ways.items()}
        auto = max(consistency, key=lambda way: consistency[way])
        row: dict[str, Value] = {"text": name, "pairs": len(encoded), "cells": str(ways["both"]), "auto": auto}
        for way, place in ways.items():
            rate, low, high = map(percent, estimate(gold.counts(place)))
            row |= {f"consistency_{way}": consistency[way], f"aer_{way}": rate, f"interval_{way}": interval(low, high)}
        first, second = (gold.counts(ways[way]) for way in (auto, "both"))
        yield row | {"p": None if auto == "both" else compare(first, second, "permutation", samples=PERMUTATIONS)[1]}


def runs_of(pairs: Sequence[Pair]) -> Iterator[tuple[str, list[Pair]]]:
    """Runs of lines of several sizes, as far as there are so many."""
    for size in SIZES:
        for n in range(min(RUNS, len(pairs) // size)):
            yield f"run {n + 1}", list(pairs[n * size : (n + 1) * size])


def changed(recorder: ModelRecorder, text: Text, turned: bool, lessons: Lessons) -> Iterator[tuple[str, ModelRecorder]]:
    """A model as it is, and with a head of the last layer that aligns in the output position."""
    yield "", recorder
    encoded = readable(recorder, swapped(text.pairs) if turned else text.pairs)
    single = [cell for cell in all_cells(recorder) if cell.head != "all"]
    cell = best_cells(Reader(recorder), encoded, single)["input"]
    yield ", copied head", Copied(recorder, cell, alone=False)
    yield ", copied head alone", Copied(recorder, cell, alone=True)
    pairs, links = lessons
    train_head(recorder, swapped(pairs) if turned else pairs, turn(links) if turned else links)
    yield ", trained head", recorder


COLUMNS = [
    *(Column(key, key) for key in ("model", "text", "pairs", "cells")),
    *(Column(f"consistency_{way}", f"consistency, {way}", 2) for way in ("input", "output", "both")),
    *(
        column
        for way in ("input", "output", "both")
        for column in (Column(f"aer_{way}", f"AER {way}", 1), Column(f"interval_{way}", "95 % CI", 1, True))
    ),
    Column("auto", "auto"),
    Column("p", "p, auto and both", 4),
]


def learned(about: dict[str, Any], data: Path, pairs: Sequence[Pair]) -> Lessons:
    """Pairs that are not too long, and their links by both of the experiment's models together."""
    short = [pair for pair in pairs if max(len(pair.source), len(pair.target)) <= LONGEST]
    return short, [alignment.links for alignment in two_way(*load_directions(about, data, "blank"))(short)]


def run(data: Path, config: Path, experiment: str, models: list[str], pairs: int, output: Path) -> None:
    """Choose, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    train = settings["train"][about["train"][0]]
    given = read_lines_of(train, data)
    lines = [pair for pair in given if not pair.blank]
    lessons = learned(about, data, lines[-pairs:])
    runs = list(runs_of(lines[:-pairs]))
    own = about["models"][0], about["reverse_models"][0]
    rows: list[dict[str, Value]] = []
    names: list[str] = []
    languages = tuple(train["languages"])
    for name in (*own, *models):
        recorder = load_model(name, data, "cpu", too_long="blank").forward.recorder
        assert isinstance(recorder, ModelRecorder)
        names.append(recorder.name)
        turned = recorder.languages != languages
        variants = changed(recorder, text, turned, lessons) if name in own else [("", recorder)]
        for change, one in variants:
            rows += [{"model": f"{Path(name).name}{change}", **row} for row in rows_of(one, text, turned, runs)]
    write_table(
        COLUMNS,
        rows,
        signature({"model": names, "trained": pairs}, "positions"),
        output / f"{experiment}.positions.tsv",
    )
