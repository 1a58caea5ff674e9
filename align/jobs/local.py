"""Align the files of a job in worker processes on this machine, one whole file at a time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, TypeAlias

from align.core.types import TextWarning
from align.io.pool import Workers
from align.io.process import keep_freed_memory
from align.jobs.files import InputFile, is_local
from align.jobs.job import Job, align_file

ATTEMPTS = 3  # attempts per file after worker crashes

Outcome: TypeAlias = tuple[dict[str, Any], bool] | Exception
"""What `align_file` returns for a file, or why it could not be finished."""


def run_local(
    job: Job, files: Sequence[InputFile], workers: int, on_rows: Callable[[InputFile, int, float], None]
) -> Generator[tuple[InputFile, Outcome], None, None]:
    """Align files in worker processes, the largest first; if a worker dies, another one repeats its file.

    Args:
        on_rows: callback that receives a file, the number of its finished rows, and their share of it.
    """
    # The state of a GPU cannot be forked, nor the threads of a client of a remote store.
    places = job.output, *(file.place for file in files)
    method = None if job.on_cpu and all(map(is_local, places)) else "spawn"
    tasks = {"align": partial(align_in_worker, job)}
    with Workers(workers, tasks, lambda rows: on_rows(*rows), at_once=1, attempts=ATTEMPTS, method=method) as pool:
        pool.share(least=1)
        waiting = {pool.submit("align", file): file for file in largest_first(files)}
        while waiting:
            for task in pool.hear():
                yield waiting.pop(task), task.error or (task.outcomes[0], task.outcomes[1])


def align_in_worker(
    job: Job, file: InputFile, on_rows: Callable[[tuple[InputFile, int, float]], None] | None = None
) -> list[Any]:
    """Align a file in a worker; return its marker and whether it was finished before."""
    keep_freed_memory()  # a spawned process does not inherit that
    warnings.simplefilter("ignore", TextWarning)  # the parent has shown the warnings of the text as a whole
    return [*align_file(job, file, on_rows and (lambda rows, share: on_rows((file, rows, share))))]


def largest_first(files: Sequence[InputFile]) -> list[InputFile]:
    """Return files in the order in which workers do them."""
    return sorted(files, key=lambda file: (-file.size, file.place))


def share_of(files: Sequence[InputFile], number: int, count: int) -> list[InputFile]:
    """Return one of `count` parts of a job's files, about equal to the others in bytes; `number` is from 1."""
    return largest_first(files)[number - 1 :: count]
