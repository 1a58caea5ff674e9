"""Check that an output is finished and unchanged: digests, records of finished work, and locks."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

from align.core.errors import printable, shorten
from align.core.types import Choice
from align.io.output import lock
from align.io.signature import read_choice

BLOCK = 1 << 20
"""Bytes that are hashed at a time."""

MAX_NAMED = 8
"""Maximum number of differences between two runs in a message."""

MAX_RECORD = 1_000_000
"""Maximum number of bytes read from a record; no record is as large."""

Stamp: TypeAlias = "Sequence[str | int] | None"
"""Name, size in bytes and time of change in nanoseconds of an input file; None for stdin and pipes."""

Output: TypeAlias = Sequence[Any]
"""Name, size in bytes and digest of an output file."""


def digest_of(file: str | Path | Any, digest: Any = None) -> str:
    """Return the digest of a file as hexadecimal digits.

    Args:
        file: path, or a binary stream that is read to its end.
        digest: the hash object to update; None for a new BLAKE2b of 32 bytes.

    Raises:
        OSError: the file cannot be read.
    """
    digest = digest or blake2b(digest_size=32)
    if isinstance(file, str | Path):
        with open(file, "rb") as stream:
            return digest_of(stream, digest)
    while block := file.read(BLOCK):
        digest.update(block)
    return str(digest.hexdigest())


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder until this one and the processes that inherit the lock have ended.

    Raises:
        ValueError: another run holds the folder; names its process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a+", encoding="ascii", errors="replace") as file:
        if not lock(file.fileno()):
            file.seek(0)
            holder = file.read(20).strip()
            known = f" (process {holder}, or what it has started)" if holder.isdecimal() else ""
            raise ValueError(f"{folder}: another run is still at work there{known}")
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        os.set_inheritable(file.fileno(), True)
        yield


@dataclass(frozen=True)
class Run:
    """The description of a run, the same for all of its files or blocks.

    Attributes:
        settings: what the results depend on apart from the input, by name.
        choices: where each direction is read.
        signature: signature of the settings at these choices; empty if each result has its own.
    """

    settings: Mapping[str, Any]
    choices: Sequence[Choice]
    signature: str = ""

    @classmethod
    def of(cls, content: Any) -> Run:
        """Return a run from the content of a JSON file.

        Raises:
            ValueError: the content does not describe a run.
        """
        try:
            run = cls(content["settings"], tuple(map(read_choice, content["choices"])), content["signature"])
        except (TypeError, KeyError, AttributeError, IndexError, OverflowError):
            raise ValueError("not a run") from None
        if not is_run(run.settings) or not isinstance(run.signature, str):
            raise ValueError("not a run")
        return run


@dataclass(frozen=True)
class Record:
    """The record of finished work.

    Attributes:
        run: what the output depends on apart from the input, by name.
        inputs: stamps of the input files, taken before they were read.
        digest: digest of the input.
        rows: number of input rows.
        counts: rows without links, by reason.
        outputs: the files that were written.
    """

    run: Mapping[str, Any]
    inputs: Sequence[Stamp]
    digest: str
    rows: int
    counts: Mapping[str, int]
    outputs: Sequence[Output]

    @classmethod
    def of(cls, content: Any) -> Record:
        """Return a record from the content of a JSON file.

        Raises:
            ValueError: the content is not a record.
        """
        if not isinstance(content, dict) or content.keys() != {field.name for field in fields(cls)}:
            raise ValueError("not a record")
        record = cls(**content)
        if not (
            is_run(record.run)
            and isinstance(record.inputs, list)
            and all(stamp is None or _is_row(stamp, str, int, int) for stamp in record.inputs)
            and isinstance(record.digest, str)
            and _is_count(record.rows)
            and isinstance(record.counts, dict)
            and all(map(_is_count, record.counts.values()))
            and isinstance(record.outputs, list)
            and all(_is_row(output, str, int, str) for output in record.outputs)
        ):
            raise ValueError("not a record")
        return record


def load_json(data: bytes) -> Any:
    """Read JSON.

    Raises:
        ValueError: the data is not JSON, or nested too deeply.
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dump_json(content: Any) -> bytes:
    """Return the bytes of a JSON file."""
    return json.dumps(content, indent=1).encode() + b"\n"


def is_run(content: Any) -> bool:
    """Check that a description of a run has names and plain values."""
    return isinstance(content, dict) and all(isinstance(value, str | int | float | None) for value in content.values())


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _is_row(row: Any, *types: type) -> bool:
    """Check that a list holds one value of each type, and that its integers fit into 64 bits."""
    if not isinstance(row, list) or [type(value) for value in row] != [*types]:
        return False
    return all(abs(value) < 1 << 63 for value in row if isinstance(value, int))


def differences(before: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Describe how two runs differ in one line; `before` comes from a file and may hold anything."""
    names = [name for name in {**run, **before} if before.get(name) != run.get(name)]
    changes = []
    for name in names[:MAX_NAMED]:
        was, now = _parts_that_differ(before.get(name), run.get(name))
        changes.append(f"{_show(name, 40)} was {_show(was)}, and is {_show(now)}")
    return "; ".join([*changes, f"and {len(names) - MAX_NAMED:,} more"] if names[MAX_NAMED:] else changes)


def _parts_that_differ(was: Any, now: Any) -> tuple[Any, Any]:
    """Return the parts of two signatures that are not in the other one, and other values unchanged."""
    if not (isinstance(was, str) and isinstance(now, str) and "|" in was and "|" in now):
        return was, now
    before, after = Counter(was.split("|")), Counter(now.split("|"))
    removed, added = "|".join((before - after).elements()), "|".join((after - before).elements())
    return (removed or "none", added or "none") if removed or added else (was, now)


def _show(value: Any, length: int = 300) -> str:
    return printable(shorten(str(value), length))
