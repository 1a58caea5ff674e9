"""Align one file of a job, a shard of it, and write its output and then its marker, whichever worker does it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from filelock import FileLock, Timeout

from align.core.aligner import Aligner
from align.core.errors import DataError, LineError
from align.core.formats import to_json
from align.core.types import Choice, Pair
from align.io.manifest import differences
from align.io.session import Session
from align.jobs.arrow import status_of
from align.jobs.files import (
    RUN,
    InputFile,
    exists,
    is_local,
    join,
    locate,
    read_record,
    remove,
    stat,
    whole_file,
    write_record,
)
from align.jobs.readers import Columns, Rows, kind_of, open_rows
from align.jobs.writers import WRITERS, Result

OnRows: TypeAlias = Callable[[int, float], None]
"""Callback that receives the number of finished rows of a file, and their share of it."""

TELL_EVERY = 500
"""Rows between two calls of the callback."""

PATIENCE = 5.0
"""Seconds to wait for a file that another worker has claimed: those of a killed job end a moment after it."""


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


def open_run(
    folder: str,
    settings: Mapping[str, Any],
    choose: Callable[[], Sequence[Choice]],
    sign: Callable[[Sequence[Choice]], str],
    names: Sequence[str],
) -> dict[str, Any]:
    """Return the record of the job in a folder; the first run there chooses layer and head, and writes it.

    Args:
        folder: folder of the results.
        settings: what the results depend on, by name.
        choose: chooses where each direction is read, which takes a while.
        sign: returns the signature at these choices.
        names: names of all outputs.

    Returns:
        `settings`, `choices` and `signature`.

    Raises:
        DataError: the folder has other settings, or has files of these names that are not of a job.
    """
    place = join(folder, RUN, "run.json")
    with claimed(folder, "run.json", wait=-1):
        if run := read_record(place):
            if changes := differences(run["settings"], settings):
                hint = "restore the settings, or take another folder"
                raise DataError(f"its files were made with other settings ({changes})", file=folder, hint=hint)
            return run
        if there := next((name for name in names if exists(join(folder, name))), None):
            raise DataError("exists already, and no job wrote it", file=join(folder, there), hint="take another folder")
        choices = choose()
        run = {"settings": settings, "choices": [asdict(choice) for choice in choices], "signature": sign(choices)}
        write_record(place, run)
        return run


@contextmanager
def claimed(folder: str, name: str, wait: float | None = None) -> Iterator[None]:
    """Keep other workers from a file of a job until the context ends; a remote store has no locks.

    Args:
        wait: seconds to wait for another worker; None for PATIENCE, -1 without limit.

    Raises:
        DataError: another worker has it.
    """
    if not is_local(folder):
        yield
        return
    path = locate(join(folder, RUN, f"{name}.lock"))[1]
    try:
        with FileLock(path, timeout=PATIENCE if wait is None else wait):
            try:
                yield
            finally:
                with suppress(OSError):  # a worker that waits for it will find the file done
                    os.unlink(path)
    except Timeout:
        raise DataError("another run is doing it", file=join(folder, name)) from None


def align_file(job: Job, file: InputFile, on_rows: OnRows | None = None) -> tuple[dict[str, Any], bool]:
    """Align a file, unless it is finished: its output appears, all at once, and then its marker in `_run`.

    Args:
        job: what to do with the file.
        file: file to align.
        on_rows: callback for the progress.

    Returns:
        The marker, which has the numbers of `rows`, and of rows without links by reason (`counts`); and whether the
        file was finished before.

    Raises:
        DataError: the file or a row of it cannot be read, or has changed since it was finished, or in the meantime.
        OSError: the output cannot be written.
    """
    output, marker_place = join(job.output, file.name), join(job.output, RUN, f"{file.name}.json")
    rejects_place = join(job.output, RUN, f"{file.name}.bad.jsonl")
    with claimed(job.output, file.name):
        file = stat(file.place)
        marker = read_record(marker_place)
        if marker and "rows" in marker and exists(output):
            if marker["input"] != [*file]:
                hint = f"remove {output} to have it done again"
                raise DataError(f"has changed since {output} was made", file=file.place, hint=hint)
            return marker, True
        if not marker and exists(output):
            raise DataError("exists already, and this job did not write it", file=output, hint="move or remove it")
        # A marker without rows says that an output which is there, after a kill, is of this job.
        write_record(marker_place, {"input": [*file]})
        counts: Counter[str] = Counter()
        with ExitStack() as stack:
            stack.callback(lambda: None if exists(output) else remove(marker_place))
            rows, pairs = stack.enter_context(open_rows(file, job.columns, job.blank))
            out = stack.enter_context(whole_file(output))
            rejects = stack.enter_context(whole_file(rejects_place))

            def reject(error: LineError, raw: Any) -> None:
                record = {"row": error.line, "reason": error.reason, "what": error.what, "raw": raw}
                rejects.write(to_json(record).encode() + b"\n")

            rows.bad.on_blank = reject
            about = {"signature": job.signature, "input": file.place, "input-size": str(file.size)}
            results = _results(job, rows, pairs, counts, on_rows)
            WRITERS[kind_of(file.name)](results, out, job.links, rows.id_field, about)
            if stat(file.place) != file:
                raise DataError("changed while it was read; it is not done", file=file.place)
        if not rows.bad.count:
            remove(rejects_place)
        statuses = {status: number for status, number in sorted(counts.items()) if status}
        marker = {"input": [*file], "rows": rows.read, "counts": statuses}
        write_record(marker_place, marker)
        return marker, False


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
