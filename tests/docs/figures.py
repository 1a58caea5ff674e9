"""The large table of docs/results.md, made of the file that `python eval/run.py reproduce bundled` writes."""

from __future__ import annotations

import csv
import re

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "results.md"
RESULTS = ROOT / "eval" / "results" / "bundled.systems.tsv"
TABLE = re.compile(r"^\| one direction.*?(?=^\(`python)", re.MULTILINE | re.DOTALL)


def rate(value: str, interval: str) -> str:
    """An error rate with its interval, as pages show it."""
    return f"{value} ({interval.replace(' to ', '–')})"


def table() -> str:
    """The table, and the signature below it."""
    signature, *lines = RESULTS.read_text(encoding="utf-8").splitlines()
    rows = [
        "| one direction, or both symmetrised | dev84 | bicici100 | both, 184 sentences | P | R | p |",
        "|---" * 7 + "|",
    ]
    for row in csv.DictReader(lines, delimiter="\t"):
        rates = [rate(row[f"aer_{name}"], row[f"interval_{name}"]) for name in ("dev84", "bicici100", "all")]
        rows.append(f"| {' | '.join([row['system'], *rates, row['precision'], row['recall'], row['p']])} |")
    return "\n".join([*rows, "", f"`{signature.removeprefix('# ')}`", "", ""])


def update() -> bool:
    """Write the table anew; whether anything changed."""
    old = PAGE.read_text(encoding="utf-8")
    new = TABLE.sub(lambda _: table(), old)
    if new != old:
        PAGE.write_text(new, encoding="utf-8")
    return new != old
