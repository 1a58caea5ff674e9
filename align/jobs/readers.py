"""Read rows of a file as sentence pairs: lines of bitext, JSON lines, and Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
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
from align.jobs.arrow import check_columns, read_sides, rows_of
from align.jobs.files import InputFile, cannot_read, open_file


class Columns(NamedTuple):
    """Columns of source, target and id; None for the default columns.

    Lines of text have column numbers, from 1, instead of names.
    """

    source: str | None = None
    target: str | None = None
    id: str | None = None


class Rows:
    """The rows of a file as they are read.

    Args:
        file: file to read.
        columns: columns of source, target and id.
        blank: whether an unreadable row becomes a blank one.

    Attributes:
        read: number of rows read so far.
        share: their share of the file.
        last: the last line, unchanged.
        id_field: Arrow field of a Parquet file's ids, if it has any.
        bad: the policy for unreadable rows.
    """

    def __init__(self, file: InputFile, columns: Columns, blank: bool) -> None:
        self.file, self.columns, self.bad = file, columns, BadLines(blank)
        self.read, self.share, self.last = 0, 0.0, b""
        self.id_field: Any = None

    def lines(self, raw: Any) -> Iterator[bytes]:
        """Yield the decompressed lines of the file."""
        opener = next((opener for end, opener in OPENERS.items() if self.file.name.endswith(end)), io.BufferedReader)
        for number, self.last in enumerate(opener(raw)):
            if number % BUFFER == 0:
                self.share = min(1.0, raw.tell() / max(1, self.file.size))
            yield self.last

    def on_bad_line(self, error: LineError) -> None:
        """Raise on an unreadable line, or note it, with invalid bytes escaped."""
        self.bad(error, raw=self.last.removesuffix(b"\n").decode(errors="backslashreplace"))

    def pairs(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        """Yield the pairs with their row, and count them; add file and row to errors of Arrow and the file system."""
        try:
            for self.read, pair in enumerate(pairs, 1):
                yield replace(pair, origin=Origin(self.file.place, pair.id, self.bad.take(), pair.origin.item))
        except DataError:
            raise
        except (OSError, EOFError, pa.ArrowException) as error:
            if getattr(error, "filename", None) is not None:  # of a list that cannot be written
                raise
            message = f"cannot be read: {one_line(error)}"
            raise DataError(message, file=self.file.place, line=self.read + 1) from None


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
        yield rows, rows.pairs(READERS[kind_of(file.name)](stream, rows))


def read_text(stream: Any, rows: Rows) -> Iterator[Pair]:
    """Read lines `source ||| target` or `source TAB target`, or with two of several columns."""
    columns, name, on_bad = rows.columns, rows.file.place, rows.on_bad_line
    numbers = (int(columns.source), int(columns.target)) if columns.source and columns.target else None
    return read_bitext(read_lines(rows.lines(stream), name, on_bad), name, numbers, on_bad)


def read_json(stream: Any, rows: Rows) -> Iterator[Pair]:
    """Read lines of JSON objects; a blank line is a blank row."""
    objects = without = 0
    for number, line in enumerate(read_lines(rows.lines(stream), rows.file.place, rows.on_bad_line), 1):
        texts, id = ["", ""], None
        if line.strip(" \t"):
            objects += 1
            try:
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise ValueError("not JSON", f"not JSON ({one_line(error)})") from None
                if not isinstance(record, dict):
                    raise ValueError("wrong fields", f"not a JSON object: {shorten(line)}")
                if (column := rows.columns.id) is not None:
                    value = _value(record, column)
                    try:
                        to_json(value)
                    except ValueError:
                        message = f"{column!r} has a number that is NaN or infinite, which JSON has no form for"
                        raise ValueError("wrong fields", message) from None
                    id = value
                texts = [_text(record, name) for name in rows.columns[:2] if name]
            except ValueError as error:
                reason, message = error.args
                without += message.startswith("no field")
                rows.on_bad_line(LineError(message, reason, file=rows.file.place, line=number))
        yield Pair(split_words(texts[0]), split_words(texts[1]), number, origin=Origin(item=id))
    if without and without == objects:
        hint = "name them with ‹columns›"
        raise DataError(f"no row has both fields; in the last: {message}", file=rows.file.place, hint=hint)


def _value(record: dict[str, Any], name: str) -> Any:
    """Return the value of a field; `a.b` is the field b of an object a, and null where a is.

    Raises:
        ValueError: there is none; its arguments are the reason in two words, and a full message.
    """
    value: Any = record
    for key in [name] if name in record else name.split("."):
        if value is None:
            return None
        if not isinstance(value, dict) or key not in value:
            there = shorten(", ".join(map(repr, islice(record, 80)))) or "none"
            raise ValueError("wrong fields", f"no field {name!r}: the object has {there}")
        value = value[key]
    return value


def _text(record: dict[str, Any], name: str) -> str:
    """Return the value of a field, which must be text.

    Raises:
        ValueError: it is not; its arguments are the reason in two words, and a full message.
    """
    value = _value(record, name)
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
    """Open a table, check that it has the columns, and read two of strings, and the ids, a batch of rows at a time.

    An id is an array of one: Python has no values for some of Arrow's, such as late dates.

    Raises:
        DataError: a column is missing, or it is not a Parquet file.
    """
    for name in EXTENSION_TYPES:  # read as their storage types
        with suppress(KeyError):  # not registered
            pa.unregister_extension_type(name)
    place, (source, target, id) = rows.file.place, rows.columns
    with cannot_read(place):
        try:
            file = pq.ParquetFile(stream)
        except pa.ArrowException as error:
            raise DataError(f"no Parquet file: {one_line(error)}", file=place) from None
    schema = file.schema_arrow.empty_table().flatten().schema
    try:
        check_columns(schema, {"source_column": source, "target_column": target, "id_column": id})
    except DataError as error:
        raise error.in_file(place) from None
    rows.id_field = schema.field(id) if id else None

    def pairs() -> Iterator[Pair]:
        number, total = 0, file.metadata.num_rows
        for batch in file.iter_batches(BUFFER, columns=[*{*filter(None, rows.columns)}], use_threads=False):
            part = pa.Table.from_batches([batch]).flatten()
            ids = part[id].combine_chunks() if id else None
            if ids is not None:
                try:
                    ids.validate(full=True)
                except pa.ArrowException as error:
                    raise DataError(f"column {id!r} cannot be read: {one_line(error)}", file=place) from None
            sides_of = [part[name].combine_chunks() for name in (source, target)]
            for n, row in enumerate(rows_of(sides_of)):
                number += 1
                *texts, why = read_sides(row)
                if why:
                    raw = [side if side is None else side.decode(errors="backslashreplace") for side in row]
                    message = f"{source!r} or {target!r} is {why}"
                    rows.bad(LineError(message, why, file=place, line=number), raw=raw)
                item = None if ids is None else ids.slice(n, 1)
                yield Pair(split_words(texts[0]), split_words(texts[1]), number, origin=Origin(item=item))
            rows.share = number / max(1, total)
        if number != total:
            raise DataError(f"{number:,} rows, where it says {total:,}", file=place)

    return pairs()


EXTENSION_TYPES = (
    *(f"ray.data.arrow_{name}" for name in ("tensor", "tensor_v2", "variable_shaped_tensor", "pickled_object")),
    "arrow.py_extension_type",
)
"""Extension types that may be registered with Arrow, and whose metadata Ray or Arrow may unpickle with the schema."""


READERS: dict[str, Callable[[Any, Rows], Iterator[Pair]]] = {
    ".parquet": read_parquet,
    ".jsonl": read_json,
    ".tsv": read_text,
    ".txt": read_text,
}
"""Readers by the suffix of the file's name, without that of its compression."""
