"""Files of a job, on this machine or in an object store: find, read and atomically write them.

All access uses the file systems of Apache Arrow. What only a local disk can do is in `whole_file` and in
`align.jobs.locks`.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, BinaryIO, NamedTuple, cast

from pyarrow import fs

from align.core.errors import DataError, one_line
from align.io import manifest
from align.io.output import NamedFile, OnWhole, beside, cannot_write, open_locked, packed, whole

RUN = "_run"
"""The folder of a job's own files. Spark, Hadoop and Arrow skip names that begin with an underscore."""

_WILD = frozenset("*?[")


class InputFile(NamedTuple):
    """A file to align.

    Attributes:
        place: its path, or its URI.
        size: in bytes.
        modified: time of the last change, in nanoseconds.
    """

    place: str
    size: int
    modified: int

    @property
    def name(self) -> str:
        """Its name without its folder, and the name of its output."""
        return self.place.rpartition("/")[2]


def join(folder: str, *names: str) -> str:
    """Return a place in a folder, which is a path or a URI."""
    return "/".join((folder.rstrip("/") or folder, *names))


def locate(place: str) -> tuple[Any, str]:
    """Return the file system of a path or a URI, and the path in it.

    Raises:
        DataError: Arrow has no file system of this kind, the URI is invalid, or it contains a secret.
    """
    if "://" not in place:
        return _local(), os.path.abspath(place)
    scheme, _, rest = place.partition("://")
    bucket, _, path = rest.partition("/")
    if scheme == "file":
        return _local(), "/" + path
    if ":" in bucket.rpartition("@")[0]:
        hint = "give the key in the environment"
        raise DataError("its key would be in the records of the job", file=f"{scheme}://…/{path}", hint=hint)
    filesystem, root = _remote(f"{scheme}://{bucket}", os.getpid())
    return filesystem, f"{root.rstrip('/')}/{path}"


def is_local(place: str) -> bool:
    """Check whether a place is on this machine."""
    return "://" not in place or place.startswith("file://")


@cache
def _local() -> Any:
    return fs.LocalFileSystem()


def can_be_forked() -> bool:
    """Check that this process has not connected to an object store, whose client's threads do not survive a fork."""
    return not _remote.cache_info().currsize


@cache
def _remote(root: str, process: int) -> tuple[Any, str]:
    """Return a file system of this process: the threads of one that was made before a fork stay in the parent."""
    try:
        filesystem, path = fs.FileSystem.from_uri(root)
    except (OSError, ValueError) as error:
        raise DataError(f"no place to read or write: {one_line(error)}", file=root) from None
    return filesystem, str(path)


def stat(place: str) -> InputFile:
    """Return the current size and time of a file.

    Raises:
        DataError: the file does not exist.
    """
    filesystem, path = locate(place)
    with cannot_read(place):
        status = filesystem.get_file_info(path)
    if status.type != fs.FileType.File:
        kind = "is a folder" if status.type == fs.FileType.Directory else "no such file"
        raise DataError(kind, file=place)
    return InputFile(place, status.size, status.mtime_ns or 0)


def exists(place: str) -> bool:
    """Check that a file exists."""
    filesystem, path = locate(place)
    with cannot_read(place):
        return bool(filesystem.get_file_info(path).type == fs.FileType.File)


def is_taken(place: str) -> bool:
    """Check that anything has this name: a file, and on this machine also a folder, a pipe or a dangling link."""
    return os.path.lexists(locate(place)[1]) if is_local(place) else exists(place)


def find(patterns: Sequence[str]) -> list[InputFile]:
    """Return the files that match patterns, sorted by name, without duplicates.

    In each part between slashes `*`, `?` and `[abc]` have the same meaning as in a shell. A name without them is that
    of a file, and so is one with them if the file exists.

    Raises:
        DataError: a pattern matches no file.
    """
    files: dict[str, InputFile] = {}
    for pattern in patterns:
        matching = [stat(pattern)] if not _WILD & {*pattern} or exists(pattern) else _match(pattern)
        if not matching:
            raise DataError("no file is named so", file=pattern)
        files |= {file.place: file for file in matching}
    return [files[place] for place in sorted(files)]


