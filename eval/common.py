"""What the commands share: the data that experiments.toml names, where models are read, tables, signatures."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

import align
from align import Aligner, Pair, load
from align.core.stream import TooLong, encode
from align.core.types import Cell, Choice, Dtype, Gold
from align.evaluation.metrics import Counts, compare, estimate
from align.evaluation.tables import Column, Rows, Table, Value, interval, percent
from align.models.model_toml import parse_toml
from align.models.preprocess import Preprocessor, TextRules
from align.training.prepare import read_pairs as read_bitext

PERMUTATIONS = 10_000


def write_table(columns: Sequence[Column], rows: Rows, sign: str, path: Path, format: str = "text") -> None:
    """Print a table, and write it as TSV."""
    table = Table(columns, rows)
    print(table.write(format, sign), flush=True)
    path.write_text(table.write("tsv", sign) + "\n", encoding="utf-8")


def read_rows(path: Path, sign: str) -> list[dict[str, Value]]:
    """Read the rows of an existing table of results; none where there is no file.

    Raises:
        ValueError: what the table says of itself is not this: it was made otherwise, or on another machine.
    """
    if not path.exists():
        return []
    first, *lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    if first != f"# {sign}":
        raise ValueError(f"{path.name} was measured otherwise ({first[2:]}); move it away to begin anew")
    return [dict(row) for row in csv.DictReader(lines, delimiter="\t")]


# Experiments: the files that they name, read.


@dataclass(frozen=True)
class Text:
    """Gold sets one behind the other: their names, pairs, gold, and how many sentences each has."""

    names: list[str]
    pairs: list[Pair]
    gold: list[Gold]
    sizes: list[int]

    def parts(self) -> Iterator[tuple[str, slice]]:
        """Each set's place, and that of all together where there are several."""
        ends = np.cumsum(self.sizes).tolist()
        for name, size, end in zip(self.names, self.sizes, ends, strict=True):
            yield name, slice(end - size, end)
        if len(self.names) > 1:
            yield "all", slice(0, len(self.pairs))


def read_config(path: Path) -> dict[str, Any]:
    """Read the experiments, and the gold and texts that they name."""
    return parse_toml(path.read_text(encoding="utf-8"))


def find_experiment(config: dict[str, Any], name: str) -> dict[str, Any]:
    """One experiment.

    Raises:
        ArgumentError: there is no such one.
    """
    if name not in config["experiment"]:
        raise argparse.ArgumentError(None, f"no experiment {name}, only {', '.join(config['experiment'])}")
    experiment: dict[str, Any] = config["experiment"][name]
    return experiment


def files_of(config: dict[str, Any], experiment: dict[str, Any], data: Path) -> Iterator[Path]:
    """Every file or folder that an experiment reads."""
    for name in experiment["gold"]:
        yield from (data / config["gold"][name][key] for key in ("source", "target", "links"))
    if experiment["baselines"]:
        for train in (config["train"][name] for name in experiment["train"]):
            yield from (path for key in ("source", "target", "labels") for path in paths_of(train, key, data))
    for model in (*experiment["models"], *experiment.get("reverse_models", ())):
        if "/" in model:
            yield data / model


def paths_of(about: dict[str, Any], key: str, data: Path) -> list[Path]:
    """Return the files of one side of a training text, or of its labels: one, several that are one text, or none."""
    named = about.get(key, [])
    return [data / name for name in ([named] if isinstance(named, str) else named)]


def path_of(model: str, data: Path) -> str:
    """Return the name of a bundled model, or the path of one in the data folder."""
    return str(data / model) if "/" in model else model


def load_model(
    name: str, data: Path, device: str = "auto", too_long: TooLong = "stop", dtype: Dtype = "float32"
) -> Aligner:
    """Load a bundled model, or one of the data folder's, to be read in the input position."""
    return load(path_of(name, data), position="input", device=device, dtype=dtype, too_long=too_long, scorer=None)


def load_directions(experiment: dict[str, Any], data: Path, too_long: TooLong = "stop") -> tuple[Aligner, Aligner]:
    """Load the experiment's first model and its reverse one, on the CPU."""
    forward, reverse = (
        load_model(experiment[key][0], data, "cpu", too_long=too_long) for key in ("models", "reverse_models")
    )
    return forward, reverse


