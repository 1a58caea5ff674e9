"""The paper's table, what the rules choose, and statistical aligners beside it, from models, bitext and gold.

    .venv/bin/python eval/reproduce.py --data DIR [EXPERIMENT ...]

Experiments are in eval/experiments.toml. Each prints four tables and writes them, with heat maps, to eval/results/:
AER by layer (mean and sd over the models, which differ in their seed), layer and head by rules, scores and positions
paired, and systems. An experiment whose files are missing is named and left out, unless it was asked for.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from reproduce_tables import comparison_rows, layer_rows, rule_rows

import align
from align import Aligner, Pair, TwoWayAligner, __version__, load
from align.aligners.rules import choose
from align.aligners.sweep import sweep
from align.aligners.swept import POSITIONS, SCORES, Sweep
from align.cli.common import show_warnings
from align.links.metrics import SAMPLES, SEED, Counts, compare, count_all, estimate
from align.links.symmetrize import METHODS, SOFT, THRESHOLD
from align.memory import keep_freed_memory
from align.statistical.tools import align_with, describe_tool, lower_case
from align.text.preprocess import Preprocessor, TextRules
from align.training.corpus import read_pairs as read_bitext
from align.types import Choice, Gold, Links, Settings, TextWarning
from align.view.sweep_tables import draw
from align.view.tables import TABLES, Column, Rows, Value, as_tsv, show_interval

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
SYMMETRIZED = ("grow-diag", "grow-diag-final-and")
BOTH = Settings(position="both", threshold=THRESHOLD)


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
    """The experiments, and the gold and texts that they name."""
    config: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return config


def parse_with_data(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line, with an option for the folder of the data, which must be named."""
    variable = "EXTRACT_ALIGN_DATA"
    parser.add_argument("--data", type=Path, default=os.environ.get(variable), help="folder of the data")
    args = parser.parse_args()
    if args.data is None:
        parser.error(f"--data, or the environment variable {variable}, names the folder of the data")
    return args


def read_gold(config: dict[str, Any], names: list[str], data: Path) -> Text:
    """The gold sets of an experiment, each checked against its text."""
    text = Text(names, [], [], [])
    for name in names:
        about = config["gold"][name]
        pairs = align.read_text(str(data / about["source"]), str(data / about["target"]))
        gold = align.read_gold(
            data / about["links"],
            format=about["format"],
            base=about["base"],
            out_of_range=about.get("out_of_range", "stop"),
            text=pairs,
        ).pairs
        text.pairs.extend(Pair(p.source, p.target, len(text.pairs) + n) for n, p in enumerate(pairs, 1))
        text.gold.extend(gold)
        text.sizes.append(len(gold))
    return text


def files_of(config: dict[str, Any], experiment: dict[str, Any], data: Path) -> Iterator[Path]:
    """Every file or folder that an experiment reads."""
    for name in experiment["gold"]:
        yield from (data / config["gold"][name][key] for key in ("source", "target", "links"))
    if experiment["baselines"]:
        for train in (config["train"][name] for name in experiment["train"]):
            yield from (data / train[key] for key in ("source", "target", "labels") if key in train)
    for model in (*experiment["models"], *experiment.get("reverse_models", ())):
        if "/" in model:
            yield data / model


