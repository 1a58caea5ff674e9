"""Files of a job, on this machine or in an object store that fsspec reads: find, read and atomically write them."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import fsspec

from align.core.errors import DataError, one_line
from align.io.manifest import dump_json, load_json
from align.io.output import cannot_write, packed, replace_file

RUN = "_run"
"""The folder of a job's own files. Spark, Hadoop and Arrow skip names that begin with an underscore."""


class InputFile(NamedTuple):
    """A file to align: its path or URI, its size in bytes, and when it was changed last, as its file system says."""

    place: str
    size: int
    modified: str = ""

    @property
    def name(self) -> str:
        """Its name without its folder, and the name of its output."""
        return os.path.basename(self.place)


def join(folder: str, *names: str) -> str:
    """Return a place in a folder, which is a path or a URI."""
    return "/".join((folder.rstrip("/") or folder, *names))


def is_local(place: str) -> bool:
    """Check whether a place is on this machine."""
    return "://" not in place or place.startswith("file://")


def locate(place: str) -> tuple[Any, str]:
    """Return the file system of a path or a URI, and the path in it; refuse URIs that contain a secret."""
    if is_local(place):
        return fsspec.filesystem("file"), os.path.abspath(place.removeprefix("file://"))
    scheme, _, rest = place.partition("://")
    if ":" in rest.partition("/")[0].rpartition("@")[0]:
        shown = f"{scheme}://…/{rest.partition('/')[2]}"
        hint = "give the key in the environment"
        raise DataError("the URI contains a key, which the job's records would keep", file=shown, hint=hint)
    try:
        filesystem, path = fsspec.core.url_to_fs(place)
    except (ImportError, OSError, ValueError) as error:
        raise DataError(f"cannot be opened: {one_line(error)}", file=place) from None
    return filesystem, path


def stat(place: str) -> InputFile:
    """Return the current size and time of a file."""
    filesystem, path = locate(place)
    with cannot_read(place):
        about = filesystem.info(path)
    if about["type"] != "file":
        raise DataError("is a folder", file=place)
    times = (about.get(name) for name in ("mtime", "LastModified", "updated", "last_modified", "ETag"))
    return InputFile(place, about["size"], str(next(filter(None, times), "")))


def exists(place: str) -> bool:
    """Check that something has this name; on this machine also a link that leads nowhere."""
    filesystem, path = locate(place)
    with cannot_read(place):
        return bool(filesystem.lexists(path))


def find(patterns: Sequence[str]) -> list[InputFile]:
    """Return the files that match patterns of a shell, sorted by name, without duplicates.

    A name that exists is that of a file, whatever it contains.
    """
    files: dict[str, InputFile] = {}
    for pattern in patterns:
        filesystem, path = locate(pattern)
        if not glob.has_magic(pattern) or exists(pattern):
            matching = [pattern]
        elif is_local(pattern):
            scheme = "file://" if pattern.startswith("file://") else ""
            matching = [scheme + name for name in glob.glob(pattern.removeprefix("file://")) if os.path.isfile(name)]
        else:
            with cannot_read(pattern):
                matching = [filesystem.unstrip_protocol(name) for name in filesystem.glob(path)]
        if not matching:
            raise DataError("no file matches", file=pattern)
        files |= {place: stat(place) for place in matching}
    return [files[place] for place in sorted(files)]


@contextmanager
def cannot_read(place: str) -> Iterator[None]:
    """Add the name of the file to an error."""
    try:
        yield
    except DataError:
        raise
    except OSError as error:
        message = os.strerror(error.errno) if error.errno else one_line(error) or "no such file"
        raise DataError(f"cannot be read: {message}", file=place) from None


@contextmanager
def open_file(place: str) -> Iterator[Any]:
    """Open a file for reading from any position."""
    filesystem, path = locate(place)
    with cannot_read(place):
        stream = filesystem.open(path, "rb")
    with stream:
        yield stream


def make_folder(place: str) -> None:
    """Make a folder and its parents; a store without folders needs none."""
    filesystem, path = locate(place)
    with cannot_write(place):
        filesystem.makedirs(path, exist_ok=True)


def remove(place: str) -> None:
    """Remove a file if it exists."""
    filesystem, path = locate(place)
    if exists(place):
        with cannot_write(place):
            filesystem.rm_file(path)


@contextmanager
def whole_file(place: str) -> Iterator[BinaryIO]:
    """Open a file that appears when it is complete, and replaces an earlier one; its suffix sets the compression."""
    filesystem, path = locate(place)
    if is_local(place):
        with replace_file(path, place) as out:
            yield out
        return
    with tempfile.TemporaryDirectory(prefix="align-") as folder:  # a store shows an object when all of it has arrived
        local = os.path.join(folder, "part")
        with open(local, "wb") as raw, packed(place, raw) as out:
            yield out
        with cannot_write(place):
            filesystem.put_file(local, path)


def read_record(place: str) -> dict[str, Any] | None:
    """Read a record of a job; return None if there is none."""
    if not exists(place):
        return None
    with open_file(place) as stream, cannot_read(place):
        content = stream.read()
    return load_json(content, place)


def write_record(place: str, content: Any) -> None:
    """Write a record of a job."""
    with whole_file(place) as out:
        out.write(dump_json(content))
