"""Build the tables of `extract-align eval`: scores, counts of each sentence, worst sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from align.core.errors import printable, with_arguments
from align.core.types import Pair
from align.evaluation.metrics import METRICS, estimate, worst
from align.evaluation.report import Report
from align.evaluation.tables import Column, Rows, Value, interval, mark_best, percent
from align.view.grid import ERROR_SIGNS, error_grid

HEADS = {"aer": "AER", "precision": "P", "recall": "R", "f1": "F1"}
COUNTS = [
    Column("links", "links", wide=True),
    Column("in_sure", "in sure", wide=True),
    Column("in_possible", "in sure or possible", wide=True),
]


def count_notes(report: Report) -> list[str]:
    """Return a line with the number of gold links."""
    sure, possible = (sum(len(getattr(pair, kind)) for pair in report.gold) for kind in ("sure", "possible"))
    return [f"gold: {len(report.gold):,} sentence pairs, {sure:,} sure and {possible - sure:,} only possible links"]


def score_table(
    report: Report, digits: int, intervals: Sequence[str], in_columns: bool = False, marked: bool = False
) -> tuple[list[Column], Rows]:
    """Return a row for each system: scores with intervals, link counts, and the test against the first.

    The ends of an interval have a column each for programs (`in_columns`), and share one for people. With `marked` the
    best of several systems' scores are marked.
    """
    columns = [Column("system", "system")]
    for name, head in HEADS.items():
        columns.append(Column(name, head, digits))
        if name in intervals and in_columns:
            columns += [Column(f"{name}_low", "", digits), Column(f"{name}_high", "", digits)]
        elif name in intervals:
            columns.append(Column("interval", "95 % CI", digits))
    columns += COUNTS
    columns += [Column("difference", "dAER", digits), Column("p", "p", 4)] if report.paired else []
    rows: list[dict[str, Value]] = []
    for system in report.systems:
        row: dict[str, Value] = {"system": system.name}
        for name, score in system.scores.items():
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), map(percent, score), strict=True))
        row["interval"] = interval(*map(percent, system.scores["aer"][1:]))
        in_sure, in_possible, links, _ = (int(n) for n in system.counts.sum(0))
        row |= {"links": links, "in_sure": in_sure, "in_possible": in_possible, "difference": None, "p": None}
        if system.difference:
            row |= {"difference": percent(system.difference[0]), "p": system.difference[1]}
        rows.append(row)
    best = {name: min if name == "aer" else max for name in HEADS}
    return columns, mark_best(columns, rows, best) if marked else rows


def sentence_table(report: Report, digits: int) -> tuple[list[Column], Rows]:
    """Return a row for each sentence and system."""
    columns = [Column("line", "line"), Column("system", "system")]
    columns += [Column(name, head, digits) for name, head in HEADS.items()]
    columns += [*COUNTS, Column("sure", "sure", wide=True)]
    rows = []
    for n in range(len(report.gold)):
        for system in report.systems:
            row = system.counts[n]
            scores = {name: percent(estimate(row[None], name, samples=0).value) for name in METRICS}
            counts = dict(zip(("in_sure", "in_possible", "links", "sure"), map(int, row), strict=True))
            rows.append({"line": n + 1, "system": system.name, **scores, **counts})
    return columns, rows


def error_table(report: Report, most: int, digits: int) -> tuple[list[Column], Rows]:
    """Return a row for each of the sentences with the most errors, by system: wrong links, and missing sure links."""
    columns = [Column("system", "system"), Column("line", "line"), Column("errors", "errors")]
    columns += [Column("aer", "AER", digits), Column("wrong", "wrong"), Column("missing", "missing")]
    rows = []
    for system in report.systems:
        for n in worst(system.counts, most):
            gold, links = report.gold[n], system.links[n]
            errors = {"wrong": links - gold.possible, "missing": gold.sure - links}
            rate = percent(estimate(system.counts[n : n + 1], samples=0).value)
            row: dict[str, Value] = {"system": system.name, "line": n + 1, "aer": rate}
            row["errors"] = sum(map(len, errors.values()))
            row |= {kind: " ".join(f"{i}-{j}" for i, j in sorted(pairs)) for kind, pairs in errors.items()}
            rows.append(row)
    return columns, rows


def draw_errors(
    report: Report,
    text: Sequence[Pair] | None,
    most: int,
    digits: int,
    write: Callable[[str], str] = with_arguments,
    wide: bool = False,
) -> str:
    """Draw the sentences with the most errors, `most` of each system; on a terminal, within its width."""
    drawn: list[str] = []
    clipped = False
    for system in report.systems:
        for n in worst(system.counts, most):
            value = estimate(system.counts[n : n + 1], samples=0).value
            rate = "n/a" if value is None else f"{100 * value:.{digits}f}"
            in_sure, in_possible, links, sure = system.counts[n]
            errors = f"{links - in_possible} wrong, {sure - in_sure} missing"
            drawn.append(f"{printable(system.name)}, line {n + 1}: {errors}, AER {rate}")
            pair, width = text[n] if text else None, 0 if wide else None
            drawn.append(error_grid(system.links[n], report.gold[n], pair, width) + "\n")
            clipped |= drawn[-1].endswith("…\n")
    signs = "  ".join(f"{sign} {meaning}" for sign, meaning in ERROR_SIGNS.items())
    if clipped:
        signs += f"\n… more than the terminal has room for; {write('‹wide›')} draws all of it"
    if text is None:
        signs += write("\nwords without a link have no row or column; with ‹source› and ‹target› all words are shown")
    return "\n".join((*drawn, signs)) if drawn else "no errors"
