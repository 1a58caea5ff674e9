"""Tables of results, written with their signature as text, JSON, TSV or LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from wcwidth import wcswidth, wrap

from align.core.errors import printable
from align.core.formats import to_json

WIDTH = 80  # columns of a terminal, which tables for people fit unless all their columns are requested
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
    """A column of a table."""

    key: str
    head: str
    digits: int | None = None  # decimal places; None to leave numbers unchanged
    wide: bool = False  # whether text omits it, to fit a terminal, unless all columns are requested


Rows = Sequence[Mapping[str, Value]]


def percent(share: float | None) -> float | None:
    """Convert a share to percent; None and NaN are undefined."""
    return None if share is None or share != share else 100 * float(share)


def interval(low: float | None, high: float | None) -> Interval | None:
    """Return both ends together; None if one is undefined."""
    return None if low is None or high is None else Interval(low, high)


LATEX_SIGNS: dict[str, str | int | None] = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
    **{"[": "{[}", "*": "{*}"},  # either would be an argument of the previous row's \\
}


TO = {"text": "–", "tsv": " to ", "latex": "--"}  # between the ends of an interval, by format
BEST = {"text": "*{}", "tsv": "{}", "latex": r"\textbf{{{}}}"}

FORMATS = ("text", "json", "tsv", "latex")


class Table(NamedTuple):
    """A table, the notes below it, and whether text omits it, for its length, unless `wide` is requested."""

    columns: Sequence[Column]
    rows: Rows
    notes: Sequence[str] = ()
    wide: bool = False

    def write(self, format: str, signature: str, wide: bool = False) -> str:
        """Return the table in one of FORMATS; undefined values are `n/a`, and null in JSON.

        Text is for people: it has the signature, if there is one, on the last line. Unless `wide` is set, it
        fits a terminal: columns that are not essential are omitted, and words folded. LaTeX is a `tabular`
        for the booktabs package, with the best numbers in bold.
        """
        if format == "json":
            record = {"signature": signature, "notes": list(self.notes), "rows": self.plain_rows()}
            return to_json(record, indent=1)
        columns = [column for column in self.columns if wide or format != "text" or not column.wide]
        lines = [[_write(row[column.key], column, format) for column in columns] for row in self.rows]
        # columns of words are left-aligned, and may be folded; numbers are right-aligned
        words = [all(isinstance(row[column.key], str) for row in self.rows) for column in columns]
        if format == "text":
            aligned = _align([[column.head for column in columns], *lines], words, wide)
            return "\n".join((aligned, *self.notes, *([signature] if signature else [])))
        if format == "tsv":
            lines = [[column.key for column in columns], *lines]
            comments = [f"# {comment}" for comment in (signature, *self.notes)]
            return "\n".join((*comments, *("\t".join(line) for line in lines)))
        comments = [f"% {comment}" for comment in (signature, *self.notes, "needs \\usepackage{booktabs}")]
        begin = f"\\begin{{tabular}}{{{''.join('l' if left else 'r' for left in words)}}}"
        heads = [_escape_latex(column.head) for column in columns]
        head, *body = (" & ".join(cells) + r" \\" for cells in (heads, *lines))
        table = [begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
        return "\n".join([*comments, *table])

    def plain_rows(self) -> list[dict[str, Any]]:
        """Return rows for JSON: numbers rounded, an interval as a list, and None for undefined values."""

        def plain(value: Value, column: Column) -> Any:
            if isinstance(value, Best):
                return plain(value.value, column)
            if isinstance(value, Interval):
                return [plain(end, column) for end in value]
            return _rounded(value, column)

        return [{column.key: plain(row[column.key], column) for column in self.columns} for row in self.rows]


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


def _escape_latex(text: str) -> str:
    return text.translate(str.maketrans(LATEX_SIGNS)).replace("--", "-{}-")


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


def _align(lines: list[list[str]], words: Sequence[bool], wide: bool) -> str:
    """Return lines, the head first, with aligned columns, folded to fit a terminal unless `wide`."""
    from tabulate import tabulate

    if not wide:
        lines = _fold(lines, words)
    rule = ["-" * max(map(_width, column)) for column in zip(*lines, strict=True)]
    sides = ["left" if left else "right" for left in words]
    rows = [lines[0], rule, *lines[1:]]
    table: str = tabulate(rows, tablefmt="plain", disable_numparse=True, colalign=sides)
    return table


def _width(cell: str) -> int:
    return max(len(line) if line.isascii() else wcswidth(line) for line in cell.split("\n"))


def _fold(lines: list[list[str]], words: Sequence[bool]) -> list[list[str]]:
    """Return lines that fit a terminal: if there is too little room, the longest columns of words are folded."""
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    longest = max((width for width, folds in zip(widths, words, strict=True) if folds), default=0)
    limits = widths
    while sum(limits) + GAP * (len(widths) - 1) > WIDTH and longest > MIN_WIDTH:
        longest -= 1
        limits = [min(width, longest) if folds else width for width, folds in zip(widths, words, strict=True)]
    if limits == widths:
        return lines
    return [["\n".join(wrap(cell, limit)) for cell, limit in zip(line, limits, strict=True)] for line in lines]
