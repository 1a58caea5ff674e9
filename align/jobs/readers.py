"""Rows of a file as sentence pairs: lines of bitext, lines of JSON, and Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from align.core.batching import BUFFER
from align.core.errors import Argument, DataError, LineError, Remedy, one_line, shorten
from align.core.formats import to_json
from align.core.text import split_words
from align.core.types import Pair
from align.io.reader import OPENERS, BadLines, read_bitext, read_lines
from align.jobs.arrow import TEXT, Named, check_columns, column_of, field_of, read_sides, rows_of
from align.jobs.files import InputFile, cannot_read, open_file

PACKED = (*OPENERS, ".zst")
"""What the names of packed files end in."""


class Columns(NamedTuple):
    """Where source and target of a row are, and what tells it from others; None where that goes without saying.

    Lines of text have numbers, from 1, in place of names.
    """

    source: str | None = None
    target: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class RowPair(Pair):
    """A pair of a row that has an id of its own.

    Attributes:
        id_bytes: of that id, which is kept until the links are written.
    """

    id_bytes: int

    def memory(self) -> int:
        """Bytes that it takes, about."""
        return Pair.memory(self) + self.id_bytes


class Rows:
    """The rows of a file as they are read.

    Args:
        file: to be read.
        columns: of its source and its target.
        blank: whether a row that cannot be read becomes a blank one.

    Attributes:
        read: number of rows read so far.
        share: their share of the file.
        bad: the policy for rows that cannot be read, and those that became blank.
        ids: what identifies rows, by number, until the writer removes it.
    """

    def __init__(self, file: InputFile, columns: Columns, blank: bool) -> None:
        self.file, self.columns, self.bad = file, columns, BadLines(blank)
        self.read, self.share = 0, 0.0
        self.ids: dict[int, Any] = {}

    def refuse(self, number: int, reason: str, what: str, raw: Any) -> None:
        """Stop at a row that cannot be read, or note it."""
        self.bad(LineError(what, reason, file=self.file.place, line=number), raw=raw)

    def pairs(self, lines: Iterator[Pair]) -> Iterator[Pair]:
        """The pairs, which are counted."""
        for pair in lines:
            self.read += 1
            yield pair


def kind_of(name: str) -> str:
    """What a file holds, by its name: a key of `READERS`, or nothing."""
    plain = next((name.removesuffix(end) for end in PACKED if name.endswith(end)), name)
    kind = next((kind for kind in READERS if plain.endswith(kind)), "")
    return "" if kind == ".parquet" and plain != name else kind


@contextmanager
def open_rows(file: InputFile, columns: Columns, blank: bool) -> Iterator[tuple[Rows, Iterator[Pair]]]:
    """The rows of a file, and an iterator over their pairs, which are read as it goes on.

    Args:
        file: of a kind that `READERS` has.
        columns: of its source and its target.
        blank: whether a row that cannot be read becomes a blank one.

    Raises:
        DataError: now or as they are read: the file cannot be read, or a row; names file and row.
    """
    rows = Rows(file, columns, blank)
    with open_file(file.place) as stream:
        pairs = rows.pairs(READERS[kind_of(file.name)](stream, rows))
        yield rows, _named_errors(pairs, rows)


def _named_errors(pairs: Iterator[Pair], rows: Rows) -> Iterator[Pair]:
    """The same pairs; errors of Arrow's and of the file system name file and row."""
    try:
        yield from pairs
    except DataError:
        raise
    except (OSError, EOFError, pa.ArrowException) as error:
        what = f"cannot be read: {one_line(error)}"
        raise DataError(what, file=rows.file.place, line=rows.read + 1) from None


class _Lines:
    """Lines of a file, unpacked; knows the one that came last, as it is."""

    def __init__(self, raw: Any, rows: Rows) -> None:
        self._raw, self._rows, self.last = raw, rows, b""

    def __iter__(self) -> Iterator[bytes]:
        name, size = self._rows.file.name, max(1, self._rows.file.size)
        stream: Iterable[bytes]
        if name.endswith(".zst"):
            stream = io.BufferedReader(pa.CompressedInputStream(self._raw, "zstd"))
        else:
            opener = next((opener for end, opener in OPENERS.items() if name.endswith(end)), None)
            stream = opener(self._raw, "rb") if opener else io.BufferedReader(self._raw)
        for number, self.last in enumerate(stream):
            if number % BUFFER == 0:
                self._rows.share = min(1.0, self._raw.tell() / size)
            yield self.last

    @property
    def shown(self) -> str:
        """The last line as text, whatever it holds."""
        return self.last.removesuffix(b"\n").decode(errors="backslashreplace")


