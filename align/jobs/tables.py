"""Align Arrow tables of sentence pairs, which pandas, datasets, Ray and Spark can convert to and from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from align.core.aligner import Aligner
from align.core.errors import LineError
from align.core.stream import chunks
from align.core.text import make_pair
from align.core.types import Origin, Pair
from align.io.session import Session
from align.jobs.arrow import LinksAs, batch_of, check_columns, read_sides, rows_of, schema_of

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 2000  # rows whose links are Python objects at a time, which take several times the memory of Arrow's


def align_table(
    table: pa.Table | pa.RecordBatch,
    aligner: Aligner,
    source: str = "source",
    target: str = "target",
    id: str | None = None,
    links: LinksAs = "structs",
) -> pa.Table:
    """Align the rows of a table: one row for each, in order.

        table = pyarrow.table({"source": ["Das Haus"], "target": ["The house"]})
        align_table(table, load("de-en"), links="pharaoh")

    All rows are read at the same place, so that links do not depend on how rows are split into tables:
    an aligner that is not `fixed` yet is fixed at its model's calibration.

    Args:
        table: has the sentences in two columns of strings.
        aligner: an aligner of one model or two.
        source: column of the source sentences; "translation.de" is the field de of a column of structs.
        target: column of their translations.
        id: column to copy to the result; None for none.
        links: "structs", or "pharaoh" for strings such as "0-0 1-1".

    Returns:
        The column `id`, unchanged; `links`, of type `list<struct<source: int32, target: int32, score: float>>` or
        string, without nulls; with structs `agreement`, two floats (see `Alignment`), null where links are not soft;
        and `status`, a string: "" for an aligned row, else why there are no links:
        "blank", "null", "not UTF-8", or "too long" for the model.

    Raises:
        ModuleNotFoundError: pyarrow is not installed.
        ValueError: `links` is unknown.
        TypeError: `table` is not a table.
        DataError: a column is missing or ambiguous, or does not hold strings.

    Warns:
        TextWarning: the text does not look like what the model was trained on.
    """
    import pyarrow as pa

    check_links(links)
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise TypeError(f"table must be a pyarrow Table or RecordBatch; got {type(table).__name__}")
    table = table.flatten()
    check_columns(table.schema, {"source": source, "target": target, "id": id})
    sides = pa.table([table[source], table[target]], names=["source", "target"])
    aligned = Session(for_rows(aligner)).results(_pairs(sides), lambda pair: [pair])
    schema = schema_of(links)
    batches = []
    for chunk in chunks((alignment for _, (alignment,) in aligned), ROWS, lambda alignment: alignment.pair.memory()):
        batches.append(batch_of(chunk, schema))
    results = pa.Table.from_batches(batches, schema)
    return results if id is None else results.add_column(0, table.schema.field(id), table[id])


def for_rows(aligner: Aligner) -> Aligner:
    """Return an aligner that reads every text at the same layer and head, and skips rows that are too long."""
    if aligner.choices and aligner.too_long == "blank":
        return aligner
    return replace(aligner, too_long="blank").fixed()


def check_links(links: str) -> None:
    """Check that a form of links is known."""
    if links not in get_args(LinksAs):
        raise ValueError(f"links must be one of {', '.join(get_args(LinksAs))}; got {links!r}")


def _pairs(table: pa.Table) -> Iterator[Pair]:
    """Yield the rows of a table of two columns as pairs numbered from 1; unreadable rows become blank."""
    rows = (row for batch in table.to_batches(max_chunksize=ROWS) for row in rows_of(batch.columns))
    for number, row in enumerate(rows, 1):
        source, target, reason = read_sides(row)
        error = LineError(reason, reason, line=number) if reason else None
        yield replace(make_pair(source, target, number), origin=Origin(line=number, error=error))
