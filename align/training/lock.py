"""One run at a time in a folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder until this one has ended, and fairseq, which inherits the lock, as well.

    Raises:
        ValueError: another run is at work there; says which.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a+", encoding="ascii", errors="replace") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read(20).strip()
            known = f" (process {holder}, or what it has started)" if holder.isdecimal() else ""
            raise ValueError(f"{folder}: another run is still at work there{known}") from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        os.set_inheritable(lock.fileno(), True)
        yield