def _match(pattern: str) -> list[InputFile]:
    """Return the files that match a pattern, folder by folder: circular links are followed to its depth only."""
    parts = pattern.split("/")
    first = next(n for n, part in enumerate(parts) if _WILD & {*part})
    folders = ["".join(f"{part}/" for part in parts[:first])]
    for part in parts[first:-1]:
        folders = [f"{place}/" for place, status in _named(part, folders) if status.type == fs.FileType.Directory]
    matching = [(place, status) for place, status in _named(parts[-1], folders) if status.type == fs.FileType.File]
    return [InputFile(place, status.size, status.mtime_ns or 0) for place, status in matching]


def _named(pattern: str, folders: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the entries of folders whose names match: the place of each, and its status."""
    for folder in folders:
        folder_name = folder[:-1] or folder or "."
        filesystem, path = locate(folder_name)
        with cannot_read(folder_name):
            entries = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
            names = [entry.base_name for entry in entries]
        yield from ((folder + name, entry) for name, entry in zip(names, entries, strict=True) if _fits(name, pattern))


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))


@contextmanager
def cannot_read(place: str) -> Iterator[None]:
    """Add the name of the file to an error."""
    try:
        yield
    except DataError:
        raise
    except UnicodeError:  # Arrow supports no other names
        message = "cannot be read: it has a name that is not UTF-8, or there is one in it"
        raise DataError(message, file=place) from None
    except OSError as error:
        message = os.strerror(error.errno) if error.errno else one_line(error)
        raise DataError(f"cannot be read: {message}", file=place) from None


@contextmanager
def open_file(place: str) -> Iterator[Any]:
    """Open a file for reading from any position.

    Raises:
        DataError: the file cannot be read.
    """
    filesystem, path = locate(place)
    with cannot_read(place):
        stream = filesystem.open_input_file(path)
    with stream:
        yield stream


def digest_of(place: str) -> str:
    """Return the digest of a file's bytes.

    Raises:
        DataError: the file cannot be read.
    """
    with open_file(place) as stream, cannot_read(place):
        return manifest.digest_of(stream)


def read_small(place: str, most: int) -> bytes | None:
    """Read up to this number of bytes of a file; return None if it does not exist."""
    if not exists(place):
        return None
    with open_file(place) as stream, cannot_read(place):
        data: bytes = stream.read(most)
        return data


def make_folder(place: str) -> None:
    """Make a folder and its parents; a store without folders needs none.

    Raises:
        OSError: the folder cannot be made, or is a symbolic link.
    """
    filesystem, path = locate(place)
    if not is_local(place):
        with cannot_write(place):
            filesystem.create_dir(path, recursive=True)
        return
    if os.path.islink(path):  # files elsewhere would be replaced
        raise OSError(errno.EEXIST, "is in the way: remove it", place)
    with cannot_write(place):
        os.makedirs(path, exist_ok=True)


def remove(place: str) -> None:
    """Remove a file if it exists."""
    if exists(place):
        filesystem, path = locate(place)
        with cannot_write(place):
            filesystem.delete_file(path)


@contextmanager
def whole_file(folder: str, name: str, on_whole: OnWhole | None = None) -> Iterator[BinaryIO]:
    """Open a file in the folder of a job that appears only when it is complete, and replaces an earlier one.

    On this machine it is written under another name in `_run`, and renamed at the end. Names of results end in a
    file type, so that none is like `NAME.own`. An object store shows an object when all of it has arrived: it is
    written locally first, and then uploaded.

    Args:
        folder: folder of the job.
        name: name in it, whose suffix sets the compression.
        on_whole: callback before it appears, with the name of a local file.

    Raises:
        OSError: the file cannot be written, or another run is writing it.
    """
    place = join(folder, name)
    filesystem, path = locate(place)
    if not is_local(place):
        with tempfile.NamedTemporaryFile() as local:
            with packed(name, cast(BinaryIO, local)) as out:
                yield out
            local.seek(0)
            if on_whole:
                on_whole(local.name)
            with cannot_write(place), filesystem.open_output_stream(path) as remote:
                shutil.copyfileobj(local, remote, 1 << 20)
        return
    suffix = ".own.part" if name.startswith(f"{RUN}/") else ".part"
    part = beside(os.path.join(locate(folder)[1], RUN, os.path.basename(name)), "", suffix)
    with whole(NamedFile(open_locked(part, place), place), part, path, None, on_whole) as out:
        yield out
