"""Write several tables with one signature, and the figures that belong to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align.core.formats import to_json
from align.evaluation.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Finding", "Table", "draw_figures", "make_table", "write_tables"]


def make_table(
    columns: str, rows: Iterable[Sequence[Any] | Mapping[str, Any]], *notes: str, wide: bool = False
) -> Table:
    """Return a table whose columns are described in one text, such as `part | loss: Δ loss .3 | p: p(BLEU) .3 +`.

    Args:
        columns: each has a key, and a head unless it is the key; `.3`: decimal places; `+`: the column is wide.
        rows: values in the order of the columns, or by key.
    """
    described = re.findall(r" *([^|]+?)(?:: ([^|]+?))?(?: \.(\d))?( \+)? *(?:\||$)", columns)
    made = [
        Column(key, head or key, int(digits) if digits else None, bool(plus)) for key, head, digits, plus in described
    ]
    keys = [column.key for column in made]
    by_key = [row if isinstance(row, Mapping) else dict(zip(keys, row, strict=True)) for row in rows]
    return Table(made, by_key, notes, wide)


@dataclass(frozen=True)
class Finding:
    """The result of an analysis; a figure is drawn, by matplotlib, when its function is called."""

    tables: Mapping[str, Table]
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)


def write_tables(
    tables: Mapping[str, Table], sign: str, *, format: str = "text", wide: bool = False, more: Mapping[str, object] = {}
) -> str:
    """Return all tables in one format, with the signature: in text after the last table, else with each of them.

    JSON has the members of `more`, too; `wide` text has the tables and columns that do not fit a terminal.
    """
    if format == "json":
        rows = {name: table.plain_rows() for name, table in tables.items()}
        return to_json({"signature": sign, **rows, **more}, indent=1)
    tables = {name: table for name, table in tables.items() if wide or format != "text" or not table.wide}
    *_, last = tables
    return "\n\n".join(
        table.write(format, sign if name == last or format != "text" else "", wide) for name, table in tables.items()
    )


def draw_figures(finding: Finding, prefix: Path) -> list[Path]:
    """Write each figure as PNG and PDF, `PREFIX.NAME.png` etc., and return the paths; matplotlib must be installed."""
    from align.view.plots import in_style, save

    written: list[Path] = []
    for name, draw in finding.figures.items():
        written += save(in_style(draw)(), prefix.with_name(f"{prefix.name}.{name}"))
    return written
