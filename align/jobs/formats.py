"""Read rows of a file as sentence pairs, and write their links in its format: lines, JSON lines, or Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from align.core.errors import DataError, LineError, one_line, shorten
from align.core.formats import format_pharaoh, to_json
from align.core.stream import BUFFER, chunks
from align.core.text import split_words
from align.core.types import Alignment, Origin, Pair
from align.io.compression import OPENERS, suffix_of
from align.io.reader import BadLines, read_bitext, read_lines
from align.jobs.arrow import batch_of, check_columns, read_sides, rows_of, schema_of, status_of
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
        self.file, self.columns, self.bad = file, columns, BadLines(blank, drop=False)
        self.read, self.share, self._last = 0, 0.0, b""
        self.id_field: Any = None

    def lines(self, raw: Any) -> Iterator[str]:
        """Yield the decompressed and decoded lines of the file."""
        unpacked = OPENERS.get(suffix_of(self.file.name), io.BufferedReader)(raw)

        def lines() -> Iterator[bytes]:
            for number, self._last in enumerate(unpacked):
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
    """Return the type of a file by its name: a key of `FORMATS`, or ""."""
    plain = name.removesuffix(suffix_of(name))
    kind = next((kind for kind in FORMATS if plain.endswith(kind)), "")
    return "" if kind == ".parquet" and plain != name else kind


@contextmanager
def open_rows(file: InputFile, columns: Columns, blank: bool) -> Iterator[tuple[Rows, Iterator[Pair]]]:
    """Open the rows of a file, and an iterator over their pairs, which reads them one by one.

    Args:
        file: of a type in `FORMATS`.
        columns: columns of source, target and id.
        blank: whether an unreadable row becomes a blank one.
    """
    rows = Rows(file, columns, blank)
    with open_file(file.place) as stream:
        yield rows, rows.pairs(FORMATS[kind_of(file.name)][0](stream, rows))


def read_text(stream: Any, rows: Rows) -> Iterator[Pair]:
    """Read lines `source ||| target` or `source TAB target`, or with two of several columns."""
    source, target, _ = rows.columns
    numbers = (int(source), int(target)) if source and target else None
    return read_bitext(rows.lines(stream), rows.file.place, numbers, rows.on_bad_line)


def read_json(stream: Any, rows: Rows) -> Iterator[Pair]:
    """Read lines of JSON objects; a blank line is a blank row."""
    *names, id_name = rows.columns
    objects = incomplete = 0
    for number, line in enumerate(rows.lines(stream), 1):
        source, target, id = "", "", None
        if line.strip(" \t"):
            objects += 1
            try:
                record = _object(line)
                id = None if id_name is None else _id(record, id_name)
                source, target = (_text(record, str(name)) for name in names)
            except LineError as error:
                last = error.in_file(rows.file.place, number)
                incomplete += isinstance(error, NoFieldError)
                rows.on_bad_line(last)
        yield Pair(split_words(source), split_words(target), number, origin=Origin(item=id))
    if incomplete and incomplete == objects:
        message = f"no row has all of these fields; in the last: {last.what}"
        raise DataError(message, file=rows.file.place, hint="name them with ‹columns›")


class NoFieldError(LineError):
    """An object does not have a field."""


def _object(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineError(f"not JSON ({one_line(error)})", "not JSON") from None
    if not isinstance(record, dict):
        raise LineError(f"not a JSON object: {shorten(line)}")
    return record


def _value(record: dict[str, Any], name: str) -> Any:
    """Return the value of a field; `a.b` is the field b of an object a, and null where a is."""
    value: Any = record
    for key in [name] if name in record else name.split("."):
        if value is None:
            return None
        if not isinstance(value, dict) or key not in value:
            there = shorten(", ".join(map(repr, islice(record, 80)))) or "none"
            raise NoFieldError(f"no field {name!r}: the object has {there}")
        value = value[key]
    return value


def _id(record: dict[str, Any], name: str) -> Any:
    value = _value(record, name)
    try:
        to_json(value)
    except ValueError:
        raise LineError(f"{name!r} has a number that is NaN or infinite, which JSON has no form for") from None
    return value


def _text(record: dict[str, Any], name: str) -> str:
    value = _value(record, name)
    if value is None:
        raise LineError(f"{name!r} is null", "null")
    if not isinstance(value, str):
        raise LineError(f"{name!r} is of type {type(value).__name__}, not a string", "not text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise LineError(f"{name!r} has half a surrogate pair", "not UTF-8") from None
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


GROUP = 10_000  # rows per row group of Parquet

Result: TypeAlias = tuple[Alignment, Any]
"""The alignment of a row, and its id: its number, from 1, or the value of its id column, in Parquet an array of one."""

Write: TypeAlias = Callable[[Iterable[Result], BinaryIO, str, Any, Mapping[str, str]], None]
"""Writes results to a file, given the form of links, the Arrow field of the ids if there is one, and metadata."""


def write_text(results: Iterable[Result], out: BinaryIO, *_: Any) -> None:
    """Write a Pharaoh line for each result."""
    for alignment, _id in results:
        out.write(format_pharaoh(alignment).encode() + b"\n")


def write_json(results: Iterable[Result], out: BinaryIO, links: str, *_: Any) -> None:
    """Write an object for each result: `id`, `links`, `scores`, `agreement` and `status`, as `Alignment.to_dict` does.

    Words are omitted: they are in the input, which may be very large.
    """
    for alignment, id in results:
        record: dict[str, Any] = {"id": id}
        if links == "pharaoh":
            record["links"] = format_pharaoh(alignment)
        else:
            content = alignment.to_dict()
            record |= {name: content[name] for name in ("links", "scores", "agreement") if name in content}
        out.write(to_json({**record, "status": status_of(alignment)}).encode() + b"\n")


def write_parquet(
    results: Iterable[Result], out: BinaryIO, links: str, id_field: Any, about: Mapping[str, str]
) -> None:
    """Write a row for each result: the id, if the file has one, `links`, `agreement` and `status`."""
    result_schema = schema_of(links)
    ids = [] if id_field is None else [id_field]
    schema = pa.schema([*ids, *result_schema], metadata=dict(about))
    with pq.ParquetWriter(out, schema) as writer:
        for group in chunks(results, GROUP, lambda result: result[0].pair.memory()):
            batch = batch_of([alignment for alignment, _ in group], result_schema)
            columns = [pa.concat_arrays([id for _, id in group]) for _ in ids]
            writer.write_batch(pa.RecordBatch.from_arrays([*columns, *batch.columns], schema=schema))


Read: TypeAlias = Callable[[Any, Rows], Iterator[Pair]]  # reads the rows of an open file as pairs

FORMATS: dict[str, tuple[Read, Write]] = {
    ".parquet": (read_parquet, write_parquet),
    ".jsonl": (read_json, write_json),
    ".tsv": (read_text, write_text),
    ".txt": (read_text, write_text),
}
"""Readers and writers by the suffix of the file's name, without that of its compression."""
