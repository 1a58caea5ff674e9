"""Write results in the format of the input file: Pharaoh lines, JSON lines, or Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from align.core.formats import format_pharaoh, to_json
from align.core.stream import chunks
from align.core.types import Alignment
from align.jobs.arrow import batch_of, schema_of, status_of

GROUP = 10_000
"""Rows per row group of Parquet."""

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


WRITERS: dict[str, Write] = {
    ".parquet": write_parquet,
    ".jsonl": write_json,
    ".tsv": write_text,
    ".txt": write_text,
}
"""Writers by the suffix of the file's name, without that of its compression."""
