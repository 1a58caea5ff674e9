"""Write files atomically, under a temporary name until they are complete, and keep other runs from them."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from align.core.errors import DataError
from align.io.compression import PACKERS, suffix_of
from align.io.process import unfinished

OPENING = os.O_RDWR | os.O_CREAT | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
"""How an unfinished file is opened; the last is one of Windows, which lacks the others."""

NOT_OURS = "exists, and this program did not create it: remove it"


class NamedFile(io.FileIO):
    """An open file or device to write to, whose errors carry the name that the user gave.

    Args:
        file: a descriptor, or a path.
        shown: name of the file in errors.
        closefd: whether closing this closes the descriptor.
    """

    def __init__(self, file: int | str, shown: str, closefd: bool = True) -> None:
        super().__init__(file, "wb", closefd)
        self.shown = shown

    def write(self, data: Any) -> int:
        """Write bytes."""
        with cannot_write(self.shown):
            return super().write(data)

    def close(self) -> None:
        """Close the file."""
        with cannot_write(self.shown):
            super().close()


@contextmanager
def cannot_write(shown: str) -> Iterator[None]:
    """Add to an OSError that the file cannot be written, and its name."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, f"cannot write: {error.strerror or error}", shown) from None


def existing_mode(path: str) -> int | None:
    """Return type and permissions of an existing output file; None if there is none."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode) and not (mode & 0o222 and os.access(path, os.W_OK)):  # root has access to everything
        raise OSError(errno.EACCES, "is read-only: remove it, or write to another file", path)
    return mode


def temporary_name(target: str) -> str:
    """Return the name of a file until it is complete; its digest tells it from files that are not of this package."""
    folder, name = os.path.split(target)
    digest = hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()
    return os.path.join(folder, f".{name[:20]}.{digest}.part")


def link_target(path: str) -> str:
    """Return the file that a symbolic link leads to, so that the link is preserved, and any other name unchanged."""
    return os.path.realpath(path) if os.path.islink(path) else path


PARTS, RECORD, KEPT = ".parts", ".run.json", ".kept"


def beside(path: str, ending: str) -> str:
    """Return the name of the folder of a result's shards, of its record, or of the list of the lines that it has."""
    return link_target(path) + ending


@contextmanager
def locked(path: str, shown: str, wait: float = 0.0) -> Iterator[None]:
    """Keep other runs from what a lock file stands for; a file system without locks is taken as it is.

    Args:
        path: the lock file, which is removed at the end.
        shown: what is locked, for the error.
        wait: seconds to wait for another run; -1 without limit.
    """
    from filelock import FileLock, Timeout  # which takes longer to import than some commands run

    lock = FileLock(path)
    try:
        if os.path.isdir(os.path.dirname(path) or "."):  # which would be made
            lock.acquire(timeout=wait)
    except Timeout:
        raise DataError("another run is already writing this", file=shown) from None
    except OSError:
        pass
    if not lock.is_locked:  # if nothing can be written there, writing the next file fails
        yield
        return
    unfinished.add(path)
    try:
        yield
    finally:
        with suppress(OSError):  # while it is locked: a run that waits for it makes a new one
            os.unlink(path)
        unfinished.discard(path)
        lock.release()


@contextmanager
def locked_folder(folder: str | Path) -> Iterator[None]:
    """Keep other runs out of a folder, which is made if there is none."""
    os.makedirs(folder, exist_ok=True)
    with locked(os.path.join(folder, ".lock"), str(folder)):
        yield


@contextmanager
def packed(path: str, raw: BinaryIO) -> Iterator[BinaryIO]:
    """Open a stream that writes into another one, compressed if the file's name ends in .gz, .xz or .zst."""
    if suffix := suffix_of(path):
        with io.BufferedWriter(PACKERS[suffix](raw)) as out:  # whose flush() makes the packer begin no new block
            yield out
    else:
        yield raw


@contextmanager
def open_output(path: str | None) -> Iterator[BinaryIO]:
    """Open stdout, or a file (compressed if named .gz, .xz or .zst) that appears only when it is complete.

    The next run overwrites the temporary file of a killed one.

    Args:
        path: the file; None or "-" for stdout.
    """
    if path is None or path == "-":
        if sys.stdout is None:
            raise ValueError("stdout is closed")
        sys.stdout.flush()
        try:
            descriptor = sys.stdout.fileno()
        except io.UnsupportedOperation:  # not a file of the system, e.g. in a notebook
            descriptor = -1
        if descriptor < 0 or (sys.platform == "win32" and os.isatty(descriptor)):  # whose console wants text
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
    with replace_file(link_target(path), path, mode) as out:
        yield out


@contextmanager
def replace_file(target: str, shown: str | None = None, mode: int | None = None) -> Iterator[BinaryIO]:
    """Open a file that replaces what has its name, also a symbolic link or a pipe, once it is complete.

    Args:
        target: its name.
        shown: its name in errors, if different.
        mode: see `existing_mode`.
    """
    part, shown = temporary_name(target), shown or target
    with locked(f"{part}.lock", shown):
        try:
            descriptor = os.open(part, OPENING, 0o600)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR):
                raise OSError(errno.EEXIST, NOT_OURS, part) from None
            raise OSError(error.errno, f"cannot write: {error.strerror}", shown) from None
        status, user = os.fstat(descriptor), os.geteuid() if hasattr(os, "geteuid") else 0  # 0 on Windows
        if not stat.S_ISREG(status.st_mode) or status.st_uid != user or status.st_nlink > 1:
            os.close(descriptor)
            raise OSError(errno.EEXIST, NOT_OURS, part)
        file = NamedFile(descriptor, shown)
        unfinished.add(part)
        try:
            with io.BufferedWriter(file) as raw:
                file.truncate(0)
                with packed(shown, raw) as out:
                    yield out
                raw.flush()
                mask = os.umask(0)
                os.umask(mask)
                with cannot_write(shown):
                    os.fsync(descriptor)
                    if hasattr(os, "fchmod"):  # permissions of the file it replaces, or those of any new file
                        os.fchmod(descriptor, 0o666 & ~mask if mode is None else stat.S_IMODE(mode))
            with cannot_write(shown):
                os.replace(part, target)  # once it is closed: Windows moves no open file
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(part)
            raise
        finally:
            unfinished.discard(part)
