"""Read sentence pairs from Arrow columns, and build columns of links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from align.core.errors import DataError, shorten
from align.core.types import Alignment

if TYPE_CHECKING:
    import pyarrow as pa

LinksAs = Literal["structs", "pharaoh"]

RESULTS = ("links", "agreement", "status")
"""Columns of the result."""

TEXT = ("string", "large_string", "string_view", "null")
"""Types of columns that are read, and of the values of dictionary columns; all values of `null` are null."""


class Named(NamedTuple):
    """A column, and the argument that names it."""

    name: str
    argument: str


BATCH_BYTES = 1 << 26
"""Maximum number of bytes of rows that are Python objects at a time, unless one row has more."""


def check_columns(schema: pa.Schema, source: Named, target: Named, id: Named | None) -> None:
    """Check that a table has each column once, strings in the first two, and no name conflict with the result.

    Raises:
        DataError: a check failed; the message lists the columns.
    """
    _check_text(schema, *source)
    _check_text(schema, *target)
    if id is not None:
        _check_column(schema, *id)
        if id.name in RESULTS:
            raise DataError(f"column {id.name!r}: what comes out has another of that name", hint="rename it")


def _check_column(schema: pa.Schema, name: str, argument: str) -> None:
    """Check that there is exactly one column of this name."""
    count = len(_find(schema, name))
    if count != 1:
        message = f"{count} columns {name!r}" if count else f"no column {name!r}"
        there = shorten(", ".join(map(repr, islice(_names(schema), 80)))) or "none"
        raise DataError(f"{message}: the table has {there}", hint=f"name one with ‹{argument}›")


def _find(fields: pa.Schema | pa.StructType, name: str) -> Sequence[tuple[tuple[int, ...], pa.Field]]:
    """Return columns of a name with their paths: `a.b` is a column of that name, or else the field b of a struct a."""
    import pyarrow as pa

    numbered = list(enumerate(fields))
    if columns := [((n,), field) for n, field in numbered if field.name == name]:
        return columns
    structs = [
        (n, field) for n, field in numbered if pa.types.is_struct(field.type) and name.startswith(f"{field.name}.")
    ]
    return [
        ((n, *way), inner)
        for n, field in structs
        for way, inner in _find(field.type, name.removeprefix(f"{field.name}."))
    ]


def _names(fields: pa.Schema | pa.StructType, before: str = "") -> Iterator[str]:
    """Yield the names of columns, with those of its fields instead of a struct's, unless they are deeply nested."""
    import pyarrow as pa

    for field in fields:
        name = before + field.name
        if pa.types.is_struct(field.type) and field.type.num_fields and name.count(".") < 9:
            yield from _names(field.type, f"{name}.")
        else:
            yield name


def field_of(schema: pa.Schema, name: str) -> pa.Field:
    """Return the field of a column; one within structs has its full name, and is nullable, as the structs may be."""
    way, field = _find(schema, name)[0]
    return field if len(way) == 1 else field.with_name(name).with_nullable(True)


def column_of(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array | pa.ChunkedArray:
    """Return the values of a column, also of one within structs: null where a struct is null."""
    import pyarrow.compute as pc

    (column, *way), _ = _find(table.schema, name)[0]
    return pc.struct_field(table.column(column), way) if way else table.column(column)


def _check_text(schema: pa.Schema, name: str, argument: str) -> None:
    """Check that a column exists and holds strings."""
    import pyarrow as pa

    _check_column(schema, name, argument)
    kind = field_of(schema, name).type
    if str(kind.value_type if pa.types.is_dictionary(kind) else kind) not in TEXT:
        fields = ", ".join(map(repr, islice(_names(kind, f"{name}."), 9))) if pa.types.is_struct(kind) else ""
        advice_text = f"name one of its fields ({shorten(fields)})" if fields else "cast it, or name another"
        advice = advice_text.replace("{", "{{").replace("}", "}}")
        hint = f"{advice} with ‹{argument}›"
        raise DataError(f"column {name!r} is of type {shorten(str(kind))}, where strings are expected", hint=hint)


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