class Tokens:
    """Moses tokens of one side, lower-cased."""

    def __init__(self, language: str) -> None:
        self._numbers: dict[str, int] = {}
        self._tokens: list[str] = []
        self._prepare = Preprocessor(TextRules(language, "lower", "moses"), self._number)

    def _number(self, token: str) -> int:
        if token not in self._numbers:
            self._numbers[token] = len(self._tokens)
            self._tokens.append(token)
        return self._numbers[token]

    def __call__(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The tokens of a sentence's words."""
        return tuple(self._tokens[number] for number in self._prepare(words)[0])


def read_train(about: dict[str, Any], data: Path) -> Iterator[Pair]:
    """The training text, tokenised and lower-cased: all of it, or the pairs with one of the labels to take."""
    source, target = (Tokens(language) for language in about["languages"])
    labels = data / about["labels"] if "labels" in about else None
    for number, (words, other, label) in enumerate(
        read_bitext(data / about["source"], data / about["target"], labels), 1
    ):
        if labels is None or any(fnmatchcase(label, pattern) for pattern in about["take"]):
            yield Pair(source(words), target(other), number)


def letters(pair: Pair) -> tuple[str, str]:
    """Both sides without blanks, to find test pairs in training text that is tokenised otherwise."""
    return "".join(pair.source), "".join(pair.target)


def two_ways(name: str, back: str, aligners: list[Aligner], text: Text) -> Iterator[tuple[str, Counts]]:
    """The reverse model's links and both directions' made one, by either score, each model on the cell it chooses."""
    ways = list(product([Settings(score) for score in SCORES], ("reverse", *SYMMETRIZED, SOFT)))
    for settings, method in [*ways, (Settings(position="both"), SOFT)]:
        forward, reverse = (Aligner(aligner.recorder, settings) for aligner in aligners)
        both = TwoWayAligner(forward, reverse, method)
        choices: list[Choice] = []
        counts = count_all([alignment.links for alignment in both(text.pairs, choices.extend)], text.gold)
        if method == "reverse":
            yield f"{back} (reverse): {settings.score}, input, {choices[1].place}", counts
        else:
            yield f"{name} and {back}: {settings.score}, {settings.position}, {method}", counts


def systems(
    experiment: dict[str, Any],
    config: dict[str, Any],
    data: Path,
    text: Text,
    sweeps: list[Sweep],
    loaded: list[list[Aligner]],
) -> Iterator[tuple[str, Counts]]:
    """Names and counts `[N, 4]`: models at the cell that lexical consistency takes, then statistical aligners."""
    backs = experiment.get("reverse_models", ())
    for n, (model, found) in enumerate(zip(experiment["models"], sweeps, strict=True)):
        assert found.counts is not None
        for choice in choose(found):
            if choice.rule == "lexical consistency, layers and heads":
                s, p = SCORES.index(choice.score), POSITIONS.index(choice.position)
                cell = found.cells[choice.cell]
                yield f"{model}: {choice.score}, {choice.position}, {cell}", found.counts[:, s, p, choice.cell]
        for settings in (Settings(threshold=THRESHOLD), Settings(position="both"), BOTH):
            aligner = Aligner(loaded[n][0].recorder, settings)
            counts = count_all([alignment.links for alignment in aligner(text.pairs)], text.gold)
            threshold = "" if settings.threshold is None else f", threshold {settings.threshold:g}"
            yield f"{model}: norm, {settings.position}{threshold}", counts
        if backs:
            yield from two_ways(model, backs[n], loaded[n], text)
    tested = {letters(pair) for pair in map(lower_case, text.pairs)}
    for tool, trained in product(experiment["baselines"], experiment["train"]):
        train = (p for p in read_train(config["train"][trained], data) if letters(p) not in tested)
        both = list(align_with(tool, map(lower_case, text.pairs), train=train, append=True))
        directions: dict[str, list[Links]] = {"forward": [f for f, _ in both], "reverse": [b for _, b in both]}
        directions |= {method: [METHODS[method](f, b) for f, b in both] for method in SYMMETRIZED}
        for name, links in directions.items():
            yield f"{tool} ({trained} text): {name}", count_all(links, text.gold)


def system_rows(found: list[tuple[str, Counts]], default: str, text: Text) -> tuple[list[Column], Rows]:
    """AER with interval on each set, and on all of them precision, recall and a paired test against the default."""
    columns = [Column("system", "system")]
    for name, _ in text.parts():
        columns += [Column(f"aer_{name}", f"AER {name}", 1), Column(f"interval_{name}", "95 % interval")]
    columns += [Column("precision", "P", 1), Column("recall", "R", 1), Column("p", "p against the default", 4)]
    base = dict(found)[default]
    rows = []
    for system, counts in found:
        row: dict[str, Value] = {"system": system + (" (default)" if system == default else "")}
        for name, part in text.parts():
            value, low, high = (x if x is None else 100 * x for x in estimate(counts[part]))
            row |= {f"aer_{name}": value, f"interval_{name}": show_interval(low, high, 1)}
        for metric in ("precision", "recall"):
            value = estimate(counts, metric, samples=0).value
            row[metric] = None if value is None else 100 * value
        row["p"] = None if system == default else compare(counts, base, "permutation", samples=10_000)[1]
        rows.append(row)
    return columns, rows


def describe(name: str, tools: list[str]) -> Iterator[tuple[str, str]]:
    """The statistical aligners that are there, for the signature; the others are named on stderr."""
    for tool in tools:
        try:
            yield tool, describe_tool(tool)
        except ModuleNotFoundError as error:
            print(f"{name}: without {tool}: {error}", file=sys.stderr)


def run(name: str, config: dict[str, Any], args: argparse.Namespace) -> None:
    """One experiment: its tables printed and written, its heat maps drawn."""
    experiment = config["experiment"][name]
    text = read_gold(config, experiment["gold"], args.data)
    reverse = experiment.get("reverse_models") or [None] * len(experiment["models"])
    sweeps, models, loaded = [], [], []
    for model, back in zip(experiment["models"], reverse, strict=True):
        aligners = [load(str(args.data / m) if "/" in m else m) for m in (model, back) if m]
        sweeps.append(sweep(aligners[0], text.pairs, text.gold, *aligners[1:]))
        models += [aligner.recorder.name for aligner in aligners]
        loaded.append(aligners)
    tools = dict(describe(name, experiment["baselines"]))
    counted = list(systems({**experiment, "baselines": list(tools)}, config, args.data, text, sweeps, loaded))
    last = f"norm, input, {SOFT}" if experiment.get("reverse_models") else "norm, input"
    default = next(system for system, _ in counted if last in system)
    tables = {
        "layers": layer_rows(sweeps),
        "rules": rule_rows(sweeps),
        "comparisons": comparison_rows(sweeps),
        "systems": system_rows(counted, default, text),
    }
    gold = f"gold:{'+'.join(text.names)}"
    sign = "|".join(
        ["reproduce", name, gold, *models, *tools.values(), "trained:train+test", f"ci:percentile-{SAMPLES}"]
    )
    sign += f"|test:permutation-10000|seed:{SEED}|v:{__version__}"
    for table, (columns, rows) in tables.items():
        print(f"\n{name}, {table}\n")
        print(TABLES[args.format](columns, rows, sign, ()))
        path = args.output / f"{name}.{table}.tsv"
        path.write_text(as_tsv(columns, rows, sign) + "\n", encoding="utf-8")
    mean = np.mean([100 * found.rates() for found in sweeps], axis=0)
    title = models[0] if len(sweeps) == 1 else f"mean of {len(sweeps)} models"
    title += f", {len(text.pairs)} pairs\nframed: best, with gold"
    draw(mean, "AER", sweeps[0].cells[-1].layer, args.output / name, title)


def main() -> int:
    """Run the experiments that were asked for, or all whose files are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT")
    parser.add_argument("--config", type=Path, default=HERE / "experiments.toml")
    parser.add_argument("-f", "--format", choices=tuple(TABLES), default="text", help="of what is printed")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results")
    args = parse_with_data(parser)
    config = read_config(args.config)
    unknown = set(args.experiments) - set(config["experiment"])
    if unknown:
        parser.error(f"no experiment {', '.join(sorted(unknown))} in {args.config}: {', '.join(config['experiment'])}")
    keep_freed_memory()
    show_warnings("reproduce", TextWarning)
    args.output.mkdir(parents=True, exist_ok=True)
    for name in args.experiments or config["experiment"]:
        missing = [path for path in files_of(config, config["experiment"][name], args.data) if not path.exists()]
        if missing:
            more = f" and {len(missing) - 1} more" if missing[1:] else ""
            print(f"{name}: missing {missing[0]}{more}; scripts/get_data says where data comes from", file=sys.stderr)
            if args.experiments:
                return 1
            continue
        run(name, config, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
