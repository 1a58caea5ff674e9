"""How long does what take? Whole programs beside peers, over texts of several sizes: eval/results/benchmark_peers.tsv.

    .venv/bin/python eval/run.py benchmark-peers -s SOURCE -t TARGET [--systems ...] [--pairs ...] [--resume]

Statistical aligners train on the text and align it in both directions, symmetrised by grow-diag-final-and; ours does
what it does by default, start-up and the choice of layer and head included. Each system and size has a row of its own,
written after every run: parts can be measured one by one, and --resume adds what lacks. A plot lies beside the table.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from align import __version__
from align.baselines.tools import TOOLS, describe_tool
from align.evaluation.tables import Column, Table, Value
from align.view.plots import in_style, save
from eval.common import read_rows, write_table
from eval.programs import (
    EXTRACT,
    Timed,
    absolute,
    first_lines,
    machine,
    read_output,
    revision,
    run_program,
)

MARKERS = {"float32": "o", "bfloat16": "^", "int8": "s"}
"""By arithmetic."""

COLOURS = {
    "fast_align": "tab:gray",
    "eflomal": "tab:green",
    "giza": "tab:brown",
    "one": "tab:blue",
    "both": "tab:orange",
}
"""Their colours."""


@in_style
def plot(rows: Sequence[Mapping[str, Value]], path: Path) -> list[Path]:
    """Draw a line for each system.

    Args:
        rows: of the table: `system`, `name`, `pairs`, `seconds`.
        path: of the files without suffix.
    """
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots()
    systems = {str(row["system"]): str(row["name"]) for row in rows}
    measured = {
        system: sorted((int(str(row["pairs"])), float(str(row["seconds"]))) for row in rows if row["system"] == system)
        for system in systems
    }
    for system, points in measured.items():
        kind, arithmetic = system.partition("-")[0], system.rpartition("-")[2]
        ours = kind in ("one", "both")
        axes.plot(
            *zip(*points, strict=True), "-" if ours else "-.", color=COLOURS[kind],
            marker=MARKERS.get(arithmetic, "."), markersize=4, linewidth=1, label=systems[system],
            markerfacecolor="white" if ours and "distilled" not in system else None,
        )  # fmt: skip
    sizes = sorted({size for points in measured.values() for size, _ in points})
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("pairs")
    axes.set_ylabel("seconds")
    axes.grid(visible=True, which="major", linewidth=0.3)
    figure.legend(loc="outside right center", frameon=False)
    return save(figure, path)


NAMES = {"giza": "MGIZA"}


class Text(NamedTuple):
    """What a system is run on: pairs, in files of both sides, by how many threads, and a folder to write to."""

    pairs: int
    files: tuple[Path, Path]
    threads: int
    folder: Path


class System(NamedTuple):
    """What is measured: what pages call it, its version, and how it is run."""

    name: str
    version: Callable[[], str]
    run: Callable[[Text], Timed]


def run_statistical(tool: str, text: Text) -> Timed:
    """Run a statistical aligner on lower-cased text and symmetrise its links."""
    source, target = (text.folder / f"{file.name}.lower" for file in text.files)
    for file, lower in zip(text.files, (source, target), strict=True):
        lower.write_bytes(file.read_bytes().decode().lower().encode())
    return run_whole(text._replace(files=(source, target)), "baseline", tool, "-q")


def run_ours(options: list[str], text: Text) -> Timed:
    """extract-align by default but for these options."""
    return run_whole(text, "-q", "--bad-lines", "blank", *options)


def run_whole(text: Text, *options: str) -> Timed:
    """Run the program from text to links."""
    output = text.folder / "links"
    files = ("-s", text.files[0], "-t", text.files[1], "-o", output)
    found = run_program(EXTRACT, *options, *files, "--threads", text.threads)
    read_output(output, text.pairs)
    output.unlink()
    return found


def known_systems(model: str, reverse_model: str) -> dict[str, System]:
    """All that can be measured, by the names that --systems takes."""

    def ours() -> str:
        return f"{__version__} {revision()}"

    def tool_version(tool: str) -> str:
        return describe_tool(tool).partition(":")[2]

    found = {
        tool: System(NAMES.get(tool, tool), partial(tool_version, tool), partial(run_statistical, tool))
        for tool in TOOLS
    }
    own = (("", "", model, reverse_model), ("-distilled", " distilled,", "de-en-fast", "en-de-fast"))
    for kind, about, forward, back in own:
        for dtype in ("float32", "bfloat16", "int8"):
            for key, name, more in (
                ("one", "one direction", []),
                ("both", "both directions", ["--reverse-model", back]),
            ):
                options = ["-m", absolute(forward), *map(absolute, more), "--dtype", dtype]
                label = f"extract-align,{about} {name}, {dtype}"
                found[f"{key}{kind}-{dtype}"] = System(label, ours, partial(run_ours, options))
    return found


COLUMNS = [
    Column("system", "system"),
    Column("pairs", "pairs"),
    Column("seconds", "s"),
    Column("rate", "lines/s"),
    Column("hours", "h for 10^8", wide=True),
    Column("cpu", "CPU s", wide=True),
    Column("name", "name", wide=True),
    Column("version", "version"),
    Column("runs", "runs"),
]

Rows = dict[tuple[str, int], dict[str, Value]]
"""Rows by system and pairs."""


def add(rows: Rows, key: str, system: System, pairs: int, version: str, run: Timed) -> None:
    """Add a run to its row, which begins anew where the version is another."""
    old = rows.get((key, pairs))
    same = old is not None and old["version"] == version
    runs = [*(map(float, str(old["runs"]).split()) if old and same else ()), run.seconds]
    seconds = statistics.median(runs)
    rows[key, pairs] = {
        "system": key,
        "name": system.name,
        "pairs": pairs,
        "seconds": f"{seconds:.4g}",
        "rate": f"{pairs / seconds:.4g}",
        "cpu": f"{run.cpu:.1f}",
        "version": version,
        "runs": " ".join(f"{one:.4g}" for one in runs),
    }


def run(
    source: str,
    target: str,
    model: str,
    reverse_model: str,
    pairs: list[int],
    rounds: int,
    systems: list[str],
    threads: int,
    resume: bool,
    name: str,
    output: Path,
) -> None:
    """Measure what is wanted, size by size, in turn; print, write and plot all that has been measured so far."""
    known = known_systems(model, reverse_model)
    unknown = [system for system in systems if system not in known]
    if unknown:
        raise ValueError(f"systems are {', '.join(known)}; not {unknown[0]!r}")
    path = output / f"{name}.tsv"
    text = f"-s {Path(source).name} -t {Path(target).name}"
    sign = f"python eval/run.py benchmark-peers {text}; {machine(threads)}; medians over runs"
    rows: Rows = {(str(row["system"]), int(str(row["pairs"]))): row for row in read_rows(path, sign)}
    versions = {system: known[system].version() for system in systems}
    wanted = [(system, size) for size in sorted({*pairs}) for system in systems]
    if not resume:
        rows = {key: row for key, row in rows.items() if key not in wanted}
    with tempfile.TemporaryDirectory(prefix="align-") as folder:
        for number, (key, size) in turns(wanted, rounds):
            if len(runs_of(rows, (key, size), versions[key])) > number:
                continue
            system = known[key]
            files = first_lines(source, target, size, Path(folder))
            found = system.run(Text(size, files, threads, Path(folder)))
            add(rows, key, system, size, versions[key], found)
            print(f"{system.name}, {size:,} pairs: {found.seconds:.1f} s", file=sys.stderr)
            path.write_text(Table(COLUMNS, in_order(rows, known)).write("tsv", sign) + "\n", encoding="utf-8")
    write_table(COLUMNS, in_order(rows, known), sign, path)
    plot(in_order(rows, known), path.with_suffix(""))


def turns(wanted: list[tuple[str, int]], rounds: int) -> Iterable[tuple[int, tuple[str, int]]]:
    """Yield the rounds of all systems, the smallest texts first."""
    for size in dict.fromkeys(size for _, size in wanted):
        for number in range(rounds):
            yield from ((number, key) for key in wanted if key[1] == size)


def runs_of(rows: Rows, key: tuple[str, int], version: str) -> list[str]:
    """Return the runs of a row that are of this version."""
    row = rows.get(key)
    return str(row["runs"]).split() if row and row["version"] == version else []


def in_order(rows: Rows, known: dict[str, System]) -> list[dict[str, Value]]:
    """By system, in the order in which they are listed, and by size."""
    names = list(known)
    ordered = [rows[key] for key in sorted(rows, key=lambda key: (names.index(key[0]), key[1]))]
    return [{**row, "hours": f"{1e8 / float(str(row['rate'])) / 3600:.3g}"} for row in ordered]
