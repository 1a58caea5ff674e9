"""Format tables of results as text, JSON, TSV or LaTeX, with the signature where each format has room for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from wcwidth import wcswidth, wrap

from align.core.errors import printable
from align.core.formats import to_json

WIDTH = 80
"""Columns of a terminal, which tables for people fit unless all their columns are requested."""

GAP = 2

MIN_WIDTH = 12


class Interval(NamedTuple):
    """Both ends of an interval, in the unit of its number."""

    low: float
    high: float


class Best(NamedTuple):
    """A number that is the best of those that it is compared with."""

    value: float


Value = str | int | float | Interval | Best | None


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        digits: decimal places; None to leave numbers unchanged.
        wide: whether text omits it, to fit a terminal, unless all columns are requested.
    """

    key: str
    head: str
    digits: int | None = None
    wide: bool = False


Rows = Sequence[Mapping[str, Value]]


def percent(share: float | None) -> float | None:
    """Convert a share to percent; None and NaN are undefined."""
    return None if share is None or share != share else 100 * float(share)


def interval(low: float | None, high: float | None) -> Interval | None:
    """Return both ends together; None if one is undefined."""
    return None if low is None or high is None else Interval(low, high)


def mark_best(columns: Sequence[Column], rows: Rows, best: Mapping[str, Callable[[Iterable[float]], float]]) -> Rows:
    """Return the rows, with the best numbers (`min` or `max`, by key) marked, if there are several rows.

    Numbers that are printed alike are equally good.
    """
    marked = [dict(row) for row in rows]
    for column in columns if len(rows) > 1 else ():
        numbers = {n: _rounded(row[column.key], column) for n, row in enumerate(rows) if column.key in best}
        known = {n: value for n, value in numbers.items() if isinstance(value, int | float)}
        for n, value in known.items():
            if value == best[column.key](known.values()):
                marked[n][column.key] = Best(value)
    return marked


LATEX_SIGNS: dict[str, str | int | None] = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
    **{"[": "{[}", "*": "{*}"},  # either would be an argument of the previous row's \\
}


def _escape_latex(text: str) -> str:
    return text.translate(str.maketrans(LATEX_SIGNS)).replace("--", "-{}-")


TO = {"text": "–", "tsv": " to ", "latex": "--"}
"""Between the ends of an interval, by format."""

BEST = {"text": "*{}", "tsv": "{}", "latex": r"\textbf{{{}}}"}


def _rounded(value: Value, column: Column) -> Any:
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, str | Interval | Best) or value is None or column.digits is None:
        return value
    return round(float(value), column.digits) + 0.0


def _write(value: Value, column: Column, format: str) -> str:
    """Return a value as text, TSV or LaTeX has it."""
    if value is None or value != value:
        return "n/a"
    if isinstance(value, str):
        return _escape_latex(printable(value)) if format == "latex" else printable(value)
    if isinstance(value, Best):
        return BEST[format].format(_write(value.value, column, format))
    if isinstance(value, Interval):
        return TO[format].join(_write(end, column, format) for end in value)
    if column.digits is not None:
        written = f"{_rounded(value, column):.{column.digits}f}"
    else:
        written = f"{value:,}" if isinstance(value, int) and format != "tsv" else str(value)
    return written.replace("-", "$-$") if format == "latex" else written


def _cells(columns: Sequence[Column], rows: Rows, format: str) -> list[list[str]]:
    return [[_write(row[column.key], column, format) for column in columns] for row in rows]


def _are_words(columns: Sequence[Column], rows: Rows) -> list[bool]:
    """Tell which columns are left-aligned and may be folded; numbers are right-aligned."""
    return [all(isinstance(row[column.key], str) for row in rows) for column in columns]


