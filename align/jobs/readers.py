"""Read rows of a file as sentence pairs: lines of bitext, JSON lines, and Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from align.core.errors import DataError, LineError, one_line, shorten
from align.core.formats import to_json
from align.core.stream import BUFFER
from align.core.text import split_words
from align.core.types import Origin, Pair
from align.io.compression import OPENERS
from align.io.reader import BadLines, read_bitext, read_lines
from align.jobs.arrow import TEXT, check_columns, column_of, field_of, read_sides, rows_of
from align.jobs.files import InputFile, cannot_read, open_file


class Columns(NamedTuple):
    """Columns of source, target and id; None for the default columns.

    Lines of text have column numbers, from 1, instead of names.
    """

    source: str | None = None
    target: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class RowPair(Pair):
    """A pair of a row; its origin carries the row's id, if that is a column.

    Attributes:
        id_bytes: size of the id, which is in memory until the links are written.
    """

    id_bytes: int

    def memory(self) -> int:
        """Return the approximate number of bytes in memory."""
        return Pair.memory(self) + self.id_bytes


class Rows:
    """The rows of a file as they are read.

    Args:
        file: file to read.
        columns: columns of source, target and id.
        blank: whether an unreadable row becomes a blank one.

    Attributes:
        read: number of rows read so far.
        share: their share of the file.
        bad: the policy for unreadable rows.
    """

    def __init__(self, file: InputFile, columns: Columns, blank: bool) -> None:
        self.file, self.columns, self.bad = file, columns, BadLines(blank)
        self.read, self.share = 0, 0.0

    def refuse(self, number: int, reason: str, message: str, raw: Any) -> None:
        """Raise on an unreadable row, or note it."""
        self.bad(LineError(message, reason, file=self.file.place, line=number), raw=raw)

    def pairs(self, lines: Iterator[Pair]) -> Iterator[Pair]:
        """Yield the pairs with their row, and count them."""
        for self.read, pair in enumerate(lines, 1):
            yield replace(pair, origin=Origin(self.file.place, pair.id, self.bad.take(), pair.origin.item))


def kind_of(name: str) -> str:
    """Return the type of a file by its name: a key of `READERS`, or ""."""
    plain = next((name.removesuffix(end) for end in OPENERS if name.endswith(end)), name)
    kind = next((kind for kind in READERS if plain.endswith(kind)), "")
    return "" if kind == ".parquet" and plain != name else kind


@contextmanager
def open_rows(file: InputFile, columns: Columns, blank: bool) -> Iterator[tuple[Rows, Iterator[Pair]]]:
    """Open the rows of a file, and an iterator over their pairs, which reads them one by one.

    Args:
        file: of a type in `READERS`.
        columns: columns of source, target and id.
        blank: whether an unreadable row becomes a blank one.

    Raises:
        DataError: now or while reading: the file or a row cannot be read; names file and row.
    """
    rows = Rows(file, columns, blank)
    with open_file(file.place) as stream:
        pairs = rows.pairs(READERS[kind_of(file.name)](stream, rows))
        yield rows, _named_errors(pairs, rows)


def _named_errors(pairs: Iterator[Pair], rows: Rows) -> Iterator[Pair]:
    """Pass pairs on, and add file and row to errors of Arrow and of the file system."""
    try:
        yield from pairs
    except DataError:
        raise
    except (OSError, EOFError, pa.ArrowException) as error:
        if getattr(error, "filename", None) is not None:  # of a list that cannot be written
            raise
        message = f"cannot be read: {one_line(error)}"
        raise DataError(message, file=rows.file.place, line=rows.read + 1) from None


class _Lines:
    """Decompressed lines of a file; stores the last one unchanged."""

    def __init__(self, raw: Any, rows: Rows) -> None:
        self._raw, self._rows, self.last = raw, rows, b""

    def __iter__(self) -> Iterator[bytes]:
        name, size = self._rows.file.name, max(1, self._rows.file.size)
        opener = next((opener for end, opener in OPENERS.items() if name.endswith(end)), io.BufferedReader)
        stream: Iterable[bytes] = opener(self._raw)
        for number, self.last in enumerate(stream):
            if number % BUFFER == 0:
                self._rows.share = min(1.0, self._raw.tell() / size)
            yield self.last

    @property
    def shown(self) -> str:
        """The last line as text, with invalid bytes escaped."""
        return self.last.removesuffix(b"\n").decode(errors="backslashreplace")


def read_text(stream: Any, rows: Rows) -> Iterator[Pair]:
    """Read lines `source ||| target` or `source TAB target`, or with two of several columns."""
    lines, columns = _Lines(stream, rows), rows.columns

    def on_bad(error: LineError) -> None:
        rows.bad(error, raw=lines.shown)

    numbers = (int(columns.source), int(columns.target)) if columns.source and columns.target else None
    name = rows.file.place
    return read_bitext(read_lines(lines, name, on_bad, json_lines=False), name, numbers, on_bad)


def read_json(stream: Any, rows: Rows) -> Iterator[Pair]:
    """Read lines of JSON objects; a blank line is a blank row."""
    lines = _Lines(stream, rows)

    def on_bad(error: LineError) -> None:
        rows.bad(error, raw=lines.shown)

    objects = without = 0
    for number, line in enumerate(read_lines(lines, rows.file.place, on_bad), 1):
        source = target = ""
        id = None
        if line.strip(" \t"):
            objects += 1
            try:
                record = _object(line)
                id = None if rows.columns.id is None else _id_of(record, rows.columns.id)
                source, target = [_text(_value(record, name), name) for name in rows.columns[:2] if name]
            except ValueError as error:
                reason, message = error.args
                without += message.startswith("no field")
                rows.refuse(number, reason, message, lines.shown)
        id_bytes = len(line) if id is not None else 0
        yield RowPair(split_words(source), split_words(target), number, id_bytes, origin=Origin(item=id))
    if without and without == objects:
        hint = "name them with ‹columns›"
        raise DataError(f"no row has both fields; in the last: {message}", file=rows.file.place, hint=hint)


def _object(line: str) -> dict[str, Any]:
    """Return the object of a line.

    Raises:
        ValueError: there is none; its arguments are the reason in two words, and a full message.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("not JSON", f"not JSON ({one_line(error)})") from None
    if not isinstance(record, dict):
        raise ValueError("wrong fields", f"not a JSON object: {shorten(line)}")
    return record


