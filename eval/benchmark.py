"""Is this tree faster than another commit? Whole programs in turn, round by round: eval/results/benchmark_against.tsv.

    .venv/bin/python eval/run.py benchmark --against REV -s SOURCE -t TARGET [--lines 20000] [--rounds 3]

The same extraction by both, files to Pharaoh lines, with the forward model's layers and heads fixed where this tree
chooses to read the text; the reverse model is read where its model.toml says. In one direction and in both, in float32
and, by this tree, in the other kinds of arithmetic. Start-up is the time until the links of a single line come out;
what is left of the time that the text takes is its rate.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from align import Choice, load, read_text
from align.core.types import Place
from align.evaluation.tables import Column, Value, interval
from eval.common import chosen, swapped, write_table
from eval.programs import EXTRACT, ROOT, absolute, checkout, first_lines, machine, read_output, revision, run_program

BASE = "float32"
"""What the other commit computes in."""

ONE, BOTH = DIRECTIONS = ("one direction", "both directions")


class Way(NamedTuple):
    """A program to be measured: in one direction or both, of which tree, in which arithmetic."""

    directions: str
    tree: Path
    dtype: str


class Measured(NamedTuple):
    """A round of a way: seconds until the links of one line, seconds that the whole text takes, its links."""

    start_up: float
    seconds: float
    links: list[str]

    def rate(self) -> float:
        """Lines a second, start-up left out."""
        return len(self.links) / (self.seconds - self.start_up)


class Bench:
    """Runs the ways on a text.

    Args:
        texts: the text, and its first line alone, as files of both sides.
        lines: of the text.
        models: the model, and the reverse one.
        place: where the model reads.
        threads: of a program, in all.
        folder: for what they write.
    """

    def __init__(
        self,
        texts: Sequence[tuple[Path, Path]],
        lines: int,
        models: tuple[str, str],
        place: Place,
        threads: int,
        folder: Path,
    ) -> None:
        self._text, self._line = texts
        self._lines, self._threads, self._folder = lines, threads, folder
        self._forward = ["-m", models[0], *cell_options(place)]
        self._reverse = ["--reverse-model", models[1]]

    def measure(self, way: Way) -> Measured:
        """One round of a way."""
        options = ["-q", "--bad-lines", "blank", "--threads", self._threads, "--dtype", way.dtype, *self._forward]
        options += self._reverse if way.directions == BOTH else []
        run = partial(run_program, EXTRACT, *options, tree=way.tree)
        start_up = run("-s", self._line[0], "-t", self._line[1]).first
        output = self._folder / "links"
        seconds = run("-s", self._text[0], "-t", self._text[1], "-o", output).seconds
        links = read_output(output, self._lines)
        output.unlink()
        return Measured(start_up, seconds, links)


def cell_options(place: Place) -> list[str]:
    """Return the options that make extract-align read here: `--layer 1,2 --head 1,all`."""
    cells = list(place.cells().values())
    layers, heads = (",".join(str(getattr(cell, part)) for cell in cells) for part in ("layer", "head"))
    return ["--layer", layers, "--head", heads]


def spread(values: Sequence[float]) -> tuple[Value, Value]:
    """Return the median over rounds, and the lowest and the highest."""
    return round(statistics.median(values), 3), interval(round(min(values), 3), round(max(values), 3))


COLUMNS = [
    Column("directions", "directions"),
    Column("revision", "revision"),
    Column("dtype", "dtype"),
    Column("start_up", "start-up, s"),
    Column("seconds", "whole, s"),
    Column("rate", "lines/s"),
    *(
        column
        for key, head in (("rate", "lines/s"), ("start_up", "start-up"), ("seconds", "whole"))
        for column in (Column(f"{key}_ratio", f"{head}, ratio"), Column(f"{key}_spread", "min–max"))
    ),
    Column("other", "lines with other links"),
]


def row(way: Way, found: list[Measured], base: list[Measured], name: str) -> dict[str, Value]:
    """Compare a way with the other commit in the same directions; ratios say how many times as fast it is."""
    pairs = list(zip(found, base, strict=True))
    ratios = {
        "rate": [one.rate() / other.rate() for one, other in pairs],
        "start_up": [other.start_up / one.start_up for one, other in pairs],
        "seconds": [other.seconds / one.seconds for one, other in pairs],
    }
    values: dict[str, Value] = {"directions": way.directions, "revision": name, "dtype": way.dtype}
    values["start_up"] = round(statistics.median(one.start_up for one in found), 2)
    values["seconds"] = round(statistics.median(one.seconds for one in found), 2)
    values["rate"] = round(statistics.median(one.rate() for one in found))
    for key, ratio in ratios.items():
        values[f"{key}_ratio"], values[f"{key}_spread"] = spread(ratio)
    values["other"] = sum(a != b for a, b in zip(found[-1].links, base[-1].links, strict=True))
    return values


def run(
    source: str,
    target: str,
    model: str,
    reverse_model: str,
    lines: int,
    rounds: int,
    against: str,
    dtypes: list[str],
    threads: int,
    output: Path,
) -> None:
    """Measure; print and write what is known after each round."""
    models = absolute(model), absolute(reverse_model)
    place, names = where_to_read(source, target, models, lines)
    command = (
        f"python eval/run.py benchmark --against {against} -s {Path(source).name} -t {Path(target).name} "
        f"--dtypes {' '.join(dtypes)} --lines {lines}"
    )
    with checkout(against) as old, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, line = (first_lines(source, target, count, folder) for count in (lines, 1))
        bench = Bench((text, line), lines, models, place, threads, folder)
        bases = {directions: Way(directions, old, BASE) for directions in DIRECTIONS}
        ways = [
            way
            for directions, base in bases.items()
            for way in (base, *(Way(directions, ROOT, dtype) for dtype in dtypes))
        ]
        found: dict[Way, list[Measured]] = {way: [] for way in ways}
        revisions = {old: revision(old), ROOT: revision()}
        for number in range(rounds):
            turn = number % len(ways)
            for way in ways[turn:] + ways[:turn]:
                found[way].append(bench.measure(way))
                last = f"{way.directions}, {way.dtype}: {found[way][-1].seconds:.1f} s"
                print(f"round {number + 1}, {revisions[way.tree]}, {last}", file=sys.stderr)
            rows = [row(way, some, found[bases[way.directions]], revisions[way.tree]) for way, some in found.items()]
            sign = f"{command} --rounds {number + 1}; {', '.join(names)}; {machine(threads)}; medians over rounds"
            write_table(COLUMNS, rows, sign, output / "benchmark_against.tsv")


def where_to_read(source: str, target: str, models: tuple[str, str], lines: int) -> tuple[Place, list[str]]:
    """Return where the model reads the text by this tree's choice, and what the signature says of both models."""
    pairs = read_text(source, target)[:lines]
    aligners = [load(model, device="cpu") for model in models]
    choices: list[Choice] = [chosen(a, some) for a, some in zip(aligners, (pairs, swapped(pairs)), strict=True)]
    names = [f"{a.forward.recorder.name} ({choice.place})" for a, choice in zip(aligners, choices, strict=True)]
    return choices[0].place, names