def read_text(config: dict[str, Any], names: list[str], data: Path) -> Text:
    """Read the gold sets of an experiment, each checked against its text."""
    text = Text(names, [], [], [])
    for name in names:
        about = config["gold"][name]
        pairs = align.read_text(str(data / about["source"]), str(data / about["target"]))
        gold = align.read_gold(
            data / about["links"],
            format=about["format"],
            base=about["base"],
            swapped=about.get("swapped", False),
            out_of_range=about.get("out_of_range", "stop"),
            text=pairs,
        ).pairs
        text.pairs.extend([Pair(p.source, p.target, len(text.pairs) + n) for n, p in enumerate(pairs, 1)])
        text.gold.extend(gold)
        text.sizes.append(len(gold))
    return text


class Tokens:
    """Tokens of one side, in lower case or with their case ("keep")."""

    def __init__(self, language: str, tokenizer: str = "moses", case: str = "lower") -> None:
        self._numbers: dict[str, int] = {}
        self._tokens: list[str] = []
        self._prepare = Preprocessor(TextRules(language, case, tokenizer), self._number)

    def _number(self, token: str) -> int:
        if token not in self._numbers:
            self._numbers[token] = len(self._tokens)
            self._tokens.append(token)
        return self._numbers[token]

    def __call__(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tokens of a sentence's words."""
        return tuple(self._tokens[number] for number in self._prepare(words)[0])


def _as_it_is(words: tuple[str, ...]) -> tuple[str, ...]:
    return words


def read_train(about: dict[str, Any], data: Path, tokenize: bool = True, case: str = "lower") -> Iterator[Pair]:
    """Read the training text: all of it, or the pairs with one of the labels to take.

    Args:
        about: what experiments.toml says of it.
        data: the folder that its files are in.
        tokenize: whether to make Moses tokens of it, if it is not in tokens.
        case: "lower", or "keep", of the tokens.
    """
    tokenizer = about.get("tokenizer", "moses")
    source_tokens, target_tokens = (
        Tokens(language, tokenizer, case) if tokenize else _as_it_is for language in about["languages"]
    )
    bitext = chain.from_iterable(map(read_bitext, *(paths_of(about, key, data) for key in ("source", "target"))))
    labels: Iterable[str] = repeat("")
    if "labels" in about:
        labels = chain.from_iterable(path.open(encoding="utf-8") for path in paths_of(about, "labels", data))
    take = about.get("take", ["*"])
    for number, ((source, target), label) in enumerate(zip(bitext, labels, strict=False), 1):
        if any(fnmatchcase(label.strip(), pattern) for pattern in take):
            yield Pair(source_tokens(source), target_tokens(target), number)


def letters(pair: Pair) -> tuple[str, str]:
    """Both sides without blanks, to find test pairs in training text that is tokenised otherwise."""
    return "".join(pair.source), "".join(pair.target)


def swapped(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs with their sides swapped, as the reverse model reads them."""
    return [Pair(pair.target, pair.source, pair.id) for pair in pairs]


# Where a model is read.


def chosen(aligner: Aligner, pairs: Sequence[Pair]) -> Choice:
    """Where an aligner reads a text, and why; nothing is aligned."""
    return aligner.forward.choose([encode(aligner.forward.recorder, pair, "blank") for pair in pairs[: aligner.buffer]])


def chosen_cell(aligner: Aligner, pairs: Sequence[Pair]) -> Cell:
    """Return the layer and head that an aligner chooses in the one position that it reads."""
    (cell,) = chosen(aligner, pairs).place.cells().values()
    return cell


# Tables of error rates.


def score_columns(text: Text) -> list[Column]:
    """Those of `score_row`."""
    columns = []
    names = [name for name, _ in text.parts()]
    for name in names:
        wide = name != names[-1]
        columns.append(Column(f"aer_{name}", f"AER {name}", 1, wide))
        columns.append(Column(f"interval_{name}", "95 % CI", 1, wide))
    return [*columns, Column("precision", "P", 1), Column("recall", "R", 1), Column("p", "p", 4)]


def score_row(counts: Counts, text: Text, reference: Counts | None) -> dict[str, Value]:
    """AER with interval on each set, and on all of them precision, recall and a paired test against the reference."""
    row: dict[str, Value] = {}
    for name, part in text.parts():
        value, low, high = map(percent, estimate(counts[part]))
        row |= {f"aer_{name}": value, f"interval_{name}": interval(low, high)}
    for metric in ("precision", "recall"):
        row[metric] = percent(estimate(counts, metric, samples=0).value)
    row["p"] = None if reference is None else compare(counts, reference, "permutation", samples=PERMUTATIONS)[1]
    return row
