"""Resume a run with one result: finished blocks of lines are stored in a folder next to it until they are joined.

`FILE.parts` holds `run.json`, which describes the run, and for each finished block its lines, `00001`, its list of bad
lines, `00001.bad`, and its record, `00001.json`, which is written last. `FILE.run.json` is the record of the result and
is written before it: by it the same command, when repeated, recognises that nothing is left to do.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from hashlib import blake2b
from itertools import islice
from typing import Any, BinaryIO, TypeAlias

from align.core.text import LinePair
from align.core.types import Choice, Origin, Pair
from align.io.manifest import MAX_RECORD, Output, Record, Run, Stamp, differences, digest_of, dump_json, load_json
from align.io.output import beside, link_target, open_output, replace_file, temporary_name

BUFFERS = 5
"""Buffers in a block."""

COPIED = 1 << 20
"""Bytes that are copied at a time."""

RUN = "run.json"

_FINISHED = re.compile(r"[0-9]{5,}(\.bad|\.json)?")
_TEMPORARY = re.compile(r"\.(run\.json|[0-9]{5,}(\.bad|\.json)?)\.[0-9a-f]{8}\.part")


Describe: TypeAlias = Callable[[Origin], str]


class DigestedPairs:
    """Pairs as they are read, with a digest of those read so far.

    Args:
        pairs: all of the input.
        describe: returns what the output reports of a line in addition to its links.

    Attributes:
        lines: number of lines read so far.
        every: number of lines after which a digest is stored, until a later one is requested.
    """

    def __init__(self, pairs: Iterator[Pair], describe: Describe) -> None:
        self._pairs, self._describe, self.lines, self._digest = pairs, describe, 0, blake2b(digest_size=32)
        self.every, self._digests = sys.maxsize, deque[tuple[int, str]]()

    def __iter__(self) -> DigestedPairs:
        return self

    def __next__(self) -> Pair:
        pair = next(self._pairs)
        self.lines += 1
        source, target = " ".join(pair.source), " ".join(pair.target)
        if isinstance(pair, LinePair):
            source, target = pair.source_line, pair.target_line
        texts = source, target, self._describe(pair.origin)
        self._digest.update("".join(f"{len(text)} {text}\n" for text in texts).encode())
        if self.lines % self.every == 0:
            self._digests.append((self.lines, self.digest))
        return pair

    def digest_of(self, lines: int) -> str:
        """Return the digest of the first lines, a multiple of `every`, and no fewer than in the previous call."""
        while self._digests[0][0] < lines:
            self._digests.popleft()
        multiple, digest = self._digests[0]
        assert multiple == lines, "not a multiple"
        return digest

    @property
    def digest(self) -> str:
        """The digest of all lines read so far."""
        return self._digest.hexdigest()


class Blocks:
    """The blocks of an unfinished result.

    Args:
        path: the result.
        lists: whether bad lines are listed.

    Attributes:
        folder: the folder of the blocks.
        out: the file of the current block.
        listing: its list of bad lines, if there is one.
        size: lines of a block.
        lines: number of lines in finished blocks.
        counts: lines of the result so far, by reason for no links; the writer updates it.
        choices: where each direction is read; empty until a finished block records it.

    Raises:
        OSError: another file has the name of the folder, or the folder cannot be written.
    """

    def __init__(self, path: str, lists: bool) -> None:
        self.folder, self._lists = parts_of(path), lists
        self.size = self.lines = 0
        self.counts: Counter[str] = Counter()
        self.choices: tuple[Choice, ...] = ()
        self.listing: BinaryIO | None = None
        self._settings: Mapping[str, Any] = {}
        self._records: list[Record] = []
        self._saved_counts: Counter[str] = Counter()
        self._read = DigestedPairs(iter(()), lambda _: "")
        self._files = ExitStack()
        with suppress(FileExistsError):
            os.mkdir(self.folder)
        own = not os.path.islink(self.folder) and os.path.isdir(self.folder)
        self._run = _read_run(self.folder) if own else None
        if not own or (self._run is None and not all(map(_is_temporary, os.listdir(self.folder)))):
            raise OSError(errno.EEXIST, "is in the way: remove it", self.folder)

    @property
    def anew(self) -> str:
        """Advice for messages if the blocks are unusable."""
        return anew(self.folder)

    def begin(self, settings: Mapping[str, Any], pairs: DigestedPairs, name: str, buffer: int) -> Iterator[Pair]:
        """Find the finished blocks, and start the next one.

        Args:
            settings: what the output depends on, by name; they must be the same each time.
            pairs: all of the input.
            name: name of the input in messages.
            buffer: lines that are aligned together.

        Returns:
            The remaining pairs to align.

        Raises:
            ValueError: the blocks are damaged, or of another run or another input; the message says how to start over.
        """
        self.size, self._settings, self._read = BUFFERS * buffer, settings, pairs
        if self._run and self._has_blocks():
            self._check(self._run, name)
        else:
            self._write_run(())
        self._read.every = self.size
        self._start()
        return self._read

    def save(self, lines: int, choices: Sequence[Choice]) -> None:
        """Finish the current block if all of its lines are written.

        Args:
            lines: number of lines of the result written so far.
            choices: where each direction is read.
        """
        if lines % self.size:
            return
        self._files.close()
        if choices and not self.choices:  # blank blocks choose nothing
            self.choices = tuple(choices)
            self._write_run(self.choices)
        number = len(self._records) + 1
        outputs = [_describe(self._path(name)) for name in self._names(number)]
        counts, run = dict(self.counts - self._saved_counts), {RUN: digest_of(self._path(RUN))}
        record = Record(run, [], self._read.digest_of(lines), self.size, counts, outputs)
        self._write(_record_name(number), asdict(record))
        self._records.append(record)
        self.lines, self._saved_counts = lines, Counter(self.counts)
        self._start()

    def join(self, inputs: Sequence[Stamp], files: Sequence[BinaryIO]) -> Record:
        """Write all blocks to the result, and return its record, which has no outputs yet.

        Args:
            inputs: stamps of the input files.
            files: to write to: the result, and the list of bad lines if there is one.

        Raises:
            ValueError: a block has changed since it was finished.
        """
        self._files.close()
        for number in range(1, len(self._records) + 2):
            for name, file in zip(self._names(number), files, strict=True):
                self._copy(number, name, file)
        return Record(self._settings, inputs, self._read.digest, self._read.lines, dict(self.counts), [])

    def close(self, error: BaseException) -> None:
        """Remove the unfinished block, and the folder if no block is finished."""
        self._files.__exit__(type(error), error, error.__traceback__)
        if not self._has_blocks():
            _remove_parts(self.folder)

    def _has_blocks(self) -> bool:
        return os.path.lexists(self._path(_record_name(1)))

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _names(self, number: int) -> list[str]:
        """Return the names of a block's files."""
        return [f"{number:05}", *([f"{number:05}.bad"] if self._lists else [])]

    def _start(self) -> None:
        number = len(self._records) + 1
        self._files = ExitStack()
        self.out, *listing = (self._files.enter_context(replace_file(self._path(name))) for name in self._names(number))
        self.listing = listing[0] if listing else None

    def _write_run(self, choices: Sequence[Choice]) -> None:
        self._write(RUN, asdict(Run(self._settings, choices)))

    def _write(self, name: str, content: Any) -> None:
        with replace_file(self._path(name)) as out:
            out.write(dump_json(content))

    def _read_block(self, number: int) -> Record | None:
        """Read the record of a block; None if there is none."""
        path = self._path(_record_name(number))
        if not os.path.lexists(path):
            return None
        try:
            record = Record.of(load_json(_read_start(path)))
            if record.rows == self.size and [output[0] for output in record.outputs] == self._names(number):
                return record
        except ValueError:
            pass
        raise ValueError(f"{path} is not a record of this program, or is damaged: {self.anew}")

    def _check(self, run: Run, name: str) -> None:
        """Check that finished blocks are complete and belong to these settings and this input."""
        if changes := differences(run.settings, self._settings):
            raise ValueError(f"{self.folder} is of another run ({changes}): {self.anew}")
        digest = digest_of(self._path(RUN))
        without = digest_of(io.BytesIO(dump_json(asdict(Run(self._settings, ())))))  # before anything was chosen
        while record := self._read_block(number := len(self._records) + 1):
            self._records.append(record)
            if record.run == {RUN: digest} and (run.choices or digest == without):
                self.choices = tuple(run.choices)
            elif record.run != {RUN: without} or self.choices:
                raise ValueError(f"{self._path(_record_name(number))} is not of the run in {RUN}: {self.anew}")
            for file in self._names(number):
                self._copy(number, file, None)
            self.counts.update(record.counts)
        self._saved_counts = Counter(self.counts)
        self.lines = self.size * len(self._records)
        for _ in islice(self._read, self.lines):
            pass
        if self._read.lines < self.lines:
            lines = f"{name} has {self._read.lines:,} lines"
            raise ValueError(f"{lines}, and {self.folder} is of the first {self.lines:,}: {self.anew}")
        if self._read.digest != self._records[-1].digest:
            first = f"the first {self.lines:,} lines are not those that {self.folder} is of"
            raise ValueError(f"{name}: {first}: {self.anew}")

    def _copy(self, number: int, name: str, file: BinaryIO | None) -> None:
        """Copy a file of a block, or only read it, and compare it with the record if the block is finished."""
        path, digest = self._path(name), blake2b(digest_size=32)
        size = _size_of(path)
        if size is None:
            raise ValueError(f"{path} is missing, or not a regular file: {self.anew}")
        recorded = None
        if number <= len(self._records):
            recorded = self._records[number - 1].outputs[self._names(number).index(name)]
        if recorded is None or size == recorded[1]:  # a sparse file may be of any size
            with open(path, "rb") as stream:
                while data := stream.read(COPIED):
                    digest.update(data)
                    if file:
                        file.write(data)
        if recorded is not None and [*recorded] != [name, size, digest.hexdigest()]:
            raise ValueError(f"{path} is not what {_record_name(number)} says: {self.anew}")


