"""Tables of sentence pairs in, tables of their links out: Arrow's, which pandas, datasets, Ray and Spark all take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from align.core.aligner import Aligner
from align.core.batching import chunks
from align.core.text import make_pair
from align.core.types import Pair
from align.jobs.arrow import (
    LinksAs,
    Named,
    batch_of,
    check_columns,
    column_of,
    field_of,
    read_sides,
    rows_of,
    schema_of,
    status_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 2000
"""Rows whose links are Python's objects at one time, which take several times the room of Arrow's."""


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

    Each row is read at one place, wherever it stands, so that its links do not depend on how rows are cut into tables:
    an aligner that is not `fixed` yet is fixed where its model's calibration says.

    Args:
        table: has the sentences in two columns of strings.
        aligner: of one model or two.
        source: column of the source sentences; "translation.de" is the field de of a column of structs, too.
        target: column of their translations, likewise.
        id: column to repeat in what comes out, likewise; None for none.
        links: "structs", or "pharaoh" for strings such as "0-0 1-1".

    Returns:
        The column `id`, as it was; `links`, of type `list<struct<source: int32, target: int32, score: float>>` or
        string, without nulls; and `status`, a string: "" for what was aligned, else why there are no links, which is
        "blank", "null", "not UTF-8", or "too long" for the model.

    Raises:
        ModuleNotFoundError: pyarrow is not installed.
        ValueError: another word for `links`.
        TypeError: something else than a table.
        DataError: there is no such column, or more than one, or it is not of strings.

    Warns:
        TextWarning: the text does not look like what the model was trained on.
    """
    import pyarrow as pa

    check_links(links)
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise TypeError(f"table is a pyarrow Table or RecordBatch; not of type {type(table).__name__}")
    named = None if id is None else Named(id, "id")
    check_columns(table.schema, Named(source, "source"), Named(target, "target"), named)
    unread: dict[int, str] = {}
    sides = pa.table([column_of(table, source), column_of(table, target)], names=["source", "target"])
    aligned = for_rows(aligner)(_pairs(sides, unread))
    schema = schema_of(links)
    batches = []
    for some in chunks(aligned, ROWS, lambda one: one.pair.memory()):
        status = [status_of(one, unread.pop(one.pair.id, "")) for one in some]
        batches.append(batch_of(some, status, schema))
    found = pa.Table.from_batches(batches, schema)
    return found if id is None else found.add_column(0, field_of(table.schema, id), column_of(table, id))


def for_rows(aligner: Aligner) -> Aligner:
    """Return the same aligner, but one that reads every text at the same layer and head, and stops at no row."""
    if aligner.choices and aligner.too_long == "blank":
        return aligner
    return replace(aligner, too_long="blank").fixed()


def check_links(links: str) -> None:
    """Check that there are links of this kind.

    Raises:
        ValueError: there are none.
    """
    if links not in get_args(LinksAs):
        raise ValueError(f"links is one of {', '.join(get_args(LinksAs))}; not {links!r}")


def _pairs(table: pa.Table, unread: dict[int, str]) -> Iterator[Pair]:
    """The rows of two columns as pairs with their row's number, from 1; blank ones for those that cannot be read.

    Args:
        table: of two columns.
        unread: is told why, by number.
    """
    for number, row in enumerate(_rows(table), 1):
        source, target, why = read_sides(row)
        if why:
            unread[number] = why
        yield make_pair(source, target, number)


def _rows(table: pa.Table) -> Iterator[tuple[bytes | None, ...]]:
    for batch in table.to_batches(max_chunksize=ROWS):
        yield from rows_of(batch.columns)