def _id_of(record: dict[str, Any], column: str) -> Any:
    """Return the id of an object, which JSON can write.

    Raises:
        ValueError: there is none; its arguments are the reason in two words, and a full message.
    """
    id = _value(record, column)
    try:
        to_json(id)
    except ValueError:
        message = f"{column!r} has a number that is NaN or infinite, which JSON has no form for"
        raise ValueError("wrong fields", message) from None
    return id


def _value(record: dict[str, Any], name: str) -> Any:
    """Return the value of a field; `a.b` is the field b of an object a, and null where a is.

    Raises:
        ValueError: there is none; its arguments are the reason in two words, and a full message.
    """
    value: Any = record
    rest = name
    while isinstance(value, dict) and rest not in value and rest.partition(".")[0] in value:
        outer, _, rest = rest.partition(".")
        value = value[outer]
    if value is None:
        return None
    if isinstance(value, dict) and rest in value:
        return value[rest]
    there = shorten(", ".join(map(repr, islice(record, 80)))) or "none"
    raise ValueError("wrong fields", f"no field {name!r}: the object has {there}")


def _text(value: Any, name: str) -> str:
    """Return a value that must be text.

    Raises:
        ValueError: it is not; its arguments are the reason in two words, and a full message.
    """
    if value is None:
        raise ValueError("null", f"{name!r} is null")
    if not isinstance(value, str):
        raise ValueError("not text", f"{name!r} is of type {type(value).__name__}, not a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("not UTF-8", f"{name!r} has half a surrogate pair") from None
    return value


def read_parquet(stream: Any, rows: Rows) -> Iterator[Pair]:
    """Read two columns of strings, and the ids, a batch of rows at a time.

    Strings stay dictionaries if they are in the file, which may hold one long string that all rows share.
    """
    table = _open_table(stream, rows.file, rows.columns)
    source, target, id = rows.columns
    assert source
    assert target
    total, numbers, number = max(1, table.metadata.num_rows), count(1), 0
    schema = table.schema_arrow
    texts = [n for n in (source, target) if n in schema.names and str(schema.field(n).type) in TEXT[:3]]
    reader = pq.ParquetFile(stream, metadata=table.metadata, read_dictionary=texts)
    names = list(dict.fromkeys(name for name in rows.columns if name))
    for batch in reader.iter_batches(BUFFER, columns=names, use_threads=False):
        part = pa.Table.from_batches([batch])
        ids = iter(()) if id is None else _ids(column_of(part, id).combine_chunks(), rows)
        sides_of = [column_of(part, name).combine_chunks() for name in (source, target)]
        for row, number in zip(rows_of(sides_of), numbers, strict=False):
            source_text, target_text, why = read_sides(row)
            row_id = next(ids, None)
            id_bytes = 0 if row_id is None or pa.types.is_dictionary(row_id.type) else row_id.nbytes
            if why:
                raw = [side if side is None else side.decode(errors="backslashreplace") for side in row]
                rows.refuse(number, why, f"{source!r} or {target!r} is {why}", raw)
            sides = split_words(source_text), split_words(target_text)
            yield RowPair(*sides, number, id_bytes, origin=Origin(item=row_id))
        rows.share = number / total
    if number != table.metadata.num_rows:
        raise DataError(f"{number:,} rows, where it says {table.metadata.num_rows:,}", file=rows.file.place)


def _ids(column: Any, rows: Rows) -> Any:
    """Return ids of rows, each an array of one: Python has no values for some of Arrow's, such as late dates.

    Raises:
        DataError: the values are invalid, for example strings that are not UTF-8.
    """
    try:
        column.validate(full=True)
    except pa.ArrowException as error:
        message = f"column {rows.columns.id!r} cannot be read: {one_line(error)}"
        raise DataError(message, file=rows.file.place) from None
    return (column.slice(n, 1) for n in range(len(column)))


EXTENSION_TYPES = (
    *(f"ray.data.arrow_{name}" for name in ("tensor", "tensor_v2", "variable_shaped_tensor", "pickled_object")),
    "arrow.py_extension_type",
)
"""Extension types that may be registered with Arrow, and whose metadata Ray or Arrow may unpickle with the schema."""


def _forget_extension_types() -> None:
    """Make Arrow read columns of extension types as their storage types."""
    for name in EXTENSION_TYPES:
        with suppress(KeyError):  # not registered
            pa.unregister_extension_type(name)


def _open_table(stream: Any, file: InputFile, columns: Columns) -> Any:
    """Open a Parquet file, and check that it has these columns.

    Raises:
        DataError: a column is missing, or it is not a Parquet file.
    """
    _forget_extension_types()
    with cannot_read(file.place):
        try:
            table = pq.ParquetFile(stream)
        except pa.ArrowException as error:
            raise DataError(f"no Parquet file: {one_line(error)}", file=file.place) from None
    source, target, id = columns
    try:
        check_columns(table.schema_arrow, {"source_column": source, "target_column": target, "id_column": id})
    except DataError as error:
        raise error.in_file(file.place) from None
    return table


def id_field(file: InputFile, columns: Columns) -> Any:
    """Return the Arrow field of a Parquet file's id column; None if there is none.

    Raises:
        DataError: a column is missing, or it is not a Parquet file.
    """
    if kind_of(file.name) != ".parquet" or columns.id is None:
        return None
    with open_file(file.place) as stream:
        return field_of(_open_table(stream, file, columns).schema_arrow, columns.id)


READERS: dict[str, Callable[[Any, Rows], Iterator[Pair]]] = {
    ".parquet": read_parquet,
    ".jsonl": read_json,
    ".tsv": read_text,
    ".txt": read_text,
}
"""Readers by the suffix of the file's name, without that of its compression."""
