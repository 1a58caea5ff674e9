"""Tables of sentence pairs in, tables of their links out: Arrow's, which pandas, datasets, Ray and Spark all take."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from align.aligners.single import Aligner
from align.aligners.two_way import TwoWayAligner
from align.errors import Argument, DataError, Remedy, shorten
from align.text.batching import chunks
from align.text.words import make_pair
from align.types import Alignment, Pair, TextWarning

if TYPE_CHECKING:
    import pyarrow as pa

AnyAligner: TypeAlias = Aligner | TwoWayAligner
LinksAs = Literal["structs", "pharaoh"]

ROWS = 2000
"""Rows whose links are Python's objects at one time, which take several times the room of Arrow's."""

RESULTS = ("links", "status")
"""Columns that come out."""

TEXT = ("string", "large_string", "string_view", "null")
"""Types of columns that are read, and of the values of those that are dictionaries; all of `null` is null."""


def align_table(
    table: pa.Table | pa.RecordBatch,
    aligner: AnyAligner,
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
        source: column of the source sentences.
        target: column of their translations.
        id: column to repeat in what comes out; None for none.
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
    _check_text(table, source, "source")
    _check_text(table, target, "target")
    if id is not None:
        _check_column(table, id, "id")
        if id in RESULTS:
            raise DataError(f"column {id!r}: what comes out has another of that name", remedy=Remedy("rename it"))
    unread: dict[int, str] = {}
    aligned = for_rows(aligner)(_pairs(table.select([source, target]), unread))
    schema = _schema(links)
    batches = [_batch(some, schema, unread) for some in chunks(aligned, ROWS)]
    found = pa.Table.from_batches(batches, schema)
    return found if id is None else found.add_column(0, table.schema.field(id), table.column(id))


def for_rows(aligner: AnyAligner) -> AnyAligner:
    """The same aligner, but one that reads every text at the same place, and stops at no row."""
    if all(one.choice and one.too_long == "blank" for one in aligner.directions):
        return aligner
    forward, *reverse = (replace(one, too_long="blank").fixed() for one in aligner.directions)
    if not isinstance(aligner, TwoWayAligner):
        return forward
    with warnings.catch_warnings():  # which came when this one was made
        warnings.simplefilter("ignore", TextWarning)
        return replace(aligner, forward=forward, reverse=reverse[0])


def check_links(links: str) -> None:
    """Check that there are links of this kind.

    Raises:
        ValueError: there are none.
    """
    if links not in get_args(LinksAs):
        raise ValueError(f"links is one of {', '.join(get_args(LinksAs))}; not {links!r}")


def _check_column(table: pa.Table, name: str, argument: str) -> None:
    """Check that a table has a column, and only one of this name.

    Raises:
        DataError: it has not; says which there are.
    """
    count = table.column_names.count(name)
    if count != 1:
        what = f"{count} columns {name!r}" if count else f"no column {name!r}"
        there = shorten(", ".join(map(repr, table.column_names))) or "none"
        raise DataError(f"{what}: the table has {there}", remedy=Remedy("name one with {}", (Argument(argument),)))


def _check_text(table: pa.Table, name: str, argument: str) -> None:
    """Check that a table has a column, and that strings are in it.

    Raises:
        DataError: it has not, or numbers or the like are.
    """
    import pyarrow as pa

    _check_column(table, name, argument)
    kind = table.schema.field(name).type
    if str(kind.value_type if pa.types.is_dictionary(kind) else kind) not in TEXT:
        remedy = Remedy("cast it, or name another with {}", (Argument(argument),))
        raise DataError(f"column {name!r} is of type {shorten(str(kind))}, where strings are expected", remedy=remedy)


def _pairs(table: pa.Table, unread: dict[int, str]) -> Iterator[Pair]:
    """The rows of two columns as pairs with their row's number, from 1; blank ones for those that cannot be read.

    Args:
        table: of two columns.
        unread: is told why, by number.
    """
    for number, row in enumerate(_rows(table), 1):
        try:
            source, target = ("" if side is None else side.decode() for side in row)
        except UnicodeDecodeError:
            source = target = ""
            unread[number] = "not UTF-8"
        if None in row:
            unread[number] = "null"
        yield make_pair(source, target, number)


def _rows(table: pa.Table) -> Iterator[tuple[bytes | None, ...]]:
    for batch in table.to_batches(max_chunksize=ROWS):
        yield from zip(*map(_bytes, batch.columns), strict=True)


def _bytes(column: pa.Array) -> list[bytes | None]:
    """Strings as bytes: Arrow itself does not look whether what a file calls strings is UTF-8."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary.cast(pa.large_binary()).take(column.indices)
    return column.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]


def _schema(links: LinksAs) -> pa.Schema:
    """What comes out for each row."""
    import pyarrow as pa

    struct = pa.struct({"source": pa.int32(), "target": pa.int32(), "score": pa.float32()})
    types = (pa.list_(struct) if links == "structs" else pa.string(), pa.string())
    return pa.schema(zip(RESULTS, types, strict=True))


def _batch(alignments: Sequence[Alignment], schema: pa.Schema, unread: dict[int, str]) -> pa.RecordBatch:
    """Alignments in Arrow's form; forgets why their rows could not be read."""
    import pyarrow as pa

    rows: list[Any] = [str(one) for one in alignments]
    if pa.types.is_list(schema.field("links").type):
        rows = [[(*link, one.scores[link]) for link in one] for one in alignments]
    status = [unread.pop(one.pair.id, "") or one.skipped or ("blank" if one.pair.blank else "") for one in alignments]
    return pa.record_batch([rows, status], schema=schema)
