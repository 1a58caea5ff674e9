"""Train readers of models on the links of an ensemble, and measure them: AER and time.

The labels are those of `distil`, in whose folder they are looked for: the mean of both models' soft scores and of
MGIZA's share. Gold is not used, and pairs that are in a gold set are left out. The folder also gets what `extract-align
train reader` takes: text.source, text.target and links, and links.swapped for models of the other direction.

Rows are models by themselves and with readers of some seeds, alone and with their reverse models; p and time are
compared with the same models without a reader. Readers of bundled models can be measured, too, with models of other
languages.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import torch
from common import find_experiment, load_directions, read_config, read_text, score_columns, score_row, write_table
from distil import FAINT, PART, training_pairs, write_labels, write_lines, write_partner

from align import Aligner, Pair, Settings, load, two_way
from align.evaluation.ensemble import MeanScores, mean_links
from align.evaluation.link_formats import parse_scored
from align.evaluation.metrics import count_all
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.models.folder import BUNDLED, READER
from align.models.trained_reader import TrainedReader, read_reader
from align.training.reader import read_examples, train_network

TIMED = 1_000
"""Pairs that are aligned to measure the time of a reader."""


def labels_of(folder: Path, count: int) -> Iterator[MeanScores]:
    """Yield the mean of the labels in a folder of `distil` for each of the first pairs."""
    lines = [line for path in sorted((folder / "labels").glob("[0-9]*.txt")) for line in path.read_text().splitlines()]
    partner = folder / "giza.txt"
    partners = partner.read_text().splitlines() if partner.exists() else []
    for of_pair in zip_longest(lines[:count], partners[:count], fillvalue=""):
        yield mean_links([parse_scored(line) for line in of_pair], 0)


def write_text(folder: Path, pairs: Sequence[Pair], labels: Sequence[MeanScores]) -> None:
    """Write pairs and labels as `extract-align train reader` takes them."""
    write_lines(folder / "text.source", [" ".join(pair.source) for pair in pairs])
    write_lines(folder / "text.target", [" ".join(pair.target) for pair in pairs])
    for name, turn in (("links", 1), ("links.swapped", -1)):
        links = ({link[::turn]: score for link, score in of_pair.items()} for of_pair in labels)
        lines = (" ".join(f"{i}-{j}:{score:.4f}" for (i, j), score in sorted(of_pair.items())) for of_pair in links)
        write_lines(folder / name, list(lines))


def without(aligner: Aligner) -> Aligner:
    """Return the same aligner of one model."""
    return replace(aligner, reverse=None)


def reading(aligner: Aligner, reader: TrainedReader | None) -> Aligner:
    """Return an aligner that uses a reader."""
    settings = replace(aligner.forward.settings, threshold=aligner.threshold)
    return replace(aligner, forward=replace(aligner.forward, scorer=reader, settings=settings))


def slower(aligner: Aligner, than: Aligner, pairs: Sequence[Pair], rounds: int) -> float:
    """Return the median of the ratios of two aligners' times, one after the other."""
    ratios = []
    for _ in range(rounds):
        seconds = []
        for each in (aligner, than):
            begin = time.perf_counter()
            for _alignment in each(pairs):
                pass
            seconds.append(time.perf_counter() - begin)
        ratios.append(seconds[0] / seconds[1])
    return statistics.median(ratios)


def run(
    data: Path,
    config: Path,
    experiment: str,
    folder: Path,
    models: Sequence[str],
    reverse_models: Sequence[str],
    pairs: int,
    partner: int,
    epochs: int,
    seeds: Sequence[int],
    readers_of: Sequence[str],
    rounds: int,
    seed: int,
    threads: int,
    output: Path,
) -> None:
    """Label, train, measure, print, write; without seeds, measure the readers that the models are shipped with.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    torch.set_num_threads(threads)
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    trained = training_pairs(settings, about, data, seed)
    labels: list[MeanScores] = []
    if seeds:
        teachers = load_directions(about, data, too_long="blank")
        defaults = [replace(model, forward=replace(model.forward, settings=Settings())) for model in teachers]
        labelled = two_way(defaults[0], defaults[1], threshold=FAINT)
        whole = trained[: -(-pairs // PART) * PART]  # parts that distil may read
        write_labels(folder / "labels", whole, labelled)
        if partner:
            write_partner(folder / "giza.txt", trained[:partner], teachers[0].forward.recorder)
        trained = trained[:pairs]
        labels += labels_of(folder, len(trained))
        write_text(folder, trained, labels)
    rows: list[dict[str, Value]] = []
    names: list[str] = []
    for both in zip(models, reverse_models, strict=True):
        forward, reverse = (load(name, device="cpu", too_long="blank", reader=None) for name in both)
        names += [direction.recorder.name for direction in (forward.forward, reverse.forward)]
        aligner = two_way(forward, reverse)
        examples = list(read_examples(aligner.fixed(), zip(trained, labels, strict=True))) if seeds else []
        readers = {
            str(number): TrainedReader(Path(), "", {}, "cpu", train_network(examples, epochs, number))
            for number in seeds
        }
        shipped = readers_of if seeds else both[:1]
        readers |= {f"of {name}": read_reader(BUNDLED / name / READER) for name in shipped}
        for system in (without(aligner), aligner):
            name = " + ".join(both[: len(system.directions)])
            alone = reading(system, None)
            reference = count_all([alignment.links for alignment in alone(text.pairs)], text.gold)
            rows.append({"system": name, **score_row(reference, text, None), "time": None})
            for number, reader in readers.items():
                read = reading(system, reader)
                counts = count_all([alignment.links for alignment in read(text.pairs)], text.gold)
                ratio = slower(read, alone, trained[:TIMED], rounds)
                rows.append({"system": f"{name}, reader {number}", **score_row(counts, text, reference), "time": ratio})
    training = {"pairs": f"{pairs}", "epochs": f"{epochs}"} if seeds else {}
    sign = signature({"model": names, **training}, "reader")
    columns = [Column("system", "system"), *score_columns(text), Column("time", "time", 2)]
    write_table(columns, rows, sign, output / f"{experiment}.{'reader' if seeds else 'shipped'}.tsv")
