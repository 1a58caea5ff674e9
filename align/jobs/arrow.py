"""Read sentence pairs from Arrow columns, and build columns of links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from align.core.errors import DataError, shorten
from align.core.types import Alignment

if TYPE_CHECKING:
    import pyarrow as pa

LinksAs = Literal["structs", "pharaoh"]

RESULTS = ("links", "agreement", "status")
"""Columns of the result."""

TEXT = ("string", "large_string", "string_view", "null")
"""Types of columns that are read, and of the values of dictionary columns; all values of `null` are null."""


BATCH_BYTES = 1 << 26
"""Maximum number of bytes of rows that are Python objects at a time, unless one row has more."""


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column; `a.b` is the field b of a column of structs a, and null where a is.

    Raises:
        KeyError: there is none, or more than one of this name.
    """
    import pyarrow as pa

    while name not in table.schema.names:
        structs = [
            field.name for field in table.schema if name.startswith(f"{field.name}.") and pa.types.is_struct(field.type)
        ]
        if not structs:
            break
        table = table.select(structs).flatten()
    return table[name]


def field_of(schema: pa.Schema, name: str) -> pa.Field:
    """Return the field of a column that `column_of` returns."""
    import pyarrow as pa

    if name in schema.names:
        return schema.field(name)
    return pa.field(name, column_of(schema.empty_table(), name).type)


def check_columns(schema: pa.Schema, columns: Mapping[str, str | None]) -> None:
    """Check that a table has each column once, strings in source and target, and no name conflict with the result.

    Args:
        columns: names of the columns source, target and, if there is one, id, by the argument that names each.

    Raises:
        DataError: a check failed; the message lists the columns.
    """
    import pyarrow as pa

    for role, (argument, name) in zip(("source", "target", "id"), columns.items(), strict=True):
        if name is None:
            continue
        try:
            kind = column_of(schema.empty_table(), name).type
        except KeyError:
            count = schema.names.count(name)
            there = shorten(", ".join(map(repr, schema.names[:80]))) or "none"
            message = f"{count or 'no'} column{'s' * (count > 1)} {name!r}: the table has {there}"
            raise DataError(message, hint=f"name one with ‹{argument}›") from None
        if role == "id" and name in RESULTS:
            raise DataError(f"column {name!r}: the result has a column of that name", hint="rename it")
        if role != "id" and str(kind.value_type if pa.types.is_dictionary(kind) else kind) not in TEXT:
            fields = [f"{name}.{field.name}" for field in kind] if pa.types.is_struct(kind) else []
            hint = f"name one of its fields, such as {fields[0]}," if fields else "cast it, or name another"
            message = f"column {name!r} is of type {shorten(str(kind))}, expected strings"
            raise DataError(message, hint=f"{hint} with ‹{argument}›")


def rows_of(columns: Sequence[pa.Array]) -> Iterator[tuple[bytes | None, ...]]:
    """Yield strings of columns as bytes, row by row: Arrow itself does not check that a file's strings are UTF-8.

    A dictionary may hold one long string that all rows share: rows are read in groups that fit into BATCH_BYTES.
    """
    import pyarrow.compute as pc

    sizes = sum(pc.fill_null(_sizes(column), 0).to_numpy(zero_copy_only=False).astype("int64") for column in columns)
    starts = [0]
    room = BATCH_BYTES
    for row, size in enumerate(sizes.tolist()):
        room -= size
        if room < 0 and row > starts[-1]:
            starts.append(row)
            room = BATCH_BYTES - size
    for start, end in zip(starts, (*starts[1:], len(sizes)), strict=True):
        parts = (_bytes_of(column.slice(start, end - start)) for column in columns)
        yield from zip(*parts, strict=True)


def _sizes(column: pa.Array) -> pa.Array:
    """Return the number of bytes of each string."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        return pc.binary_length(column.dictionary.cast(pa.large_binary())).take(column.indices)
    return pc.binary_length(column.cast(pa.large_binary()))


def _bytes_of(column: pa.Array) -> list[bytes | None]:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary.cast(pa.large_binary()).take(column.indices)
    return column.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]


def read_sides(row: tuple[bytes | None, ...]) -> tuple[str, str, str]:
    """Return source and target of a row, and why they cannot be read, in which case they are blank."""
    source, target = row
    if source is None or target is None:
        return "", "", "null"
    try:
        return source.decode(), target.decode(), ""
    except UnicodeDecodeError:
        return "", "", "not UTF-8"


def status_of(alignment: Alignment) -> str:
    """Return why a row has no links; "" if it was aligned."""
    return alignment.skipped or ("blank" if alignment.pair.blank else "")


def schema_of(links: str) -> pa.Schema:
    """Return the schema of the result."""
    import pyarrow as pa

    struct = pa.struct({"source": pa.int32(), "target": pa.int32(), "score": pa.float32()})
    if links == "structs":
        return pa.schema({"links": pa.list_(struct), "agreement": pa.list_(pa.float32()), "status": pa.string()})
    return pa.schema({"links": pa.string(), "status": pa.string()})


def batch_of(alignments: Sequence[Alignment], status: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """Convert alignments to an Arrow batch.

    Args:
        alignments: alignments of some rows.
        status: status of each row.
        schema: as returned by `schema_of`.
    """
    import pyarrow as pa

    if schema.names == ["links", "status"]:
        return pa.record_batch([[str(alignment) for alignment in alignments], status], schema=schema)
    rows = [[(*link, alignment.scores[link]) for link in alignment] for alignment in alignments]
    return pa.record_batch([rows, [alignment.agreement for alignment in alignments], status], schema=schema)
