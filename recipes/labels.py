"""Write what `extract-align train scorer` learns from: text, and links of two models and MGIZA; it can be interrupted.

    .venv/bin/python -m recipes.labels FOLDER --data DATA

A label is the mean of both models' soft scores and, where MGIZA has aligned a pair, of the share of its two directions
on pieces. Gold is not used, and pairs that are in a gold set are left out. The folder gets text.source, text.target and
links, and links.swapped for models of the other direction; `distil` uses the same folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

import torch

from align import Aligner, Pair, Settings, two_way
from align.baselines.tools import align_with, lower_case
from align.core.backend import Recorder
from align.core.formats import format_pharaoh
from align.core.symmetrize import mean_links, share_of_directions
from align.core.types import LinkScores
from align.evaluation.link_formats import parse_scored
from eval.common import find_experiment, letters, load_directions, read_config, read_text, read_train

CONFIG = Path(__file__).parent.parent / "eval" / "experiments.toml"

LONGEST = 80
"""Words of either side of a training pair."""

PART = 10_000
"""Pairs whose labels are computed and stored together."""

FAINT = 0.02
"""Soft scores above this are stored; others count as 0."""


def parser_of(name: str, about: str) -> argparse.ArgumentParser:
    """Build a parser with the options that recipes share."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data")
    parser.add_argument("--config", type=Path, default=CONFIG, help="experiments and their files")
    parser.add_argument("--experiment", default="bundled", help="whose first models, gold and text are used")
    parser.add_argument("--seed", type=int, default=1, help="of the order of pairs, and of training")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    return parser


def teachers_of(about: dict[str, Any], data: Path) -> list[Aligner]:
    """Return the models of an experiment in both directions, as they are read by default."""
    models = load_directions(about, data, too_long="blank")
    return [replace(model, forward=replace(model.forward, settings=Settings())) for model in models]


def training_pairs(settings: dict[str, Any], about: dict[str, Any], data: Path, seed: int) -> list[Pair]:
    """Return the pairs of an experiment's training text in random order, without those of its gold sets."""
    tested = {letters(lower_case(pair)) for pair in read_text(settings, about["gold"], data).pairs}
    text = read_train(settings["train"][about["train"][0]], data)
    pairs = [pair for pair in text if not pair.blank and letters(pair) not in tested]
    Random(seed).shuffle(pairs)
    short = [pair for pair in pairs if max(len(pair.source), len(pair.target)) <= LONGEST]
    return [replace(pair, id=number) for number, pair in enumerate(short, 1)]


def write_labels(folder: Path, pairs: Sequence[Pair], teachers: Aligner) -> None:
    """Write the models' soft scores of all pairs, as far as they are missing: a line of links for each pair."""
    folder.mkdir(parents=True, exist_ok=True)
    for begin in range(0, len(pairs), PART):
        path = folder / f"{begin // PART:03}.txt"
        if not path.exists():
            alignments = teachers(pairs[begin : begin + PART])
            write_lines(path, [format_pharaoh(alignment, True) for alignment in alignments])
            print(f"labels from pair {begin:,} of {len(pairs):,}", file=sys.stderr, flush=True)


def write_partner(path: Path, pairs: Sequence[Pair], recorder: Recorder) -> None:
    """Write the share of MGIZA's two directions that have a link, on pieces; a file that is there stays."""
    if not path.exists():
        links = align_with("giza", pairs, threads=2, cut=recorder.encode)
        shares = (share_of_directions(*both).items() for both in links)
        write_lines(path, [" ".join(f"{i}-{j}:{share}" for (i, j), share in of_pair) for of_pair in shares])


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write lines to a file, which is there once it is whole."""
    part = path.with_suffix(".part")
    part.write_text("".join(f"{line}\n" for line in lines))
    part.replace(path)


def labels_of(folder: Path, count: int) -> Iterator[LinkScores]:
    """Yield the mean of the labels for each of the first pairs."""
    lines = [line for path in sorted((folder / "labels").glob("[0-9]*.txt")) for line in path.read_text().splitlines()]
    partner = folder / "giza.txt"
    partners = partner.read_text().splitlines() if partner.exists() else []
    for of_pair in zip_longest(lines[:count], partners[:count], fillvalue=""):
        yield mean_links([parse_scored(line) for line in of_pair], 0)


def write_text(folder: Path, pairs: Sequence[Pair], labels: Sequence[LinkScores]) -> None:
    """Write pairs and labels as `extract-align train scorer` takes them."""
    write_lines(folder / "text.source", [" ".join(pair.source) for pair in pairs])
    write_lines(folder / "text.target", [" ".join(pair.target) for pair in pairs])
    for name, turn in (("links", 1), ("links.swapped", -1)):
        links = ({link[::turn]: score for link, score in of_pair.items()} for of_pair in labels)
        lines = (" ".join(f"{i}-{j}:{score:.4f}" for (i, j), score in sorted(of_pair.items())) for of_pair in links)
        write_lines(folder / name, list(lines))


def build_parser() -> argparse.ArgumentParser:
    """Build the parser."""
    parser = parser_of("recipes.labels", str(__doc__))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=30_000, help="to label")
    parser.add_argument("--partner", type=int, default=200_000, help="number of pairs that MGIZA aligns, too")
    return parser


def run(
    data: Path, config: Path, experiment: str, folder: Path, pairs: int, partner: int, seed: int, threads: int
) -> None:
    """Align, write."""
    torch.set_num_threads(threads)
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = training_pairs(settings, about, data, seed)
    forward, back = teachers_of(about, data)
    whole = text[: -(-pairs // PART) * PART]  # parts that distil may read
    write_labels(folder / "labels", whole, two_way(forward, back, threshold=FAINT))
    if partner:
        write_partner(folder / "giza.txt", text[:partner], forward.forward.recorder)
    write_text(folder, text[:pairs], list(labels_of(folder, len(text[:pairs]))))


if __name__ == "__main__":
    run(**vars(build_parser().parse_args()))
