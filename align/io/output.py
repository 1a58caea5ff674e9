"""Write files atomically: under a temporary name, locked, until they are complete."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from align.io.compression import PACKERS
from align.io.process import unfinished


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
        self._dropped = False

    def write(self, data: Any) -> int:
        """Write bytes, unless the file was dropped."""
        if self._dropped:
            return len(data)
        with cannot_write(self.shown):
            return super().write(data)

    def drop(self) -> None:
        """Discard all further bytes, including those still buffered above."""
        self._dropped = True

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


def parts_of(path: str) -> str:
    """Return the folder for the shards of a result."""
    return f"{link_target(path)}.parts"


def record_of(path: str) -> str:
    """Return the name of the record of a complete result."""
    return f"{link_target(path)}.run.json"


def open_locked(part: str, shown: str) -> int:
    """Open and lock a file to write a result to; it may contain the output of an interrupted run.

    It stays locked for as long as it is open in this process or in one that inherits it; file systems without locks
    are taken as they are. `shown` is the name of the result in errors.
    """
    while True:
        try:
            descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR):
                raise OSError(errno.EEXIST, "exists, and this program did not create it: remove it", part) from None
            raise OSError(error.errno, f"cannot write: {error.strerror}", shown) from None
        status, refusal = os.fstat(descriptor), None
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink > 1:
            refusal = OSError(errno.EEXIST, "exists, and this program did not create it: remove it", part)
        else:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                refusal = OSError(errno.EBUSY, "another run is already writing this", shown)
            except OSError:
                pass
        if not refusal and _is_file(descriptor, part):
            return descriptor
        os.close(descriptor)
        if refusal:
            raise refusal


def _is_file(descriptor: int, part: str) -> bool:
    """Check that an open file still has its name, which another run may have renamed or removed."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(part))
    except FileNotFoundError:
        return False


@contextmanager
def packed(path: str, raw: BinaryIO) -> Iterator[BinaryIO]:
    """Open a stream that writes into another one, compressed if the file's name ends in .gz, .xz or .zst."""
    pack = next((pack for suffix, pack in PACKERS.items() if path.endswith(suffix)), None)
    if pack is None:
        yield raw
        return
    with io.BufferedWriter(pack(raw)) as out:  # whose flush() does not make the packer begin a new block
        yield out


def put_in_place(file: NamedFile, part: str, target: str, mode: int | None) -> None:
    """Give a complete file its final name, and the permissions of the file it replaces, or those of any new file."""
    mask = os.umask(0)
    os.umask(mask)
    with cannot_write(file.shown):
        os.fsync(file.fileno())
        os.fchmod(file.fileno(), 0o666 & ~mask if mode is None else stat.S_IMODE(mode))
        os.replace(part, target)


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
    file = NamedFile(open_locked(part, shown), shown)
    unfinished.add(part)
    try:
        with io.BufferedWriter(file) as raw:
            try:
                file.truncate(0)
                with packed(shown, raw) as out:
                    yield out
                raw.flush()
                put_in_place(file, part, target, mode)
            except BaseException:
                file.drop()
                if _is_file(file.fileno(), part):  # which is locked, and not the result or another run's file
                    os.unlink(part)
                raise
    finally:
        unfinished.discard(part)
