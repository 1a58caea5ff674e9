"""Align one file of a job, a shard of it, and write its output and then its marker, whichever worker does it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, TypeAlias

from align.core.aligner import Aligner
from align.core.consistency import CHOOSING_PAIRS
from align.core.errors import DataError, LineError
from align.core.formats import to_json
from align.core.stream import BUFFER, chunks
from align.core.types import Choice, Pair, TextWarning
from align.io.manifest import differences
from align.io.output import locked
from align.io.session import Session
from align.io.signature import sign
from align.jobs.arrow import LinksAs, status_of
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
from align.jobs.formats import FORMATS, Columns, Result, kind_of, open_rows

OnRows: TypeAlias = Callable[[int, float], None]
"""Callback that receives the number of finished rows of a file, and their share of it."""

TELL_EVERY = 500  # rows between two calls of the callback

PATIENCE = 5.0
"""Seconds to wait for a file that another worker has claimed: those of a killed job end a moment after it."""


@dataclass(frozen=True)
class Job:
    """What to do with each file."""

    aligner: Aligner  # reads all files at one place, and skips rows that are too long
    signature: str  # of the aligner
    output: str  # the folder of the results, a path or a URI
    columns: Columns  # of source, target and id
    links: LinksAs = "structs"  # "structs" or "pharaoh", for files that may hold either
    blank: bool = False  # whether an unreadable row is listed and left without links; else it stops its file

    @property
    def on_cpu(self) -> bool:
        """Return whether no model is on a GPU."""
        return all(direction.recorder.device == "cpu" for direction in self.aligner.directions)


def open_run(
    folder: str, settings: Mapping[str, Any], aligner: Aligner, files: Sequence[InputFile], columns: Columns
) -> dict[str, Any]:
    """Return the record of the job in a folder; the first run there chooses layer and head, and writes it.

    Args:
        settings: what the results depend on, by name; other ones are refused.
        files: all files of the job; outputs of theirs that exist and are not of a job are refused.

    Returns:
        `settings`, `choices` and `signature`.
    """
    place = join(folder, RUN, "run.json")
    with claimed(folder, "run.json", wait=-1):
        if run := read_record(place):
            if changes := differences(run["settings"], settings):
                hint = "restore the settings, or use another folder"
                raise DataError(f"its files were made with other settings ({changes})", file=folder, hint=hint)
            return run
        for output in (join(folder, file.name) for file in files):
            if exists(output):
                raise DataError("exists already, and no job wrote it", file=output, hint="use another folder")
        choices = choose(aligner, sample(files, columns))
        signature = sign(aligner, choices)
        run = {"settings": settings, "choices": [asdict(choice) for choice in choices], "signature": signature}
        write_record(place, run)
        return run


def claimed(folder: str, name: str, wait: float | None = None) -> AbstractContextManager[None]:
    """Keep other workers from a file of a job until the context ends; a remote store has no locks.

    Args:
        wait: seconds to wait for another worker; None for PATIENCE, -1 without limit.
    """
    if not is_local(folder):
        return nullcontext()
    lock = locate(join(folder, RUN, f"{name}.lock"))[1]
    return locked(lock, join(folder, name), PATIENCE if wait is None else wait)


def align_file(job: Job, file: InputFile, on_rows: OnRows | None = None) -> tuple[dict[str, Any], bool]:
    """Align a file, unless it is finished: its output appears, all at once, and then its marker in `_run`.

    Returns:
        The marker, which has the numbers of `rows`, and of rows without links by reason (`counts`); and whether the
        file was finished before.
    """
    output, marker_place = join(job.output, file.name), join(job.output, RUN, f"{file.name}.json")
    rejects_place = join(job.output, RUN, f"{file.name}.bad.jsonl")
    with claimed(job.output, file.name):
        file = stat(file.place)
        marker = read_record(marker_place)
        if marker and "rows" in marker and exists(output):
            place, *state = marker["input"]
            if locate(place) != locate(file.place) or state != [*file[1:]]:
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
            aligned = stack.enter_context(closing(Session(job.aligner).results(pairs, lambda pair: [pair])))

            def reject(error: LineError, raw: Any) -> None:
                record = {"row": error.line, "reason": error.reason, "what": error.what, "raw": raw}
                rejects.write(to_json(record).encode() + b"\n")

            def results() -> Iterator[Result]:
                for pair, (alignment,) in aligned:
                    counts[status_of(alignment)] += 1
                    yield alignment, pair.origin.item if job.columns.id else pair.id
                    if on_rows and pair.id % TELL_EVERY == 0:
                        on_rows(pair.id, rows.share)

            rows.bad.on_blank = reject
            about = {"signature": job.signature, "input": file.place, "input-size": str(file.size)}
            FORMATS[kind_of(file.name)][1](results(), out, job.links, rows.id_field, about)
            if stat(file.place) != file:
                raise DataError("changed while it was read; it is not done", file=file.place)
        if not rows.bad.count:
            remove(rejects_place)
        statuses = {status: number for status, number in sorted(counts.items()) if status}
        marker = {"input": [*file], "rows": rows.read, "counts": statuses}
        write_record(marker_place, marker)
        return marker, False


SAMPLED_FILES = 50  # maximum number of files to sample from

SAMPLED_BYTES = 1_000_000
"""Maximum number of bytes of a sampled row: reading its pieces takes many times as much memory."""


def sample(files: Sequence[InputFile], columns: Columns) -> Iterator[Pair]:
    """Yield the first rows of files from all over a job: 1,000 rows or fewer, of 50 files or fewer.

    The files are taken at equal distances, in the order of their places, and give the same number of rows each. Blank
    rows, very long ones, unreadable ones, and all after an unreadable part of a file are skipped.
    """
    count = min(SAMPLED_FILES, len(files))
    for n in range(count):
        file = files[n * len(files) // count]
        # what cannot be read is reported when the file is aligned
        with suppress(DataError), open_rows(file, columns._replace(id=None), True) as (_, pairs):
            usable = (pair for pair in pairs if not (pair.origin.error or pair.blank or pair.memory() >= SAMPLED_BYTES))
            yield from islice(usable, -(-CHOOSING_PAIRS // count))


def choose(aligner: Aligner, pairs: Iterator[Pair]) -> tuple[Choice, ...]:
    """Choose where the text of these pairs is read, in each direction; warn if it does not look like the model's."""
    first = next(chunks(pairs, BUFFER, lambda pair: pair.memory()), [])
    choices, doubts = aligner.choose([aligner.encode(pair) for pair in first])
    if not choices:
        return aligner.fixed().choices
    foreign = aligner.check.add(first) if aligner.check else ""
    for doubt in (*doubts, *filter(None, [foreign])):
        warnings.warn(doubt, TextWarning, stacklevel=2)
    return choices
