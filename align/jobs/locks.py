"""Lock folders of results against other jobs, but not against parts of the same job."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from align.core.errors import DataError
from align.io.output import cannot_write, lock
from align.jobs.files import RUN, is_local, join, locate

PATIENCE = 5.0
"""Seconds to wait for a lock: the workers of a killed job end a moment after it."""

Part = tuple[int, int]
"""Number of a part, from 1, and the number of parts."""

_PARTS = re.compile(r"parts-of-([0-9]+)\.lock")


@contextmanager
def running(folder: str, part: Part | None) -> Iterator[None]:
    """Keep other jobs out of a folder of results until the context ends, but not other parts of the same job.

    A remote store has no locks: there the context does nothing.

    Args:
        folder: folder with its `_run`.
        part: the part that this job does; None for all of it.

    Raises:
        DataError: another job is running there, or the same part, or parts of another number.
    """
    if not is_local(folder):
        yield
        return
    own = join(locate(folder)[1], RUN)
    held: list[int] = []
    try:
        if part is None:
            held.append(_hold(f"{own}/lock", False, folder, "another job is running there"))
        else:
            number, count = part
            held.append(_hold(f"{own}/lock", True, folder, "a job that does all files is running there"))
            held.append(_hold(f"{own}/parts-of-{count}.lock", True, folder, "another job is running there"))
            held.append(
                _hold(f"{own}/part-{number}-of-{count}.lock", False, folder, f"part {number}/{count} is running")
            )
            for name in os.listdir(own):
                if (match := _PARTS.fullmatch(name)) and int(match[1]) != count:
                    os.close(_hold(f"{own}/{name}", False, folder, f"parts of {match[1]} are running there"))
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)


@contextmanager
def one_at_a_time(folder: str) -> Iterator[None]:
    """Wait until no other process is in this context for the folder."""
    if not is_local(folder):
        yield
        return
    descriptor = _open(os.path.join(locate(folder)[1], RUN, "run.lock"), folder)
    try:
        lock(descriptor, wait=None)
        yield
    finally:
        os.close(descriptor)


def _hold(path: str, shared: bool, folder: str, why: str) -> int:
    """Lock a file for as long as it is open here and in the processes that inherit it."""
    descriptor = _open(path, folder)
    if not lock(descriptor, shared=shared, wait=PATIENCE):
        os.close(descriptor)
        raise DataError(f"{why}; wait for it to end, or take another folder", file=folder)
    return descriptor


def _open(path: str, folder: str) -> int:
    with cannot_write(folder):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
