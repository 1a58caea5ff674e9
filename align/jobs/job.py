"""Align one file of a job, and write its output and its record, independently of the worker and of earlier attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

from align.core.aligner import Aligner
from align.core.errors import DataError, LineError
from align.core.formats import to_json
from align.core.types import Pair
from align.io.manifest import Record
from align.io.session import Session
from align.jobs.arrow import status_of
from align.jobs.files import InputFile, digest_of, is_taken, join, remove, stat, whole_file
from align.jobs.readers import Columns, Rows, kind_of, open_rows, table_head
from align.jobs.records import bad_rows_name, check_record, read_record, write_record
from align.jobs.writers import WRITERS, Head, Result

OnRows: TypeAlias = Callable[[int, float], None]
"""Callback that receives the number of finished rows of a file, and their share of it."""

TELL_EVERY = 500
"""Rows between two calls of the callback."""


@dataclass(frozen=True)
class Job:
    """What to do with each file.

    Attributes:
        aligner: reads all files at one place, and skips rows that are too long.
        signature: signature of the aligner.
        output: the folder of the results, a path or a URI.
        columns: columns of source, target and id.
        links: "structs" or "pharaoh", for files that may hold either.
        blank: whether an unreadable row is listed and left without links; else it stops its file.
    """

    aligner: Aligner
    signature: str
    output: str
    columns: Columns
    links: str = "structs"
    blank: bool = False


def finished(job: Job, file: InputFile, digests: bool = True) -> Record | None:
    """Return the record of a finished file; None if it is not finished.

    Args:
        job: what to do with the file.
        file: file to look up.
        digests: whether to read the output; else its size has to do.

    Raises:
        DataError: the file is finished, but the input or the output has changed since.
    """
    if not is_taken(join(job.output, file.name)):
        return None
    record = read_record(job.output, file.name)
    if record:
        check_record(job.output, stat(file.place), record, job.signature, digests)
    return record


def align_file(job: Job, file: InputFile, on_rows: OnRows | None = None) -> Record:
    """Align a file that is not finished; its record is written, and then its output appears, all at once.

    So an output without a record is never of a job.

    Args:
        job: what to do with the file.
        file: file to align.
        on_rows: callback for the progress.

    Raises:
        DataError: the file or a row of it cannot be read, or has changed in the meantime, or its output is there.
        OSError: the output cannot be written.
    """
    file = stat(file.place)
    output = join(job.output, file.name)
    check_free(output)
    digest = digest_of(file.place)
    head = _head(job, file, digest)
    counts: Counter[str] = Counter()
    records: list[Record] = []

    def finish(part: str) -> None:
        """Write the record of the output, which has a temporary name still."""
        record = Record(
            run={"signature": job.signature},
            inputs=[[*file]],
            digest=digest,
            rows=rows.read,
            counts={status: number for status, number in sorted(counts.items()) if status},
            outputs=[[file.name, stat(part).size, digest_of(part)]],
        )
        write_record(job.output, file.name, record)
        records.append(record)

    with ExitStack() as stack:
        rows, pairs = stack.enter_context(open_rows(file, job.columns, job.blank))
        out = stack.enter_context(whole_file(job.output, file.name, finish))
        rows.bad.on_blank = stack.enter_context(_Rejects(job.output, file.name)).add
        WRITERS[kind_of(file.name)](_results(job, rows, pairs, counts, on_rows), out, head)
        if counts.total() != rows.read:
            raise DataError(f"{rows.read:,} rows were read, and {counts.total():,} came out", file=file.place)
        if stat(file.place) != file:
            raise DataError("changed while it was read; it is not done", file=file.place)
    return records[0]


def check_free(output: str) -> None:
    """Check that nothing has the name of an output that is not finished.

    Raises:
        DataError: something has.
    """
    if is_taken(output):
        raise DataError("exists already, and this job did not write it", file=output, hint="move or remove it")


def _head(job: Job, file: InputFile, digest: str) -> Head:
    """Return the description of the output, for formats that store one."""
    metadata = {"signature": job.signature, "input": file.place, "input-size": str(file.size), "input-digest": digest}
    if kind_of(file.name) != ".parquet":
        return Head(job.links, None, metadata)
    field, rows = table_head(file, job.columns)
    return Head(job.links, field, {**metadata, "rows": str(rows)})


class _Rejects(ExitStack):
    """The list of unreadable rows, in `_run`; it is not written if there are none.

    Args:
        folder: folder of the results.
        name: name of the file.
    """

    def __init__(self, folder: str, name: str) -> None:
        super().__init__()
        self._folder, self._name = folder, bad_rows_name(name)
        self._out: BinaryIO | None = None
        remove(join(folder, self._name))  # from an earlier attempt

    def add(self, error: LineError, raw: Any) -> None:
        """Add a row to the list."""
        if self._out is None:
            self._out = self.enter_context(whole_file(self._folder, self._name))
        record = {"row": error.line, "reason": error.reason, "what": error.what, "raw": raw}
        self._out.write(to_json(record).encode() + b"\n")


def _results(
    job: Job, rows: Rows, pairs: Iterator[Pair], counts: Counter[str], on_rows: OnRows | None
) -> Iterator[Result]:
    """Yield the result of each row, and count them by status."""
    with closing(Session(job.aligner).results(pairs, lambda pair: [pair])) as aligned:
        for pair, (alignment,) in aligned:
            status = status_of(alignment)
            counts[status] += 1
            yield Result(alignment, status, pair.origin.item if rows.columns.id else pair.id)
            if on_rows and pair.id % TELL_EVERY == 0:
                on_rows(pair.id, rows.share)
