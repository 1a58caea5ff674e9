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
    """Columns of source, target and id; None for the default ones. Lines of text have numbers from 1, not names."""

    source: str | None = None
    target: str | None = None
    id: str | None = None


class Rows:
    """The rows of a file as they are read: their number, their share of the file, and the policy for unreadable ones.

    `id_field` is the Arrow field of a Parquet file's ids, if it has any.
    """

    def __init__(self, file: InputFile, columns: Columns, blank: bool) -> None:
        self.file, self.columns, self.bad = file, columns, BadLines(blank)
        self.read, self.share, self._last = 0, 0.0, b""
        self.id_field: Any = None

    def lines(self, raw: Any) -> Iterator[str]:
        """Yield the decompressed and decoded lines of the file."""
        opener = next((opener for end, opener in OPENERS.items() if self.file.name.endswith(end)), io.BufferedReader)

        def lines() -> Iterator[bytes]:
            for number, self._last in enumerate(opener(raw)):
                if number % BUFFER == 0:
                    self.share = min(1.0, raw.tell() / max(1, self.file.size))
                yield self._last

        return read_lines(lines(), self.file.place, self.on_bad_line)

    def on_bad_line(self, error: LineError) -> None:
        """Raise on an unreadable line, or note it, with invalid bytes escaped."""
        self.bad(error, raw=self._last.removesuffix(b"\n").decode(errors="backslashreplace"))

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
    """
    rows = Rows(file, columns, blank)
    with open_file(file.place) as stream:
        yield rows, rows.pairs(READERS[kind_of(file.name)](stream, rows))


def read_text(stream: Any, rows: Rows) -> Iterator[Pair]:
    """Read lines `source ||| target` or `source TAB target`, or with two of several columns."""
    source, target, _ = rows.columns
    numbers = (int(source), int(target)) if source and target else None
    return read_bitext(rows.lines(stream), rows.file.place, numbers, rows.on_bad_line)


def read_json(stream: Any, rows: Rows) -> Iterator[Pair]:
    """Read lines of JSON objects; a blank line is a blank row."""
    source, target, id_name = rows.columns
    objects = without = 0
    for number, line in enumerate(rows.lines(stream), 1):
        sides, id = ["", ""], None
        if line.strip(" \t"):
            objects += 1
            try:
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise ValueError("not JSON", f"not JSON ({one_line(error)})") from None
                if not isinstance(record, dict):
                    raise ValueError("wrong fields", f"not a JSON object: {shorten(line)}")
                id = _finite(record, id_name) if id_name is not None else None
                sides = [_text(record, str(name)) for name in (source, target)]
            except ValueError as error:
                reason, message = error.args
                without += message.startswith("no field")
                rows.on_bad_line(LineError(message, reason, file=rows.file.place, line=number))
        yield Pair(split_words(sides[0]), split_words(sides[1]), number, origin=Origin(item=id))
    if without and without == objects:
        hint = "name them with ‹columns›"
        raise DataError(f"no row has both fields; in the last: {message}", file=rows.file.place, hint=hint)


def _value(record: dict[str, Any], name: str) -> Any:
    """Return the value of a field; `a.b` is the field b of an object a, and null where a is.

    The errors of this and of the next functions have two arguments: the reason in two words, and the message.
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


def _finite(record: dict[str, Any], name: str) -> Any:
    value = _value(record, name)
    try:
        to_json(value)
    except ValueError:
        message = f"{name!r} has a number that is NaN or infinite, which JSON has no form for"
        raise ValueError("wrong fields", message) from None
    return value


def _text(record: dict[str, Any], name: str) -> str:
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


EXTENSION_TYPES = (
    *(f"ray.data.arrow_{name}" for name in ("tensor", "tensor_v2", "variable_shaped_tensor", "pickled_object")),
    "arrow.py_extension_type",
)
"""Extension types that may be registered with Arrow, and whose metadata Ray or Arrow may unpickle with the schema."""


def read_parquet(stream: Any, rows: Rows) -> Iterator[Pair]:
    """Open a table, check that it has the columns, and read two of strings, and the ids, a batch of rows at a time.

    An id is an array of one: Python has no values for some of Arrow's, such as late dates.
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
            for n, row in enumerate(rows_of([part[name].combine_chunks() for name in (source, target)])):
                number += 1
                *texts, why = read_sides(row)
                if why:
                    raw = [side if side is None else side.decode(errors="backslashreplace") for side in row]
                    rows.bad(LineError(f"{source!r} or {target!r} is {why}", why, file=place, line=number), raw=raw)
                item = None if ids is None else ids.slice(n, 1)
                yield Pair(split_words(texts[0]), split_words(texts[1]), number, origin=Origin(item=item))
            rows.share = number / max(1, total)
        if number != total:
            raise DataError(f"{number:,} rows, where it says {total:,}", file=place)

    return pairs()


READERS: dict[str, Callable[[Any, Rows], Iterator[Pair]]] = {
    ".parquet": read_parquet,
    ".jsonl": read_json,
    ".tsv": read_text,
    ".txt": read_text,
}
"""Readers by the suffix of the file's name, without that of its compression."""
