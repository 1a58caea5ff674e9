"""Tables of error rates in README and docs/results.md, out of what `eval/run.py reproduce bundled` writes."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from tests.conftest import ROOT

RESULTS = ROOT / "eval" / "results"
README, PAGE = ROOT / "README.md", ROOT / "docs" / "results.md"
TABLES = {
    README: re.compile(r"^\| \| AER \|\n(?:\|.*\n)*", re.MULTILINE),
    PAGE: re.compile(r"^\| one direction.*?(?=^\(`python)", re.MULTILINE | re.DOTALL),
}
"""Where the tables are."""

SHORT = {
    "two models (`--reverse-model`)": " and .*: norm, both, soft",
    "one model": "de-en: norm, both, threshold",
    "two models, `--position input`": " and .*: norm, input, soft",
    "one model, `--position input`": "de-en: norm, input, threshold",
    "eflomal, its best direction or symmetrisation": r"eflomal \(bundled text\)",
    "fast_align, its best direction or symmetrisation": r"fast_align \(bundled text\)",
}
"""What README calls the best of the systems whose names match."""


def rate(value: str, interval: str) -> str:
    """An error rate with its interval, as pages show it."""
    return f"{value} ({interval.replace(' to ', '–')})"


def read(name: str) -> tuple[str, list[dict[str, str]]]:
    """A table of results: its signature, and its rows."""
    signature, *lines = (RESULTS / f"bundled.{name}.tsv").read_text(encoding="utf-8").splitlines()
    return signature.removeprefix("# "), list(csv.DictReader(lines, delimiter="\t"))


def long_table() -> str:
    """All systems, and the signature below them."""
    signature, systems = read("systems")
    rows = ["| one direction, or both symmetrised | dev84 | bicici100 | both, 184 sentences | P | R | p |"]
    rows.append("|---" * 7 + "|")
    for row in systems:
        rates = [rate(row[f"aer_{name}"], row[f"interval_{name}"]) for name in ("dev84", "bicici100", "all")]
        rows.append(f"| {' | '.join([row['system'], *rates, row['precision'], row['recall'], row['p']])} |")
    return "\n".join([*rows, "", f"`{signature}`", "", ""])


def short_table() -> str:
    """The few that README has, best first."""
    shown: list[tuple[float, str, str]] = []
    for name, pattern in SHORT.items():
        found = [row for row in read("systems")[1] if re.search(pattern, row["system"])]
        best = min(found, key=lambda row: float(row["aer_all"]))
        shown.append((float(best["aer_all"]), name, rate(best["aer_all"], best["interval_all"])))
    paper, *_ = (row for row in read("comparisons")[1] if row["what"] == "norm and weight, input")
    for name, which in (("the paper's way: all heads of a layer, by norm", "first"), ("the same by weight", "second")):
        aer = paper[f"{which}_aer"]
        shown.append((float(aer), name, rate(aer, paper[f"{which}_interval"])))
    return "\n".join(["| | AER |", "|---|---|", *(f"| {name} | {aer} |" for _, name, aer in sorted(shown)), ""])


def current(page: Path) -> str:
    """What a page should be, with the table of today."""
    table = short_table() if page == README else long_table()
    return TABLES[page].sub(lambda _: table, page.read_text(encoding="utf-8"))
