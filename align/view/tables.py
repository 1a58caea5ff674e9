"""Tables of results as text, JSON, TSV, LaTeX or Markdown, with the signature where each of them has a place for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tabulate import tabulate

from align.links.formats import to_json
from align.view.escape import printable

Value = str | int | float | None


class Column(NamedTuple):
    """A column: the rows' key, its heading, and the digits behind the point (None: as it is)."""

    key: str
    head: str
    digits: int | None = None


Rows = Sequence[Mapping[str, Value]]


def _format(value: Value, column: Column, thousands: bool = True) -> str:
    if value is None:
        return "n/a"
    if column.digits is not None and not isinstance(value, str):
        return f"{value:.{column.digits}f}"
    return f"{value:,}" if isinstance(value, int) and thousands else printable(str(value))


def _cells(columns: Sequence[Column], rows: Rows, thousands: bool = True) -> list[list[str]]:
    return [[_format(row[column.key], column, thousands) for column in columns] for row in rows]


def _tabulate(columns: Sequence[Column], rows: Rows, style: str) -> str:
    text = [all(isinstance(row[column.key], str) for row in rows) for column in columns]  # else to the right
    table: str = tabulate(
        _cells(columns, rows),
        [column.head for column in columns],
        tablefmt=style,
        disable_numparse=True,
        colalign=["left" if left else "right" for left in text],
    )
    return table


def percent(share: float | None) -> float | None:
    """A share as percent; None, as NaN, is not defined."""
    return None if share is None or share != share else 100 * float(share)


def show_interval(low: Value, high: Value, digits: int) -> str:
    """`15.29 to 17.48`, for people."""
    return "n/a" if low is None or high is None else f"{low:.{digits}f} to {high:.{digits}f}"


def as_text(columns: Sequence[Column], rows: Rows, signature: str, notes: Sequence[str] = ()) -> str:
    """For people: aligned columns, notes, and the signature, if there is one, on the last line."""
    return "\n".join((_tabulate(columns, rows, "simple"), *notes, *([signature] if signature else [])))


def plain_rows(columns: Sequence[Column], rows: Rows) -> list[dict[str, Any]]:
    """Rows for JSON: numbers rounded, and None for what is not defined."""

    def plain(value: Value, column: Column) -> Any:
        return round(value, column.digits) if isinstance(value, float) and column.digits is not None else value

    return [{column.key: plain(row[column.key], column) for column in columns} for row in rows]


def as_json(columns: Sequence[Column], rows: Rows, signature: str, notes: Sequence[str] = ()) -> str:
    """One object: the signature, notes, and a list of rows; what is not defined is null."""
    record = {"signature": signature, "notes": list(notes), "rows": plain_rows(columns, rows)}
    return to_json(record, indent=1)


def as_tsv(columns: Sequence[Column], rows: Rows, signature: str, notes: Sequence[str] = ()) -> str:
    """The signature and notes behind `#`, a line of keys, and the rows; what is not defined is `n/a`."""
    lines = [[column.key for column in columns], *_cells(columns, rows, thousands=False)]
    return "\n".join((f"# {signature}", *(f"# {note}" for note in notes), *("\t".join(line) for line in lines)))


def as_latex(columns: Sequence[Column], rows: Rows, signature: str, notes: Sequence[str] = ()) -> str:
    """A `tabular` for the booktabs package, with the signature and notes as comments."""
    comments = (signature, *notes, "needs \\usepackage{booktabs}")
    return "\n".join((*(f"% {comment}" for comment in comments), _tabulate(columns, rows, "latex_booktabs")))


def as_markdown(columns: Sequence[Column], rows: Rows, signature: str, notes: Sequence[str] = ()) -> str:
    """A table for READMEs, and the signature below."""
    escaped = [{key: v.replace("|", "\\|") if isinstance(v, str) else v for key, v in row.items()} for row in rows]
    return "\n\n".join((_tabulate(columns, escaped, "github"), *notes, f"`{signature}`"))


TABLES: dict[str, Callable[[Sequence[Column], Rows, str, Sequence[str]], str]] = {
    "text": as_text,
    "json": as_json,
    "tsv": as_tsv,
    "latex": as_latex,
    "markdown": as_markdown,
}
