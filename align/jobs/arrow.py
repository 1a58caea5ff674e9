"""Read sentence pairs from Arrow columns, and build columns of links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from align.core.errors import DataError, shorten
from align.core.types import Alignment

if TYPE_CHECKING:
    import pyarrow as pa

LinksAs = Literal["structs", "pharaoh"]

RESULTS = ("links", "agreement", "status")  # columns of the result

TEXT = ("string", "large_string", "string_view", "null")
"""Types of columns that are read, and of the values of dictionary columns; all values of `null` are null."""


def check_columns(schema: pa.Schema, columns: Mapping[str, str | None]) -> None:
    """Check that a flat table has each column once, strings in source and target, and no column of the result.

    Args:
        schema: of a table in which the field b of a column of structs a is the column `a.b`.
        columns: names of the columns source, target and, if there is one, id, by the argument that names each.
    """
    import pyarrow as pa

    for role, (argument, name) in zip(("source", "target", "id"), columns.items(), strict=True):
        if name is None:
            continue
        if (count := schema.names.count(name)) != 1:
            there = shorten(", ".join(map(repr, schema.names[:80]))) or "none"
            message = f"{count or 'no'} column{'s' * (count > 1)} {name!r}: the table has {there}"
            raise DataError(message, hint=f"name one with ‹{argument}›")
        kind = schema.field(name).type
        if role == "id" and name in RESULTS:
            raise DataError(f"column {name!r}: the result has a column of that name", hint="rename it")
        if role != "id" and str(kind.value_type if pa.types.is_dictionary(kind) else kind) not in TEXT:
            message = f"column {name!r} is of type {shorten(str(kind))}, expected strings"
            raise DataError(message, hint=f"cast it, or name another with ‹{argument}›")


def rows_of(columns: Sequence[pa.Array]) -> Iterator[tuple[bytes | None, ...]]:
    """Yield strings of columns as bytes, row by row: Arrow itself does not check that a file's strings are UTF-8."""
    import pyarrow as pa

    sides = []
    for column in columns:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary.cast(pa.large_binary()).take(column.indices)
        sides.append(column.cast(pa.large_binary()).to_pylist())
    yield from zip(*sides, strict=True)


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


def batch_of(alignments: Sequence[Alignment], schema: pa.Schema) -> pa.RecordBatch:
    """Convert alignments of some rows to an Arrow batch of a schema that `schema_of` returned."""
    import pyarrow as pa

    status = [status_of(alignment) for alignment in alignments]
    if schema.names == ["links", "status"]:
        return pa.record_batch([[str(alignment) for alignment in alignments], status], schema=schema)
    rows = [[(*link, alignment.scores[link]) for link in alignment] for alignment in alignments]
    return pa.record_batch([rows, [alignment.agreement for alignment in alignments], status], schema=schema)