def read_text(stream: Any, rows: Rows) -> Iterator[Pair]:
    """Lines `source ||| target` or `source TAB target`, or with two of several columns."""
    lines, columns = _Lines(stream, rows), rows.columns

    def on_bad(error: LineError) -> None:
        rows.bad(error, raw=lines.shown)

    numbers = (int(columns.source), int(columns.target)) if columns.source and columns.target else None
    name = rows.file.place
    return read_bitext(read_lines(lines, name, on_bad, json_lines=False), name, numbers, on_bad)


def read_json(stream: Any, rows: Rows) -> Iterator[Pair]:
    """Lines of JSON objects; a blank line is a blank row."""
    lines = _Lines(stream, rows)

    def on_bad(error: LineError) -> None:
        rows.bad(error, raw=lines.shown)

    objects = without = 0
    for number, line in enumerate(read_lines(lines, rows.file.place, on_bad), 1):
        source = target = ""
        if line.strip(" \t"):
            objects += 1
            try:
                source, target = _sides(line, rows, number)
            except ValueError as error:
                reason, what = error.args
                without += what.startswith("no field")
                rows.refuse(number, reason, what, lines.shown)
        id_bytes = len(line) if number in rows.ids else 0
        yield RowPair(split_words(source), split_words(target), number, id_bytes)
    if without and without == objects:
        remedy = Remedy("name them with {} and {}", (Argument("source_column"), Argument("target_column")))
        raise DataError(f"no row has both fields; in the last: {what}", file=rows.file.place, remedy=remedy)


def _sides(line: str, rows: Rows, number: int) -> tuple[str, str]:
    """Source and target of an object.

    Raises:
        ValueError: it has none; with the reason in two words, and in more.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("not JSON", f"not JSON ({one_line(error)})") from None
    if not isinstance(record, dict):
        raise ValueError("wrong fields", f"not a JSON object: {shorten(line)}")
    if rows.columns.id is not None:
        id = _value(record, rows.columns.id)
        try:
            to_json(id)
        except ValueError:
            what = f"{rows.columns.id!r} has a number that is NaN or infinite, which JSON has no form for"
            raise ValueError("wrong fields", what) from None
        rows.ids[number] = id
    sides = []
    for name in filter(None, rows.columns[:2]):
        sides.append(_text(_value(record, name), name))
    return sides[0], sides[1]


def _value(record: dict[str, Any], name: str) -> Any:
    """The value of a field: `a.b` is a field of that name, or else b of the object a, and null where a is.

    Raises:
        ValueError: there is none, or more than one; with the reason in two words, and in more.
    """
    values = _find(record, name)
    if len(values) > 1:
        values = [value for value in values if value is not None] or [None]
    if len(values) != 1:
        what = f"{len(values)} fields {name!r}" if values else f"no field {name!r}"
        there = shorten(", ".join(map(repr, islice(_names(record), 80)))) or "none"
        raise ValueError("wrong fields", f"{what}: the object has {there}")
    return values[0]


def _find(record: dict[str, Any], name: str) -> list[Any]:
    """The values that a name may mean."""
    if name in record:
        return [record[name]]
    values: list[Any] = []
    for end in (n for n, character in enumerate(name) if character == "."):
        inner = record.get(name[:end], 0)
        if inner is None:
            values.append(None)
        elif isinstance(inner, dict):
            values += _find(inner, name[end + 1 :])
    return values


def _names(record: dict[str, Any]) -> Iterator[str]:
    """The names in an object, and in place of an inner object's name those in it."""
    for name, value in record.items():
        if isinstance(value, dict) and value:
            yield from (f"{name}.{inner}" for inner in value)
        else:
            yield name


