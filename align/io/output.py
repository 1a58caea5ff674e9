"""Files of results: written under another name beside their own, which they get only when they are complete."""

from __future__ import annotations

import io
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from align.io.files import NamedFile, beside, existing_mode, link_target, open_locked, refuse_locked, whole
from align.io.process import unfinished


def plain_part(target: str) -> str:
    """What a run writes to until its result is complete."""
    return beside(target, ".", ".part")


def resumed_part(target: str) -> str:
    """The same for a run with --resume."""
    return beside(target, "", ".part")


@contextmanager
def open_output(path: str | None) -> Iterator[BinaryIO]:
    """Where results go: stdout, or a file (packed if named .gz or .xz) that appears only when it is complete.

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
    with open_whole(path, mode) as out:
        yield out


@contextmanager
def open_whole(path: str, mode: int | None, resumes: bool = False) -> Iterator[BinaryIO]:
    """A file that appears only when it is complete; see `open_output`.

    Args:
        path: its name.
        mode: see `existing_mode`.
        resumes: whether this is the run that holds the lock of one with --resume; nobody else may, if not.
    """
    target = link_target(path)
    part = plain_part(target)
    file = NamedFile(open_locked(part, path), path)
    unfinished.add(part)
    try:
        with whole(file, part, target, mode) as out:
            if not resumes:
                refuse_locked(resumed_part(target), path)
            yield out
    finally:
        unfinished.discard(part)
