"""`--resume`: a part file that outlives its run, and beside it a journal of what is safe in it."""

from __future__ import annotations

import contextlib
import errno
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

from align.core.types import Choice, Pair
from align.io.files import (
    PACKERS,
    NamedFile,
    beside,
    existing_mode,
    link_target,
    open_locked,
    open_own,
    put_in_place,
    refuse_locked,
    unlink_own,
)
from align.io.journal import Saved, read_journal, read_run, write_saved
from align.io.manifest import Record, Stamp, differences, digest_of
from align.io.output import open_whole, plain_part, resumed_part
from align.io.record import DigestedPairs, anew, check_result, read_record, write_record

SAVE_EVERY = 1.0
"""The least seconds between two lines of the journal: each waits for the disk."""

LINES_PER_PAIR = {"giza": 3, "naacl": None}
"""Lines of output for a line of input, by format, where that is not one; None where there is one for each link."""


class DigestedFile(NamedFile):
    """A file whose content is digested, and its lines are counted, as it is written.

    Attributes:
        lines: written so far.
    """

    def __init__(self, file: int, shown: str) -> None:
        super().__init__(file, shown)
        self._digest, self.lines = blake2b(digest_size=32), 0

    @property
    def digest(self) -> str:
        """The digest of all that is written."""
        return self._digest.hexdigest()

    def write(self, data: Any) -> int:
        """Write bytes."""
        written = super().write(data)
        self._add(bytes(data[:written]))
        return written

    def read_start(self, length: int) -> None:
        """Count the first bytes that are there as written."""
        with open(self.fileno(), "rb", buffering=0, closefd=False) as stream:
            stream.seek(0)
            while block := stream.read(min(length, 1 << 20)):
                self._add(block)
                length -= len(block)

    def _add(self, data: bytes) -> None:
        self._digest.update(data)
        self.lines += data.count(b"\n")


Stream: TypeAlias = "io.BufferedWriter[DigestedFile]"


