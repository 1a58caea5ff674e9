"""Train the general link scorer, and others that have not seen a language or an architecture.

    .venv/bin/python -m recipes.scorer FOLDER --data DATA

It learns from the shares of models in [scorer] of experiments.toml: in one direction and in two, by norm and by weight,
in each position, and in cells next to the chosen ones. Labels are those of `recipes.labels FOLDER/LABELS`,
without gold. Shares are stored in the folder, and so is each scorer: all.1.safetensors and so on, one for each seed,
and without-NAME.safetensors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

import torch

from align import Aligner, Pair, two_way
from align.core.aligner import Direction
from align.core.backend import AttentionRecorder, StateRecorder
from align.core.types import Cell, Choice, Head, Place
from align.evaluation.link_formats import parse_scored
from align.models.link_scorer import scorer_bytes
from align.training.scorer import Example, Labels, read_examples, train_network, with_runs
from eval.common import read_config, swapped
from eval.scorer import load_system
from recipes.labels import parser_of

PART = 250
"""Pairs that are read in the same way."""

SAMPLE = 1_000
"""Pairs that choose layer and head of a model that stores none."""


def ways_to_read(model: Aligner, sample: Sequence[Pair]) -> Iterator[Direction]:
    """Yield a model as it is read by default, and otherwise: by weight, in one position, in a cell next to the chosen.

    Two of three are the default.
    """
    default = model.fixed(sample).forward
    recorder, settings = default.recorder, default.settings
    assert default.choice
    assert not isinstance(recorder, StateRecorder)
    chosen = default.choice.place.cells()
    others = [replace(settings, score="weight")]
    if {position for _, position in default.calibration} != {"input"}:
        others += [
            replace(settings, position=position) for position in ("input", "output") if chosen.keys() != {position}
        ]
    for other in others:
        yield from (default, default)
        yield Aligner(replace(default, settings=other, choice=None)).fixed(sample).forward
    for layers, heads in ((0, 1), (1, 0)):  # steps to the next cell
        cells = {position: next_cell(recorder, cell, layers, heads) for position, cell in chosen.items()}
        if cells != chosen:
            yield from (default, default)
            yield replace(default, choice=Choice(Place(**cells), "next to the chosen cell"))


def next_cell(recorder: AttentionRecorder, cell: Cell, layers: int, heads: int) -> Cell:
    """Return the cell that is some layers and heads after another, in a circle of the layers, and of all heads."""
    number = 0 if cell.head == "all" else cell.head
    head: Head = (number + heads) % (recorder.heads + 1) or "all"
    return Cell((cell.layer - 1 + layers) % recorder.layers + 1, head)


def read_labelled(folder: Path, count: int) -> list[tuple[Pair, Labels]]:
    """Return the first pairs of a folder of `recipes.labels`, with their labels."""
    files = (folder / name for name in ("text.source", "text.target", "links"))
    lines = islice(zip(*(file.read_text(encoding="utf-8").splitlines() for file in files), strict=True), count)
    return [
        (Pair(tuple(source.split()), tuple(target.split()), number), parse_scored(links))
        for number, (source, target, links) in enumerate(lines, 1)
    ]


def examples_of(about: dict[str, Any], folder: Path, data: Path, count: int) -> Iterator[Example]:
    """Yield what a system's models teach: half of the pairs are read in one direction first, half in the other."""
    random = Random(1)
    labelled = with_runs(read_labelled(folder, count), random)
    text = [pair for pair, _ in labelled[:SAMPLE]]
    models = zip(load_system(about, data), (text, swapped(text)), strict=True)
    ways = [cycle(list(ways_to_read(model, sample))) for model, sample in models]
    for begin in range(0, len(labelled), PART):
        part = labelled[begin : begin + PART]
        first, second = (Aligner(next(of_model)) for of_model in ways)
        if random.random() < 0.5:
            first, second = second, first
            part = [(Pair(p.target, p.source, p.id), {(j, i): s for (i, j), s in of.items()}) for p, of in part]
        yield from read_examples(two_way(first, second), part)


def read_shares(path: Path, make: Iterator[Example]) -> list[Example]:
    """Return the examples of a file, which is made if it is missing."""
    if not path.is_file():
        part = path.with_suffix(".part")
        torch.save([tuple(example) for example in make], part)
        part.replace(path)
    return [Example(*example) for example in torch.load(path, weights_only=True)]


def report(name: str, epoch: int, loss: float) -> None:
    """Print the loss of an epoch."""
    print(f"{name}, epoch {epoch}: loss {loss:.3f} per target word", file=sys.stderr, flush=True)


def build_parser() -> argparse.ArgumentParser:
    """Build the parser."""
    parser = parser_of("recipes.scorer", str(__doc__))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=12_000, help="of each system")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3, help="scorers of all systems")
    return parser


def run(
    data: Path,
    config: Path,
    experiment: str,
    folder: Path,
    pairs: int,
    epochs: int,
    seeds: int,
    seed: int,
    threads: int,
) -> None:
    """Read shares, train, write."""
    torch.set_num_threads(threads)
    settings = read_config(config)
    systems: dict[str, dict[str, Any]] = settings["scorer"]
    (folder / "shares").mkdir(parents=True, exist_ok=True)
    examples: dict[str, list[Example]] = {}
    for name, about in systems.items():
        if "labels" in about:
            made = examples_of(about, folder / about["labels"], data, pairs)
            examples[name] = read_shares(folder / "shares" / f"{name}.pt", made)
            print(f"{name}: {len(examples[name]):,} pairs", file=sys.stderr, flush=True)
    without: dict[str, set[str]] = {}
    for name in examples:
        for kind in ("language", "architecture"):
            without.setdefault(systems[name][kind], set()).add(name)
    trainings: list[tuple[str, set[str], int]] = [
        (f"all.{number}", set(), number) for number in range(seed, seed + seeds)
    ]
    trainings += [(f"without-{kind}", left_out, seed) for kind, left_out in without.items() if left_out != {*examples}]
    for name, left_out, of_training in trainings:
        path = folder / f"{name}.safetensors"
        if path.is_file():
            continue
        chosen = [example for system, of in examples.items() if system not in left_out for example in of]
        Random(of_training).shuffle(chosen)
        network = train_network(chosen, epochs, of_training, partial(report, name))
        numbers = {"pairs": len(chosen), "epochs": epochs, "seed": of_training}
        path.write_bytes(scorer_bytes(network, {name: str(number) for name, number in numbers.items()}))


if __name__ == "__main__":
    run(**vars(build_parser().parse_args()))
