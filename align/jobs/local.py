"""Align the files of a job in worker processes on this machine, one whole file at a time."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from align.core.aligner import Aligner
from align.core.types import TextWarning
from align.io.manifest import Record
from align.io.pool import Workers
from align.io.process import keep_freed_memory
from align.jobs.files import InputFile, can_be_forked
from align.jobs.job import Job, align_file, finished

ATTEMPTS = 3
"""Attempts per file after worker crashes."""


class Going(NamedTuple):
    """Progress of a file: finished rows, and their share of the file."""

    file: InputFile
    rows: int
    share: float


class Done(NamedTuple):
    """A finished file: finished now, or before by an earlier job or by a worker that died before it could report."""

    file: InputFile
    record: Record
    before: bool


class Failed(NamedTuple):
    """A file that could not be finished, and why."""

    file: InputFile
    error: Exception


Event: TypeAlias = Going | Done | Failed


def run_local(job: Job, files: Sequence[InputFile], workers: int) -> Generator[Event, None, None]:
    """Align files in worker processes, the largest first; if a worker dies, another one repeats its file.

    Args:
        job: what to do with each file.
        files: files to align.
        workers: number of processes.

    Yields:
        The progress of each file, and in the end that it is done, or why not.
    """
    progress: deque[Event] = deque()
    tasks = {"align": partial(_align, job)}
    method = start_method(job.aligner)
    with Workers(workers, tasks, progress.append, at_once=1, attempts=ATTEMPTS, method=method) as pool:
        pool.share(least=1)
        waiting = {pool.submit("align", file): file for file in _largest_first(files)}
        while waiting:
            done = pool.hear_done()
            while progress:
                yield progress.popleft()
            for task in done:
                file = waiting.pop(task)
                yield Failed(file, task.error) if task.error else Done(file, *task.outcomes)


def start_method(aligner: Aligner) -> str | None:
    """Return how the workers of a job are started, None being the default: the state of a GPU cannot be forked."""
    on_cpu = all(direction.recorder.device == "cpu" for direction in aligner.directions)
    return None if on_cpu and can_be_forked() else "spawn"


def _align(job: Job, file: InputFile, on_progress: Callable[[Going], None]) -> list[Any]:
    """Align a file in a worker; return its record, and whether it was finished before."""
    keep_freed_memory()  # a spawned process does not inherit that
    warnings.simplefilter("ignore", TextWarning)  # the parent has shown the warnings of the text as a whole
    if record := finished(job, file):
        return [record, True]

    def report(rows: int, share: float) -> None:
        on_progress(Going(file, rows, share))

    return [align_file(job, file, report), False]


def _largest_first(files: Sequence[InputFile]) -> list[InputFile]:
    return sorted(files, key=lambda file: (-file.size, file.place))


def share_of(files: Sequence[InputFile], number: int, count: int) -> list[InputFile]:
    """Return one part of a job's files, about equal to the others in bytes, dealt out in turn, the largest first.

    Args:
        files: files of the job.
        number: number of the part, from 1.
        count: number of parts.
    """
    return _largest_first(files)[number - 1 :: count]
