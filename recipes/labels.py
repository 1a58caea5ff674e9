"""Write what `extract-align train scorer` learns from: text, and links of three teachers; it can be interrupted.

    .venv/bin/python -m recipes.labels FOLDER --data DATA

A label is the mean of the soft scores of two translation models, of those of a multilingual encoder unless --encoder
is none, and, where MGIZA has aligned a pair, of the share of its two directions on pieces. Gold is not used, and pairs
that are in a gold set are left out. The folder gets text.source, text.target and links, and links.swapped for models of
the other direction; `distil` uses the same folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from pathlib import Path
from random import Random
from typing import Any

import torch

from align import Aligner, Alignment, Pair, Settings, load, two_way
from align.baselines.tools import align_with, lower_case
from align.core.backend import Recorder
from align.core.formats import format_pharaoh
from align.core.stream import BUFFER
from align.core.symmetrize import mean_links, share_of_directions
from align.core.types import LinkScores
from align.evaluation.link_formats import parse_scored
from align.models.defaults import ENCODER
from align.models.folder import NO_ADAPTER
from align.models.model_toml import ModelOptions
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


def add_teachers(parser: argparse.ArgumentParser) -> None:
    """Add the options of teachers."""
    parser.add_argument("--encoder", default=ENCODER, help=f"a third teacher, or none (default: {ENCODER})")
    parser.add_argument("--partner", type=int, default=200_000, help="number of pairs that MGIZA aligns, too")


def teachers_of(about: dict[str, Any], data: Path) -> list[Aligner]:
    """Return the models of an experiment in both directions, as they are read by default."""
    models = load_directions(about, data, too_long="blank")
    return [replace(model, forward=replace(model.forward, settings=Settings())) for model in models]


def training_pairs(settings: dict[str, Any], about: dict[str, Any], data: Path, seed: int) -> list[Pair]:
    """Return the pairs of an experiment's training text in random order, without those of its gold sets.

    Their Moses tokens keep their case, without which the encoder is worse; the models lower-case them themselves.
    """
    tested = {letters(lower_case(pair)) for pair in read_text(settings, about["gold"], data).pairs}
    text = read_train(settings["train"][about["train"][0]], data, case="keep")
    pairs = [pair for pair in text if not pair.blank and letters(lower_case(pair)) not in tested]
    Random(seed).shuffle(pairs)
    short = [pair for pair in pairs if max(len(pair.source), len(pair.target)) <= LONGEST]
    return [replace(pair, id=number) for number, pair in enumerate(short, 1)]


def write_labels(
    folder: Path, pairs: Sequence[Pair], teachers: Callable[[Sequence[Pair]], Iterable[Alignment]]
) -> None:
    """Write the soft scores of all pairs, as far as they are missing: a line of links for each pair."""
    folder.mkdir(parents=True, exist_ok=True)
    for begin in range(0, len(pairs), PART):
        path = folder / f"{begin // PART:03}.txt"
        if not path.exists():
            alignments = teachers(pairs[begin : begin + PART])
            write_lines(path, [format_pharaoh(alignment, True) for alignment in alignments])
            print(f"{folder.name} from pair {begin:,} of {len(pairs):,}", file=sys.stderr, flush=True)


def write_partner(
    path: Path, pairs: Sequence[Pair], recorder: Recorder, tool: str = "giza", count: int | None = None
) -> None:
    """Write the share of a tool's two directions that have a link, on pieces; a file that is there stays.

    It aligns all pairs; links of the first `count` are written, by default of all.
    """
    if not path.exists():
        links = align_with(tool, pairs, threads=2 if tool == "giza" else 1, cut=recorder.encode)
        shares = (share_of_directions(*both).items() for both in islice(links, count))
        write_lines(path, [" ".join(f"{i}-{j}:{share}" for (i, j), share in of_pair) for of_pair in shares])


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write lines to a file, which is there once it is whole."""
    part = path.with_suffix(".part")
    part.write_text("".join(f"{line}\n" for line in lines))
    part.replace(path)


def write_teachers(
    folder: Path, text: Sequence[Pair], count: int, teachers: Sequence[Aligner], encoder: str, partner: int
) -> None:
    """Write the labels of all teachers for the first pairs of a text, in whole parts, as far as they are missing.

    Args:
        count: number of pairs.
        teachers: the models of both directions.
        encoder: its name, or "none".
        partner: number of pairs that MGIZA aligns, too.
    """
    forward, back = teachers
    pairs = text[: -(-count // PART) * PART]
    write_labels(folder / "labels", pairs, two_way(forward, back, threshold=FAINT).fixed(pairs[:BUFFER]))
    if encoder != "none":
        options = ModelOptions(adapter=NO_ADAPTER if encoder == ENCODER else None)  # it was taught by models
        aligner = load(encoder, options=options, threshold=FAINT, device="cpu", dtype="int8", too_long="blank")
        write_labels(folder / "encoder", pairs, aligner.fixed(pairs[:BUFFER]))
    if partner:
        write_partner(folder / "giza.txt", text[:partner], forward.forward.recorder)


def labels_of(folder: Path, count: int, encoder: str, partner: int | bool) -> Iterator[LinkScores]:
    """Yield the mean of the teachers' labels for each of the first pairs; arguments as for `write_teachers`."""
    voices = ["labels/*.txt", *(["encoder/*.txt"] if encoder != "none" else []), *(["giza.txt"] if partner else [])]
    for of_pair in islice(zip_longest(*(read_links(folder, voice) for voice in voices)), count):
        yield mean_links([links for links in of_pair if links is not None], 0)


def read_links(folder: Path, files: str) -> Iterator[LinkScores]:
    """Yield the links of each line of the files of a pattern, one after the other; there must be one."""
    paths = sorted(folder.glob(files))
    if not paths:
        raise FileNotFoundError(f"no {folder / files}")
    for path in paths:
        yield from map(parse_scored, path.read_text().splitlines())


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
    add_teachers(parser)
    return parser


def run(
    data: Path,
    config: Path,
    experiment: str,
    folder: Path,
    pairs: int,
    encoder: str,
    partner: int,
    seed: int,
    threads: int,
) -> None:
    """Align, write."""
    torch.set_num_threads(threads)
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = training_pairs(settings, about, data, seed)
    write_teachers(folder, text, pairs, teachers_of(about, data), encoder, partner)
    write_text(folder, text[:pairs], list(labels_of(folder, len(text[:pairs]), encoder, partner)))


if __name__ == "__main__":
    run(**vars(build_parser().parse_args()))