def _text(value: Any, name: str) -> str:
    """A value that is to be text.

    Raises:
        ValueError: it is not; with the reason in two words, and in more.
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
    """Two columns of strings, a batch of rows at a time."""
    names = [name for name in rows.columns if name is not None]
    table = _open_table(stream, rows.file, rows.columns)
    total = max(1, table.metadata.num_rows)
    before = 0
    for batch in _batches(table, stream, names):
        ids = None if rows.columns.id is None else _ids(column_of(batch, rows.columns.id), rows)
        for number, row in enumerate(rows_of([column_of(batch, name) for name in names[:2]]), before + 1):
            source, target, why = read_sides(row)
            id_bytes = 0
            if ids is not None:
                rows.ids[number] = id = next(ids)
                id_bytes = 0 if pa.types.is_dictionary(id.type) else id.nbytes
            if why:
                shown = [side if side is None else side.decode(errors="backslashreplace") for side in row]
                rows.refuse(number, why, f"{names[0]!r} or {names[1]!r} is {why}", shown)
            yield RowPair(split_words(source), split_words(target), number, id_bytes)
        before += batch.num_rows
        rows.share = before / total
    if before != table.metadata.num_rows:
        raise DataError(f"{before:,} rows, where it says {table.metadata.num_rows:,}", file=rows.file.place)


def _batches(table: Any, stream: Any, names: list[str]) -> Iterator[Any]:
    """Columns, some rows at a time.

    Strings stay dictionaries where they are such in the file, which may hold one long string that all rows have. Ids of
    types without a bound are read a row at a time, and so are strings within structs, which Arrow may not read as
    dictionaries.
    """
    schema = table.schema_arrow
    bounded = all(_is_small(field_of(schema, name).type) for name in names[2:])
    bounded = bounded and all(name in schema.names for name in names)
    texts = [name for name in names[:2] if name in schema.names and str(schema.field(name).type) in TEXT[:3]]
    reader = pq.ParquetFile(stream, metadata=table.metadata, read_dictionary=texts)
    columns = list(dict.fromkeys(names))
    yield from reader.iter_batches(BUFFER if bounded else 1, columns=columns, use_threads=False)


def _is_small(kind: Any) -> bool:
    """Whether the values of a type have few bytes, all of them, or are shared by their rows."""
    types = pa.types
    return any((types.is_primitive(kind), types.is_null(kind), types.is_decimal(kind), types.is_dictionary(kind)))


def _ids(column: Any, rows: Rows) -> Any:
    """What tells rows from others, each an array of one: Python has no values for some of Arrow's, such as late dates.

    Raises:
        DataError: it calls itself strings, and is not UTF-8, or the like.
    """
    try:
        column.validate(full=True)
    except pa.ArrowException as error:
        what = f"column {rows.columns.id!r} cannot be read: {one_line(error)}"
        raise DataError(what, file=rows.file.place) from None
    return (column.slice(n, 1) for n in range(len(column)))


EXTENSION_TYPES = (
    *(f"ray.data.arrow_{name}" for name in ("tensor", "tensor_v2", "variable_shaped_tensor", "pickled_object")),
    "arrow.py_extension_type",
)
"""Types that Arrow may know of in this process, and whose metadata Ray or Arrow may unpickle when a schema is read."""


def _forget_extension_types() -> None:
    """Let Arrow read columns of extension types as what they are stored as."""
    for name in EXTENSION_TYPES:
        with suppress(KeyError):  # nothing has registered it
            pa.unregister_extension_type(name)


def _open_table(stream: Any, file: InputFile, columns: Columns) -> Any:
    """A Parquet file that has these columns.

    Raises:
        DataError: it has not, or is no Parquet file.
    """
    _forget_extension_types()
    with cannot_read(file.place):
        try:
            table = pq.ParquetFile(stream)
        except pa.ArrowException as error:
            raise DataError(f"no Parquet file: {one_line(error)}", file=file.place) from None
    source, target, id = (name and Named(name, f"{what}_column") for what, name in columns._asdict().items())
    try:
        check_columns(table.schema_arrow, source, target, id)
    except DataError as error:
        raise error.in_file(file.place) from None
    return table


def table_head(file: InputFile, columns: Columns) -> tuple[Any, int]:
    """The field of a Parquet file's column of ids, if one is named, and how many rows the file has.

    Raises:
        DataError: it has no such columns, or is no Parquet file.
    """
    with open_file(file.place) as stream:
        table = _open_table(stream, file, columns)
        return columns.id and field_of(table.schema_arrow, columns.id), table.metadata.num_rows


READERS: dict[str, Callable[[Any, Rows], Iterator[Pair]]] = {
    ".parquet": read_parquet,
    ".jsonl": read_json,
    ".tsv": read_text,
    ".txt": read_text,
}
"""By what names end in, where they are not packed."""