@contextmanager
def open_blocks(path: str, inputs: Sequence[Stamp], listing: str | None = None) -> Iterator[Blocks]:
    """Open a result that is written in blocks, and joined when the context ends without an error.

    The files of the result are locked from the beginning, so that no other run writes them.

    Args:
        path: the result.
        inputs: a stamp for each input file.
        listing: the file that lists bad lines, if there is one.

    Raises:
        OSError: a file cannot be written, another run is writing it, or another file has the name of one of ours.
    """
    read_record(path)  # another file may have its name
    record: Record | None = None

    def write_record(part: str) -> None:
        """Write the record of the result, which has a temporary name still, and of the list, which is in place."""
        assert record
        outputs = [[os.path.basename(link_target(path)), *_describe(part)[1:]]]
        if listing and os.path.isfile(listing):  # not a device
            outputs.append(_describe(listing))
        with replace_file(record_of(path)) as out:
            out.write(dump_json(asdict(record) | {"outputs": outputs}))

    with ExitStack() as stack:
        files = [stack.enter_context(open_output(path, write_record))]
        files += [stack.enter_context(open_output(name)) for name in (listing,) if name]
        blocks = Blocks(path, listing is not None)
        try:
            yield blocks
            record = blocks.join(inputs, files)
        except BaseException as error:
            blocks.close(error)
            raise
    _remove_parts(blocks.folder)


