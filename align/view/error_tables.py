"""Build the tables of `extract-align eval`: scores, counts of each sentence, worst sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from align.core.errors import printable
from align.core.types import Pair
from align.evaluation.metrics import METRICS, aer, worst
from align.evaluation.report import Report
from align.evaluation.tables import Column, Table, Value, interval, mark_best, percent
from align.view.grid import ERROR_SIGNS, error_grid

DIGITS = 2  # digits after the point of percentages
HEADS = {"aer": "AER", "precision": "P", "recall": "R", "f1": "F1"}
COUNTS = [
    Column("links", "links", wide=True),
    Column("in_sure", "in sure", wide=True),
    Column("in_possible", "in sure or possible", wide=True),
]


def _counts(counts: NDArray[np.int64]) -> dict[str, int]:
    """Return |A∩S|, |A∩P|, |A|, |S| `[4]` by name."""
    return dict(zip(("in_sure", "in_possible", "links", "sure"), map(int, counts), strict=True))


def score_table(
    report: Report, notes: Sequence[str], intervals: Sequence[str], in_columns: bool, marked: bool
) -> Table:
    """Return a row for each system: scores with intervals, link counts, and the test against the first.

    The ends of an interval have a column each for programs (`in_columns`), and share one for people. With `marked` the
    best of several systems' scores are marked.
    """
    columns = [Column("system", "system")]
    for name, head in HEADS.items():
        columns.append(Column(name, head, DIGITS))
        if name in intervals and in_columns:
            columns += [Column(f"{name}_{end}", "", DIGITS) for end in ("low", "high")]
        elif name in intervals:
            columns.append(Column("interval", "95 % CI", DIGITS))
    columns += COUNTS
    columns += [Column("difference", "dAER", DIGITS), Column("p", "p", 4)] if report.paired else []
    rows: list[dict[str, Value]] = []
    for system in report.systems:
        difference, p = system.difference or (None, None)
        row: dict[str, Value] = {"system": system.name, "difference": percent(difference), "p": p}
        for name, score in system.scores.items():
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), map(percent, score), strict=True))
        row["interval"] = interval(*map(percent, system.scores["aer"][1:]))
        rows.append(row | _counts(system.counts.sum(0)))
    best = {name: min if name == "aer" else max for name in HEADS}
    return Table(columns, mark_best(columns, rows, best) if marked else rows, notes)


def sentence_table(report: Report, notes: Sequence[str]) -> Table:
    """Return a row for each sentence and system."""
    columns = [Column("line", "line"), Column("system", "system")]
    columns += [Column(name, head, DIGITS) for name, head in HEADS.items()]
    columns += [*COUNTS, Column("sure", "sure", wide=True)]
    rows: list[dict[str, Value]] = [
        {
            **{"line": n + 1, "system": system.name},
            **{name: percent(float(metric(system.counts[n]))) for name, metric in METRICS.items()},
            **_counts(system.counts[n]),
        }
        for n in range(len(report.gold))
        for system in report.systems
    ]
    return Table(columns, rows, notes)


def error_table(report: Report, notes: Sequence[str], most: int) -> Table:
    """Return a row for each of the sentences with the most errors, by system: wrong links, and missing sure links."""
    columns = [Column("system", "system"), Column("line", "line"), Column("errors", "errors")]
    columns += [Column("aer", "AER", DIGITS), Column("wrong", "wrong"), Column("missing", "missing")]
    rows = []
    for system in report.systems:
        for n in worst(system.counts, most):
            gold, links = report.gold[n], system.links[n]
            wrong, missing = links - gold.possible, gold.sure - links
            row: dict[str, Value] = {"system": system.name, "line": n + 1}
            row |= {"errors": len(wrong) + len(missing), "aer": percent(float(aer(system.counts[n])))}
            for kind, errors in (("wrong", wrong), ("missing", missing)):
                row[kind] = " ".join(f"{i}-{j}" for i, j in sorted(errors))
            rows.append(row)
    return Table(columns, rows, notes)


def draw_errors(
    report: Report, text: Sequence[Pair] | None, most: int, write: Callable[[str], str], wide: bool = False
) -> str:
    """Draw the sentences with the most errors, `most` of each system; on a terminal, within its width.

    `write` writes the arguments in hints.
    """
    drawn: list[str] = []
    clipped = False
    for system in report.systems:
        for n in worst(system.counts, most):
            rate = percent(float(aer(system.counts[n])))
            in_sure, in_possible, links, sure = system.counts[n]
            errors = f"{links - in_possible} wrong, {sure - in_sure} missing"
            drawn.append(f"{printable(system.name)}, line {n + 1}: {errors}, AER {format_rate(rate)}")
            pair, width = text[n] if text else None, 0 if wide else None
            drawn.append(error_grid(system.links[n], report.gold[n], pair, width) + "\n")
            clipped |= drawn[-1].endswith("…\n")
    signs = "  ".join(f"{sign} {meaning}" for sign, meaning in ERROR_SIGNS.items())
    if clipped:
        signs += f"\n… more than the terminal has room for; {write('‹wide›')} draws all of it"
    if text is None:
        signs += write("\nwords without a link have no row or column; with ‹source› and ‹target› all words are shown")
    return "\n".join((*drawn, signs)) if drawn else "no errors"


def format_rate(rate: float | None) -> str:
    """Format an error rate in percent; None is undefined."""
    return "n/a" if rate is None else f"{rate:.{DIGITS}f}"
