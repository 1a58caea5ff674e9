"""The record of a finished `--resume` run: what was run, on what input, and what the result must still be.

It is kept beside the result, so that the same command, when repeated, can tell whether it has anything to do.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

from align.core.text import LinePair
from align.core.types import Pair
from align.io.files import beside, existing_mode, link_target
from align.io.manifest import MAX_RECORD, Record, Stamp, differences, digest_of, dump_json, load_json
from align.io.output import open_whole


class DigestedPairs:
    """Pairs as they are read, with a digest of those read so far.

    Args:
        pairs: all of the input.

    Attributes:
        lines: number of lines read so far.
        every: from now on the digest of so many lines, and of each multiple, is kept until a later one is asked for.
    """

    def __init__(self, pairs: Iterator[Pair]) -> None:
        self._pairs, self.lines, self._digest = pairs, 0, blake2b(digest_size=32)
        self.every, self._kept = sys.maxsize, deque[tuple[int, str]]()

    def __iter__(self) -> DigestedPairs:
        return self

    def __next__(self) -> Pair:
        pair = next(self._pairs)
        self.lines += 1
        source, target = " ".join(pair.source), " ".join(pair.target)
        if isinstance(pair, LinePair):
            source, target = pair.source_line, pair.target_line
        self._digest.update(f"{len(source)} {source}\t{target}\n".encode())  # a line may hold TABs itself
        if self.lines % self.every == 0:
            self._kept.append((self.lines, self.digest))
        return pair

    def digest_of(self, lines: int) -> str:
        """The digest of the first so many lines, a multiple of `every`, and no fewer than the last time."""
        while self._kept[0][0] < lines:
            self._kept.popleft()
        kept, digest = self._kept[0]
        assert kept == lines, "not a multiple"
        return digest

    @property
    def digest(self) -> str:
        """The digest of all lines read so far."""
        return self._digest.hexdigest()


def write_record(record: Record, path: str) -> None:
    """Write the record of a result beside it, in place of an earlier one."""
    name = record_of(path)
    with open_whole(name, existing_mode(name)) as out:
        out.write(dump_json(asdict(record)))


def check_result(record: Record, path: str) -> None:
    """Check that a result is still the same.

    Raises:
        ValueError: the file has been changed since.
    """
    size, name = os.path.getsize(path), record_of(path)
    ((_, recorded_size, recorded_digest),) = record.outputs
    if size != recorded_size:
        raise ValueError(f"{path} has {size:,} bytes, and {name} says {recorded_size:,}: {anew(path)}")
    if digest_of(path) != recorded_digest:
        raise ValueError(f"{path} is not what it was when {name} was written: {anew(path)}")


def check_run(record: Record, path: str, run: Mapping[str, Any]) -> None:
    """Check that a result is of the same run.

    Raises:
        ValueError: the result is of another run; says how it differs.
    """
    if changes := differences(record.run, run):
        raise ValueError(f"{path} is of another run ({changes}): {anew(path)}")


def check_input(record: Record, path: str, inputs: Sequence[Stamp], pairs: Iterator[Pair], name: str) -> None:
    """Check that the input is the same, by the stamps of its files if they suffice, else by all of its lines.

    Raises:
        ValueError: the input has changed.
    """
    if None not in inputs and list(inputs) == list(record.inputs):
        return
    read = DigestedPairs(pairs)
    for _ in read:
        pass
    if read.lines != record.rows:
        raise ValueError(f"{name} has {read.lines:,} lines, and {path} is of {record.rows:,}: {anew(path)}")
    if read.digest != record.digest:
        raise ValueError(f"{name}: the lines are not those that {path} is of: {anew(path)}")


def record_of(path: str) -> str:
    """The record of a result."""
    return beside(link_target(path), "", ".run.json")


def anew(path: str) -> str:
    """What to do where a file is not to be taken for the result, for messages."""
    return f"remove {path} to begin anew"


def read_record(path: str) -> Record | None:
    """The record of a result; None if there is none.

    Raises:
        OSError: the record cannot be read, or another file has its name.
    """
    name = record_of(path)
    if not os.path.lexists(name):
        return None
    data = b""
    if os.path.isfile(name):
        with open(name, "rb") as stream:
            data = stream.read(MAX_RECORD)
    try:
        record = Record.of(load_json(data))
    except ValueError:
        record = None
    if record is None or len(record.outputs) != 1:
        raise OSError(errno.EEXIST, "is in the way: remove it", name)
    return record


def stamp(name: str) -> Stamp:
    """What identifies an input file's content: name, size and time; None where that cannot be told."""
    if name == "-":
        return None
    try:
        about = os.stat(name)
    except (OSError, ValueError):  # said where it is opened
        return None
    return [os.path.abspath(name), about.st_size, about.st_mtime_ns] if stat.S_ISREG(about.st_mode) else None