def _read_run(folder: str) -> Run | None:
    """Read the description of the run; None if the folder has no valid one."""
    try:
        return Run.of(load_json(_read_start(os.path.join(folder, RUN))))
    except ValueError:
        return None


def _size_of(path: str) -> int | None:
    """Return the size of a regular file; None for anything else, such as a symbolic link, which is not followed."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _read_start(path: str) -> bytes:
    """Read a regular file that is not larger than a record; return no bytes for others."""
    size = _size_of(path)
    if size is None or size > MAX_RECORD:
        return b""
    with open(path, "rb") as stream:
        return stream.read(MAX_RECORD)


def _describe(path: str) -> list[Any]:
    """Return the name, the size and the digest of a file."""
    return [os.path.basename(path), os.path.getsize(path), digest_of(path)]


def _record_name(number: int) -> str:
    return f"{number:05}.json"


def _is_temporary(name: str) -> bool:
    """Tell whether a file has the temporary name of one of a block."""
    match = _TEMPORARY.fullmatch(name)
    return match is not None and name == temporary_name(match[1])


def _remove_parts(folder: str) -> None:
    """Remove blocks, the last one first, and then `run.json`: what is left at any time can be resumed."""
    names = [name for name in os.listdir(folder) if _FINISHED.fullmatch(name) or _is_temporary(name)]
    for name in (*sorted(names, reverse=True), RUN):
        with suppress(OSError):  # e.g. a folder of that name
            os.unlink(os.path.join(folder, name))
    with suppress(OSError):  # other files are in it
        os.rmdir(folder)


def finished(path: str, listing: str | None = None) -> Record | None:
    """Return the record of the run that made a result; None without a result.

    Args:
        path: the result.
        listing: its list of bad lines, if requested.

    Raises:
        ValueError: the result has no record, it or its list has been changed since, or its list is missing.
        OSError: the result or its record cannot be read.
    """
    if not os.path.exists(path):
        return None
    record = read_record(path)
    if record is None:
        raise ValueError(f"{path} is there, and no record of the run that made it: {anew(path)}")
    if listing and not os.path.exists(listing):
        raise ValueError(f"{path} is there, and {listing} is not: {anew(path)}")
    for name, output in zip((path, *filter(None, [listing])), record.outputs, strict=False):
        _check_output(name, output, path)
    return record


def remove_joined(path: str, record: Record) -> None:
    """Remove the blocks of a result, which a run that was killed at its very end has left."""
    folder = parts_of(path)
    if not os.path.islink(folder) and (run := _read_run(folder)) and run.settings == record.run:
        _remove_parts(folder)
    with suppress(OSError):  # there is none, or other files are in it
        os.rmdir(folder)


def parts_of(path: str) -> str:
    """Return the folder for the blocks of a result."""
    return beside(link_target(path), "", ".parts")


def _check_output(name: str, output: Output, path: str) -> None:
    """Check that a file is as the record of a result says.

    Raises:
        ValueError: the file has been changed since.
    """
    size, record = os.path.getsize(name), record_of(path)
    _, recorded_size, recorded_digest = output
    if size != recorded_size:
        raise ValueError(f"{name} has {size:,} bytes, and {record} says {recorded_size:,}: {anew(path)}")
    if digest_of(name) != recorded_digest:
        raise ValueError(f"{name} is not what it was when {record} was written: {anew(path)}")


def check_run(record: Record, path: str, run: Mapping[str, Any]) -> None:
    """Check that a result is of the same run.

    Raises:
        ValueError: the result is of another run; says how it differs.
    """
    if changes := differences(record.run, run):
        raise ValueError(f"{path} is of another run ({changes}): {anew(path)}")


def check_input(record: Record, path: str, inputs: Sequence[Stamp], read: DigestedPairs, name: str) -> None:
    """Check that the input is the same, by the stamps of its files if they suffice, else by all of its lines.

    Raises:
        ValueError: the input has changed.
    """
    if None not in inputs and list(inputs) == list(record.inputs):
        return
    for _ in read:
        pass
    if read.lines != record.rows:
        raise ValueError(f"{name} has {read.lines:,} lines, and {path} is of {record.rows:,}: {anew(path)}")
    if read.digest != record.digest:
        raise ValueError(f"{name}: the lines are not those that {path} is of: {anew(path)}")


def record_of(path: str) -> str:
    """Return the name of a result's record."""
    return beside(link_target(path), "", ".run.json")


def anew(path: str) -> str:
    """Return advice for messages about an invalid file or folder."""
    return f"remove {path} to start again"


def read_record(path: str) -> Record | None:
    """Read the record of a result; None if there is none.

    Raises:
        OSError: the record cannot be read, or another file has its name.
    """
    name = record_of(path)
    if not os.path.lexists(name):
        return None
    try:
        record = Record.of(load_json(_read_start(name)))
        if len(record.outputs) in (1, 2):  # the result, and the list of bad lines
            return record
    except ValueError:
        pass
    raise OSError(errno.EEXIST, "is in the way: remove it", name)


def stamp(name: str) -> Stamp:
    """Return the name, size and time of an input file; None if it is not a regular file."""
    if name == "-":
        return None
    try:
        status = os.stat(name)
    except (OSError, ValueError):  # reported where it is opened
        return None
    return [os.path.abspath(name), status.st_size, status.st_mtime_ns] if stat.S_ISREG(status.st_mode) else None
