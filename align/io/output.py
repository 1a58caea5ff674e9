"""Files of results: written under another name beside their own, which they get only when they are complete."""

from __future__ import annotations

import io
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from align.io.files import NamedFile, beside, existing_mode, link_target, open_locked, whole
from align.io.process import unfinished


@contextmanager
def open_output(path: str | None) -> Iterator[BinaryIO]:
    """Open stdout, or a file (packed if named .gz or .xz) that appears only when it is complete.

    What a killed run leaves beside the file is overwritten by the next one.

    Raises:
        OSError: it cannot be written, or the disk is full; names the file.
    """
    if path is None or path == "-":
        if sys.stdout is None:
            raise ValueError("stdout is closed")
        sys.stdout.flush()
        try:
            descriptor = sys.stdout.fileno()
        except io.UnsupportedOperation:  # no file of the system's, as in a notebook
            yield sys.stdout.buffer
            return
        with io.BufferedWriter(NamedFile(descriptor, "stdout", closefd=False)) as out:
            yield out
        return
    mode = existing_mode(path)
    if mode is not None and not stat.S_ISREG(mode):  # a device or a pipe
        with io.BufferedWriter(NamedFile(path, path)) as out:
            yield out
        return
    target = link_target(path)
    part = beside(target, ".", ".part")
    file = NamedFile(open_locked(part, path), path)
    unfinished.add(part)
    try:
        with whole(file, part, target, mode) as out:
            yield out
    finally:
        unfinished.discard(part)
