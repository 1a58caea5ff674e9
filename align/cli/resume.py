"""`--resume`: a part file that outlives its run, and beside it a journal of what is safe in it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from typing import Any, TypeAlias

from align.cli.journal import Chosen, Saved, read_journal, write_saved
from align.cli.output import PACKERS, NamedFile, beside, existing_mode, lock, open_output, open_own, put_in_place
from align.types import Pair

SAVE_EVERY = 1.0
"""Seconds from one line of the journal to the next at least: the disk is waited for each time."""

Stream: TypeAlias = "io.BufferedWriter[NamedFile]"


class Part:
    """The result of a run in the making.

    Args:
        path: its part file.
        journal_path: the journal.
        out: to write to.
        journal: the journal, to write to.

    Attributes:
        path: the same.
        out: the same.
        saved: how far the interrupted run had come, once `begin` has looked.
    """

    def __init__(self, path: str, journal_path: str, out: Stream, journal: Stream) -> None:
        self.path, self.out, self.saved = path, out, Saved()
        self._journal_path, self._journal = journal_path, journal
        self._digest = blake2b(digest_size=32)
        self._lines = 0
        self._last = time.monotonic()

    def begin(self, run: Mapping[str, Any], pairs: Iterator[Pair], name: str) -> Iterator[Pair]:
        """Go on with what an interrupted run has left, or begin anew where that is nothing.

        Args:
            run: what the output depends on, by name, and is the same each time.
            pairs: all of the input.
            name: what to call it in messages.

        Returns:
            The pairs that are left to do.

        Raises:
            ValueError: what is there is of another run or another input; says how to begin anew.
        """
        size = os.fstat(self.out.fileno()).st_size
        run = json.loads(json.dumps(run))
        rest = self._read(pairs)
        end = 0
        if size:
            with open(os.dup(self._journal.fileno()), "rb") as stream:
                stream.seek(0)
                before, self.saved, end = read_journal(stream)
            self._compare(before, run, size)
            for _ in islice(rest, self.saved.lines):
                pass
            self._compare_input(name)
        self.out.truncate(self.saved.bytes)
        self.out.seek(self.saved.bytes)
        self._journal.truncate(end)
        self._journal.seek(end)
        if not end:
            self._journal.write(json.dumps({"run": run}).encode() + b"\n")
            _sync(self._journal)
        return rest

    def save(self, lines: int, counts: Mapping[str, int], chosen: Sequence[Chosen | None]) -> None:
        """Note that all output of so many lines is written; where that was done a moment ago, leave it at that."""
        if time.monotonic() - self._last < SAVE_EVERY:
            return
        assert lines == self._lines, "read further than written: the digest would be of other lines"
        _sync(self.out)
        saved = Saved(lines, self.out.tell(), self._digest.hexdigest(), dict(counts), chosen)
        self._journal.write(write_saved(saved))
        self._journal.flush()
        self._last = time.monotonic()

    def _read(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        for pair in pairs:
            self._lines += 1
            self._digest.update(f"{' '.join(pair.source)}\t{' '.join(pair.target)}\n".encode())
            yield pair

    def _compare(self, before: dict[str, Any] | None, run: Mapping[str, Any], size: int) -> None:
        if before is None:
            raise ValueError(f"{self.path} is there, but {self._journal_path} does not say what of: {self.anew}")
        names = [name for name in {**before, **run} if before.get(name) != run.get(name)]
        told = [f"{name} was {_shown(before.get(name))}, and is {_shown(run.get(name))}" for name in names]
        if told:
            raise ValueError(f"{self.path} is of another run ({'; '.join(told)}): {self.anew}")
        if self.saved.bytes > size:
            raise ValueError(f"{self.path} is shorter than {self._journal_path} says: {self.anew}")

    def _compare_input(self, name: str) -> None:
        done = f"{self.saved.lines:,}"
        if self._lines < self.saved.lines:
            raise ValueError(f"{name} has {self._lines:,} lines, and {self.path} is of the first {done}: {self.anew}")
        if self.saved.lines and self._digest.hexdigest() != self.saved.digest:
            raise ValueError(f"{name}: the first {done} lines are not those that {self.path} is of: {self.anew}")

    @property
    def anew(self) -> str:
        """What to do where it cannot be gone on with, for messages."""
        return f"remove {self.path} to begin anew"


def _sync(stream: Stream) -> None:
    """Bring all that was written to the disk."""
    stream.flush()
    stream.raw.sync()


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 300 else f"{text[:300]}..."


@contextmanager
def open_part(path: str) -> Iterator[Part]:
    """A result that becomes a file of this name when it is complete, and until then stays for the next run.

    Raises:
        OSError: it cannot be written, or another run is at it.
    """
    mode = existing_mode(path)
    part, journal_path = part_of(path), journal_of(path)
    file = NamedFile(lock(part, path), path)
    with io.BufferedWriter(file) as out:
        log = NamedFile(open_own(journal_path, path), journal_path)
        with io.BufferedWriter(log) as journal:
            try:
                found = Part(part, journal_path, out, journal)
                yield found
                _sync(out)
            except BaseException:
                file.drop()  # what the journal does not know of is of no use
                log.drop()
                if not os.fstat(file.fileno()).st_size:  # nothing to go on with
                    os.unlink(part)
                    os.unlink(journal_path)
                raise
        if path.endswith(tuple(PACKERS)):
            with open(part, "rb") as plain, open_output(path) as packed:
                shutil.copyfileobj(plain, packed)
            os.unlink(part)
        else:
            put_in_place(file, part, _target(path), mode)
        os.unlink(journal_path)


def part_of(path: str) -> str:
    """The part file of a result."""
    return beside(_target(path), "", ".part")


def journal_of(path: str) -> str:
    """Its journal."""
    return beside(_target(path), "", ".part.json")


def _target(path: str) -> str:
    return os.path.realpath(path) if os.path.islink(path) else path


def is_finished(path: str, inputs: Sequence[str]) -> bool:
    """Whether the result is there, so that the same command given again has nothing to do.

    Raises:
        ValueError: it is older than the input.
    """
    part = part_of(path)
    if not os.path.exists(path) or (os.path.exists(part) and os.path.getsize(part)):
        return False
    for name in inputs:
        if os.path.isfile(name) and os.path.getmtime(name) > os.path.getmtime(path):
            raise ValueError(f"{path} is there already, and older than {name}: remove it to begin anew")
    with contextlib.suppress(OSError):
        os.unlink(journal_of(path))  # which a run had no time for that was killed at its very end
    return True