def as_text(
    columns: Sequence[Column], rows: Rows, signature: str, notes: Sequence[str] = (), wide: bool = False
) -> str:
    """Return text for people: aligned columns, notes, and the signature, if there is one, on the last line.

    Unless `wide` is set, the table fits a terminal: columns that are not essential are omitted, and words folded.
    """
    from tabulate import tabulate

    columns = [column for column in columns if wide or not column.wide]
    words = _are_words(columns, rows)
    lines = [[column.head for column in columns], *_cells(columns, rows, "text")]
    if not wide:
        lines = _fold(lines, words)
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    table = tabulate(
        [lines[0], ["-" * width for width in widths], *lines[1:]],
        tablefmt="plain",
        disable_numparse=True,
        colalign=["left" if left else "right" for left in words],
    )
    return "\n".join((table, *notes, *([signature] if signature else [])))


def _width(cell: str) -> int:
    return max(len(line) if line.isascii() else wcswidth(line) for line in cell.split("\n"))


def _fold(lines: Sequence[Sequence[str]], words: Sequence[bool]) -> list[list[str]]:
    """Return lines that fit a terminal: if there is too little room, the longest columns of words are folded."""
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    longest = max((width for width, folds in zip(widths, words, strict=True) if folds), default=0)

    def limits() -> list[int]:
        return [min(width, longest) if folds else width for width, folds in zip(widths, words, strict=True)]

    while sum(limits()) + GAP * (len(widths) - 1) > WIDTH and longest > MIN_WIDTH:
        longest -= 1
    rooms = limits()
    if rooms == widths:
        return [list(line) for line in lines]
    return [["\n".join(wrap(cell, room)) for cell, room in zip(line, rooms, strict=True)] for line in lines]


def plain_rows(columns: Sequence[Column], rows: Rows) -> list[dict[str, Any]]:
    """Return rows for JSON: numbers rounded, an interval as a list, and None for undefined values."""

    def plain(value: Value, column: Column) -> Any:
        if isinstance(value, Best):
            return plain(value.value, column)
        if isinstance(value, Interval):
            return [plain(end, column) for end in value]
        return _rounded(value, column)

    return [{column.key: plain(row[column.key], column) for column in columns} for row in rows]


def as_json(columns: Sequence[Column], rows: Rows, signature: str, notes: Sequence[str] = ()) -> str:
    """Return one object: the signature, notes, and a list of rows; undefined values are null."""
    record = {"signature": signature, "notes": list(notes), "rows": plain_rows(columns, rows)}
    return to_json(record, indent=1)


def as_tsv(columns: Sequence[Column], rows: Rows, signature: str, notes: Sequence[str] = ()) -> str:
    """Return the signature and notes after `#`, a line of keys, and the rows; undefined values are `n/a`."""
    lines = [[column.key for column in columns], *_cells(columns, rows, "tsv")]
    return "\n".join((f"# {signature}", *(f"# {note}" for note in notes), *("\t".join(line) for line in lines)))


def as_latex(columns: Sequence[Column], rows: Rows, signature: str, notes: Sequence[str] = ()) -> str:
    """Return a `tabular` for the booktabs package, the best numbers in bold, signature and notes as comments."""
    comments = [f"% {comment}" for comment in (signature, *notes, "needs \\usepackage{booktabs}")]
    begin = f"\\begin{{tabular}}{{{''.join('l' if left else 'r' for left in _are_words(columns, rows))}}}"
    heads = [_escape_latex(column.head) for column in columns]
    head, *lines = (" & ".join(cells) + r" \\" for cells in (heads, *_cells(columns, rows, "latex")))
    lines = [begin, r"\toprule", head, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}"]
    return "\n".join((*comments, *lines))


TABLES: dict[str, Callable[[Sequence[Column], Rows, str, Sequence[str]], str]] = {
    "text": as_text,
    "json": as_json,
    "tsv": as_tsv,
    "latex": as_latex,
}


def writer(format: str, wide: bool) -> Callable[[Sequence[Column], Rows, str, Sequence[str]], str]:
    """Return the function that formats a table; with `wide`, text has all its columns, as other formats always have."""
    return partial(as_text, wide=True) if wide and format == "text" else TABLES[format]