class Part:
    """The result of a run in the making.

    Args:
        path: its part file.
        journal_path: the journal.
        out: to write to.
        journal: the journal, to write to.
        listing: the list of bad lines, to write to, if there is to be one.

    Attributes:
        path: the same.
        out: the same.
        listing: the same.
        saved: what is safely on the disk, once `begin` has looked.
        useless: whether there was a part file with nothing in it to go on with.
    """

    def __init__(
        self, path: str, journal_path: str, out: Stream, journal: io.BufferedWriter[NamedFile], listing: Stream | None
    ) -> None:
        self.path, self.out, self.listing, self.saved = path, out, listing, Saved()
        self.useless = False
        self._journal_path, self._journal = journal_path, journal
        self._run: Mapping[str, Any] = {}
        self._read = DigestedPairs(iter(()))
        self._last = time.monotonic()

    def begin(self, run: Mapping[str, Any], pairs: Iterator[Pair], name: str, buffer: int) -> Iterator[Pair]:
        """Go on with what an interrupted run has left, or begin anew where it has left nothing.

        Args:
            run: what the output depends on, by name; it must be the same each time.
            pairs: all of the input.
            name: what to call it in messages.
            buffer: of how many lines a multiple is ever saved.

        Returns:
            The pairs that are left to do.

        Raises:
            ValueError: the part file is of another run or another input; says how to begin anew.
        """
        size = os.fstat(self.out.fileno()).st_size
        self._run = run = json.loads(json.dumps(run))
        self._read = rest = DigestedPairs(pairs)
        end = 0
        if size:
            with open(os.dup(self._journal.fileno()), "rb") as read:
                read.seek(0)
                try:
                    before, self.saved, end = read_journal(read)
                except ValueError as error:
                    raise ValueError(f"{self._journal_path} is {error}: {self.anew}") from None
            self._compare(before, run, size)
            for _ in islice(rest, self.saved.lines):
                pass
            self._compare_input(name)
            self.useless = not self.saved.lines
        rest.every = buffer
        lengths: list[tuple[io.BufferedWriter[Any] | None, int]]
        lengths = [(self.out, self.saved.bytes), (self.listing, self.saved.listed), (self._journal, end)]
        for stream, length in lengths:
            if stream:
                stream.truncate(length)
                stream.seek(length)
        if not end:
            self._journal.write(json.dumps({"run": run}).encode() + b"\n")
            _sync(self._journal)
        return rest

    def save(self, lines: int, counts: Mapping[str, int], chosen: Sequence[Choice]) -> None:
        """Note that the output of so many lines is written; does nothing where that was noted a moment ago."""
        if time.monotonic() - self._last < SAVE_EVERY:
            return
        _sync(self.out)
        if self.listing:
            _sync(self.listing)
        self.saved = Saved(
            lines=lines,
            bytes=self.out.tell(),
            digest=self._read.digest_of(lines),
            counts=dict(counts),
            chosen=chosen,
            listed=self.listing.tell() if self.listing else 0,
            output_lines=self.out.raw.lines,
            output_digest=self.out.raw.digest,
            listing_digest=self.listing.raw.digest if self.listing else "",
        )
        self._journal.write(write_saved(self.saved))
        self._journal.flush()
        self._last = time.monotonic()

    def record(self, inputs: Sequence[Stamp], result: str) -> Record:
        """The record of the finished run, whose result is in the file `result`."""
        read = self._read
        output = [os.path.basename(result), os.path.getsize(result), digest_of(result)]
        return Record(self._run, inputs, read.digest, read.lines, {}, [output])

    def _compare(self, before: dict[str, Any] | None, run: Mapping[str, Any], size: int) -> None:
        if before is None:
            raise ValueError(f"{self.path} is there, but {self._journal_path} does not say what of: {self.anew}")
        if changes := differences(before, run):
            raise ValueError(f"{self.path} is of another run ({changes}): {self.anew}")
        listed = os.fstat(self.listing.fileno()).st_size if self.listing else 0
        if self.saved.listed > listed:
            raise ValueError(f"{self.path} is there, but not all of its list of bad lines: {self.anew}")
        if self.saved.bytes > size:
            raise ValueError(f"{self.path} is shorter than {self._journal_path} says: {self.anew}")
        if self.saved.lines:
            self._compare_output()

    def _compare_output(self) -> None:
        """Compare what is there with the journal, which may have been changed too."""
        out, saved = self.out.raw, self.saved
        out.read_start(saved.bytes)
        each = LINES_PER_PAIR.get(self._run["format"], 1)
        if (out.digest, out.lines) != (saved.output_digest, saved.output_lines) or (
            each and out.lines != each * saved.lines
        ):
            raise ValueError(f"{self.path} is not what {self._journal_path} says: {self.anew}")
        if self.listing:
            self.listing.raw.read_start(saved.listed)
            if self.listing.raw.digest != saved.listing_digest:
                raise ValueError(f"the list of bad lines of {self.path} was changed: {self.anew}")

    def _compare_input(self, name: str) -> None:
        done = f"{self.saved.lines:,}"
        if self._read.lines < self.saved.lines:
            raise ValueError(
                f"{name} has {self._read.lines:,} lines, and {self.path} is of the first {done}: {self.anew}"
            )
        if self.saved.lines and self._read.digest != self.saved.digest:
            raise ValueError(f"{name}: the first {done} lines are not those that {self.path} is of: {self.anew}")

    @property
    def anew(self) -> str:
        """What to do where the part file is of no use, for messages."""
        return anew(self.path)


def _sync(stream: io.BufferedWriter[Any]) -> None:
    """Wait until all that was written is on the disk."""
    stream.flush()
    stream.raw.sync()


