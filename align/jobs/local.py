"""Align the files of a job in worker processes on this machine, one whole file at a time."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from align.core.types import TextWarning
from align.io.pool import Workers
from align.io.process import keep_freed_memory
from align.jobs.files import InputFile, is_local
from align.jobs.job import Job, align_file

ATTEMPTS = 3
"""Attempts per file after worker crashes."""


class Progress(NamedTuple):
    """Progress of a file: finished rows, and their share of the file."""

    file: InputFile
    rows: int
    share: float


class Done(NamedTuple):
    """A finished file, its marker, and whether it was finished before."""

    file: InputFile
    marker: dict[str, Any]
    before: bool


class Failed(NamedTuple):
    """A file that could not be finished, and why."""

    file: InputFile
    error: Exception


Event: TypeAlias = Progress | Done | Failed


def run_local(job: Job, files: Sequence[InputFile], workers: int) -> Generator[Event, None, None]:
    """Align files in worker processes, the largest first; if a worker dies, another one repeats its file."""
    progress: deque[Event] = deque()
    tasks = {"align": partial(align_in_worker, job)}
    on_cpu = all(direction.recorder.device == "cpu" for direction in job.aligner.directions)
    # The state of a GPU cannot be forked, nor the threads of a client of a remote store.
    method = None if on_cpu and all(map(is_local, (job.output, *(file.place for file in files)))) else "spawn"
    with Workers(workers, tasks, progress.append, at_once=1, attempts=ATTEMPTS, method=method) as pool:
        pool.share(least=1)
        waiting = {pool.submit("align", file): file for file in largest_first(files)}
        while waiting:
            done = pool.hear()
            while progress:
                yield progress.popleft()
            for task in done:
                file = waiting.pop(task)
                yield Failed(file, task.error) if task.error else Done(file, *task.outcomes)


def align_in_worker(job: Job, file: InputFile, on_progress: Callable[[Progress], None] | None = None) -> list[Any]:
    """Align a file in a worker; return its marker and whether it was finished before."""
    keep_freed_memory()  # a spawned process does not inherit that
    warnings.simplefilter("ignore", TextWarning)  # the parent has shown the warnings of the text as a whole

    def report(rows: int, share: float) -> None:
        if on_progress:
            on_progress(Progress(file, rows, share))

    return [*align_file(job, file, report)]


def largest_first(files: Sequence[InputFile]) -> list[InputFile]:
    """Return files in the order in which workers do them."""
    return sorted(files, key=lambda file: (-file.size, file.place))


def share_of(files: Sequence[InputFile], number: int, count: int) -> list[InputFile]:
    """Return one of `count` parts of a job's files, about equal to the others in bytes; `number` is from 1."""
    return largest_first(files)[number - 1 :: count]
