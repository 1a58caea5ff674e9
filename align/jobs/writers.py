"""Results of a file's rows as a file of the same kind: Pharaoh lines, lines of JSON, or Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from align.core.batching import chunks
from align.core.formats import format_pharaoh, to_json
from align.core.types import Alignment
from align.jobs.arrow import batch_of, schema_of

GROUP = 10_000
"""Rows of a row group."""


class Result(NamedTuple):
    """What comes of a row.

    Attributes:
        alignment: its links.
        status: why there are none: "blank", "too long", or why the row could not be read; "" where it was aligned.
        id: what tells it from others: its number, from 1, or what its file says; of Parquet an Arrow array of one.
    """

    alignment: Alignment
    status: str
    id: Any


class Head(NamedTuple):
    """What a file of results says of itself.

    Attributes:
        links: "structs" or "pharaoh".
        id: the field of what tells rows from others, where the file has one; Arrow's.
        about: more, by name.
    """

    links: str
    id: Any
    about: Mapping[str, str]


def write_text(results: Iterable[Result], out: BinaryIO, head: Head) -> None:
    """A Pharaoh line for each."""
    for result in results:
        out.write(format_pharaoh(result.alignment).encode() + b"\n")


def write_json(results: Iterable[Result], out: BinaryIO, head: Head) -> None:
    """An object for each: `id`, `links`, `scores` and `status`, in the form of `Alignment.to_dict`.

    Words are not among them: they are in the input, which may be very large.
    """
    for alignment, status, id in results:
        record: dict[str, Any] = {"id": id}
        if head.links == "pharaoh":
            record["links"] = format_pharaoh(alignment)
        else:
            told = alignment.to_dict()
            record |= {"links": told["links"], "scores": told["scores"]}
        out.write(to_json({**record, "status": status}).encode() + b"\n")


def write_parquet(results: Iterable[Result], out: BinaryIO, head: Head) -> None:
    """A row for each: the id, if the file has one, `links` and `status`."""
    found = schema_of(head.links)
    ids = [] if head.id is None else [head.id]
    schema = pa.schema([*ids, *found], metadata=dict(head.about))
    with pq.ParquetWriter(out, schema) as writer:
        for group in chunks(results, GROUP, lambda result: result.alignment.pair.memory()):
            batch = batch_of([result.alignment for result in group], [result.status for result in group], found)
            columns = [pa.concat_arrays([result.id for result in group]) for _ in ids]
            writer.write_batch(pa.RecordBatch.from_arrays([*columns, *batch.columns], schema=schema))


WRITERS: dict[str, Callable[[Iterable[Result], BinaryIO, Head], None]] = {
    ".parquet": write_parquet,
    ".jsonl": write_json,
    ".tsv": write_text,
    ".txt": write_text,
}
"""By what names end in, where they are not packed."""