@contextmanager
def open_part(path: str, inputs: Sequence[Stamp], listing: str | None = None) -> Iterator[Part]:
    """A result that becomes a file of this name when it is complete, and until then stays for the next run.

    Args:
        path: the result.
        inputs: a stamp for each file of the input.
        listing: the file that is to list bad lines, if there is one.

    Raises:
        OSError: it cannot be written, another run is writing it, or someone else's file is in the way.
    """
    mode = existing_mode(path)
    target, journal_path = link_target(path), journal_of(path)
    part = resumed_part(target)
    file = DigestedFile(open_locked(part, path), path)
    with io.BufferedWriter(file) as out, _kept_if_begun(file, part):
        refuse_locked(plain_part(target), path)
        read_record(path)  # now, not at the end, is the time to learn that it cannot be written
        log = NamedFile(open_own(journal_path, path), journal_path)
        with io.BufferedWriter(log) as journal, _open_listing(path if listing else None, journal_path) as listed:
            if not os.fstat(file.fileno()).st_size and not _is_ours(journal_path):
                raise OSError(errno.EEXIST, "is in the way: remove it", journal_path)
            try:
                result = Part(part, journal_path, out, journal, listed)
                yield result
                _sync(out)
                if listing and listed:
                    listed.flush()
                    _copy(listing_of(path), listing)
            except BaseException:
                file.drop()  # output that the journal does not mention is of no use
                log.drop()
                if listed:
                    listed.raw.drop()
                if not os.fstat(file.fileno()).st_size:  # nothing to go on with
                    unlink_own(log, journal_path)
                    if listed:
                        unlink_own(listed.raw, listing_of(path))
                raise
        if path.endswith(tuple(PACKERS)):
            _copy(part, path, resumes=True)
            write_record(result.record(inputs, target), path)
            os.unlink(part)
        else:  # the record first: as long as there is a part file, the record does not count
            write_record(result.record(inputs, part), path)
            put_in_place(file, part, target, mode)
        if listing:
            os.unlink(listing_of(path))
        os.unlink(journal_path)


@contextmanager
def _open_listing(path: str | None, journal_path: str) -> Iterator[Stream | None]:
    """The list of bad lines in the making of a result, if there is to be one; kept for the next run as that is."""
    if path is None:
        yield None
        return
    name = listing_of(path)
    file = DigestedFile(open_own(name, path), name)
    with io.BufferedWriter(file) as listed, _kept_if_begun(file, name):
        if os.path.getsize(name) and not os.path.getsize(journal_path):
            raise OSError(errno.EEXIST, "is in the way: remove it", name)
        yield listed


def _copy(part: str, path: str, resumes: bool = False) -> None:
    """Copy a complete part file to where it belongs, packed if the name there says so."""
    with open(part, "rb") as plain, open_whole(path, existing_mode(path), resumes) as out:
        shutil.copyfileobj(plain, out)


@contextmanager
def _kept_if_begun(file: NamedFile, part: str) -> Iterator[None]:
    """Keep a part file for the next run, but not an empty one."""
    try:
        yield
    except BaseException:
        if not os.fstat(file.fileno()).st_size:
            unlink_own(file, part)
        raise


def journal_of(path: str) -> str:
    """The journal of a result in the making."""
    return beside(link_target(path), "", ".part.json")


def listing_of(path: str) -> str:
    """The list of bad lines of a result in the making."""
    return beside(link_target(path), "", ".part.bad")


def _is_ours(path: str) -> bool:
    """Whether a file with the journal's name is one, or empty."""
    with open(path, "rb") as stream:
        return not os.fstat(stream.fileno()).st_size or read_run(stream) is not None


def finished(path: str, listing: str | None = None) -> Record | None:
    """The record of the run that made a result; None if there is no result yet, or a run to go on with.

    Args:
        path: the result.
        listing: its list of bad lines, if there is to be one.

    Raises:
        ValueError: the result has no record, or has been changed since, or its list is not there.
        OSError: the result or its record cannot be read.
    """
    part = resumed_part(link_target(path))
    if not os.path.exists(path) or (os.path.exists(part) and os.path.getsize(part)):
        return None
    record = read_record(path)
    if record is None:
        raise ValueError(f"{path} is there, and no record of the run that made it: {anew(path)}")
    check_result(record, path)
    if listing and not os.path.exists(listing):
        raise ValueError(f"{path} is there, and {listing} is not: {anew(path)}")
    journal = journal_of(path)
    if os.path.isfile(journal) and _is_ours(journal):  # left by a run that was killed at its very end
        for name in (listing_of(path), journal):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
    return record
