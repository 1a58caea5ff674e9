"""Read files and stdin as numbered sentence pairs, one at a time regardless of the input's length.

Lines end at `\\n` only, words at ASCII space or TAB only: Python's own `split` also cuts at U+00A0, U+2028
and others, which would shift every index after them.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any, BinaryIO, TextIO, TypeAlias

from align.core.errors import DataError, LineError, plural, printable
from align.core.text import MakePair, make_pair
from align.core.types import Origin, Pair, TextWarning
from align.io.compression import DAMAGED, OPENERS, suffix_of

MAGIC = {
    b"\x1f\x8b": "compressed data",
    b"\xfd7zXZ\x00": "compressed data",
    b"\x28\xb5\x2f\xfd": "compressed data",
    b"BZh": "compressed data",
    b"PK\x03\x04": "a zip archive",
    b"PAR1": "a Parquet file",
    b"%PDF-": "a PDF",
    b"\xff\xfe": "UTF-16 or UTF-32",
    b"\xfe\xff": "UTF-16",
}
"""First bytes of files that are not UTF-8 text, unless text follows them."""

_DOCUMENT = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<[?!][^>]*>\s*)*<(tmx|xliff)\s+[\w:]+=", re.IGNORECASE)


def recognise_file(head: bytes) -> str:
    """Return what a file is that is not UTF-8 text; "" if it may be text.

    Args:
        head: the first bytes of the file, at least its first line.
    """
    if document := _DOCUMENT.match(head):
        return f"{document[1].decode().upper()}, a document"
    zeros = [head[n::2].count(0) for n in (0, 1)]
    if not min(zeros) and max(zeros) >= max(8, len(head) // 20):
        return "UTF-16"  # zeros in every second byte only, as spaces and line ends have
    kind = next((name for magic, name in MAGIC.items() if head.startswith(magic)), "")
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":  # a character may be cut off at the end
            return kind
        text = head[: error.start].decode()
    return kind if re.search(r"[\x00-\x08\x0e-\x1f]", text) else ""


OnBad: TypeAlias = Callable[[LineError], None]
"""Handler for the error of an unreadable line: raises it, or returns to replace the line by a blank one."""


def stop_at(error: LineError) -> None:
    """Raise on the first bad line."""
    raise error


class BadLines:
    """The policy for unreadable lines: raise on the first one, or replace each by a blank line.

    Attributes:
        blank: whether they become blank; None if a command does not offer that. `drop`: whether it could drop them.
        on_blank: callback that receives the error of each line that became blank, and the content of the line.
    """

    def __init__(self, blank: bool | None, drop: bool = True) -> None:
        self.blank, self.drop, self.count, self._first = blank, drop, 0, ""
        self._error: LineError | None = None  # of the line that is being read
        self.on_blank: Callable[[LineError, Any], object] | None = None

    def __call__(self, error: LineError, raw: Any = None) -> None:
        """Raise the error of a line, or note the first one of each line."""
        if not self.blank:
            if self.blank is not None:
                drop = ", drop leaves them out" * self.drop
                error.hint += f"{error.hint and '; '}‹bad_lines=blank› treats such lines as blank{drop}"
            raise error
        if self._error is None:
            self._error = error
            self.count += 1
            self._first = self._first or str(error)
            if self.on_blank:
                self.on_blank(error, raw)

    def take(self) -> LineError | None:
        """Return the error of the line that has just been read, if it has one."""
        error, self._error = self._error, None
        return error

    def warn(self, done: str = "treated as blank") -> None:
        """Warn of the noted lines, if there are any."""
        if self.count:
            message = f"{plural(self.count, 'unreadable line')} {done}; the first: {self._first}"
            warnings.warn(message, TextWarning, stacklevel=2)


@contextmanager
def open_lines(name: str, on_open: Callable[[BinaryIO], None] | None = None) -> Iterator[BinaryIO]:
    """Open a file for reading bytes: `.gz`, `.xz` and `.zst` are decompressed, `-` is stdin.

    Args:
        on_open: callback that receives the raw file, before decompression.
    """
    if name == "-" and sys.stdin is None:
        raise DataError("stdin is closed")
    with nullcontext(sys.stdin.buffer) if name == "-" else open(name, "rb") as raw:
        if on_open:
            on_open(raw)
        with OPENERS.get(suffix_of(name), nullcontext)(raw) as stream:
            yield stream


def read_lines(stream: Iterable[bytes], name: str, on_bad: OnBad = stop_at) -> Iterator[str]:
    """Decode lines, without their ends (LF or CRLF) and without a byte order mark."""
    number = 0
    try:
        head: bytes = stream.peek(8192) if hasattr(stream, "peek") else b""
        for number, raw in enumerate(stream, 1):
            if number == 1 and (kind := recognise_file(max(head, raw, key=len))):
                hint = "extract-align reads UTF-8 text, plain or compressed as .gz, .xz or .zst"
                raise DataError(f"the file is {kind}", file=name, hint=hint)
            raw, text = raw.removesuffix(b"\n").removesuffix(b"\r"), ""
            try:
                text = raw.decode()
            except UnicodeDecodeError as error:
                what = f"not UTF-8 (byte 0x{raw[error.start]:02x} at position {error.start + 1})"
                hint = "save it as UTF-8, in an editor or with iconv"
                on_bad(LineError(what, "not UTF-8", file=name, line=number, hint=hint))
            yield text.removeprefix("\ufeff") if number == 1 else text
    except DAMAGED as error:
        raise DataError(f"damaged compressed data ({error})", file=name, line=number + 1) from None
    except OSError as error:
        if error.filename is not None:  # of a list of bad lines that cannot be written
            raise
        raise DataError(f"cannot be read: {error.strerror or error}", file=name, line=number + 1) from None


class SideSplitter:
    """Splits the lines of one file into source and target, all at the separator of the first line that has one.

    Args:
        hint: advice for a file whose first lines have no separator.
    """

    def __init__(self, hint: str = "") -> None:
        self._separator, self._hint = "", hint

    def __call__(self, line: str) -> tuple[str, str]:
        """Split a line; a line of spaces has two blank sides."""
        if not line.strip(" \t"):
            return "", ""
        if "||||" in line:
            raise LineError("more than three bars in a row; the separator is |||")
        by_bars = line.split("|||")
        if len(by_bars) > 1 and any("\t" in side.strip(" \t") for side in by_bars):
            raise LineError("both ||| and TAB, but only one can be the separator")
        separator = "|||" if len(by_bars) > 1 else "\t"
        sides = line.split(separator)
        label, expected = ("TAB" if mark == "\t" else mark for mark in (separator, self._separator))
        if len(sides) == 1:
            hint = "" if self._separator else self._hint
            raise LineError("no ||| and no TAB between source and target", hint=hint)
        if self._separator and separator != self._separator:
            raise LineError(f"expected {expected} between source and target, as in the lines before; got {label}")
        if len(sides) != 2:
            raise LineError(f"expected two fields between {label}; got {len(sides)}")
        self._separator = separator
        return sides[0], sides[1]


def parse_columns(line: str, columns: Sequence[int]) -> tuple[str, ...]:
    """Return selected columns of a TAB-separated line; a line of spaces and TABs has blank ones."""
    if not line.strip(" \t"):
        return ("",) * len(columns)
    fields = line.split("\t")
    if len(fields) < max(columns):
        raise LineError(f"no column {max(columns)}: the line has {len(fields)}, separated by TABs")
    return tuple(fields[column - 1] for column in columns)


def split_lines(
    lines: Iterable[str], name: str, split: Callable[[str], tuple[str, ...]], on_bad: OnBad
) -> Iterator[tuple[str, ...]]:
    """Yield the fields of each line; two blank ones if it cannot be split and the handler permits that."""
    for number, line in enumerate(lines, 1):
        fields: tuple[str, ...] = "", ""
        try:
            fields = split(line)
        except LineError as error:
            on_bad(error.in_file(name, number))
        yield fields


def read_bitext(
    lines: Iterable[str],
    name: str,
    columns: Sequence[int] | None = None,
    on_bad: OnBad = stop_at,
    make: MakePair = make_pair,
    hint: str = "",
) -> Iterator[Pair]:
    """Read pairs from lines `source ||| target` or `source TAB target`, or from two of several columns.

    The first line that has `|||` or TAB sets the separator of all lines.

    Args:
        columns: columns of source and target, from 1, between TABs; None for lines that hold only these two.
        hint: advice for a file whose first lines have no separator.
    """
    if columns:
        sides = split_lines(lines, name, partial(parse_columns, columns=columns), on_bad)
    else:
        unnumbered = (line for (line,) in refuse_numbers(zip(lines, strict=True), (name,)))
        sides = split_lines(unnumbered, name, SideSplitter(hint), on_bad)
    for number, (source, target) in enumerate(sides, 1):
        yield make(source, target, number)


def refuse_numbers(rows: Iterable[tuple[str, ...]], names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Pass rows of one file or of several parallel files on, unless lines begin with a running number and a TAB.

    The first three lines that are not blank decide, of which one may be a header.

    Args:
        rows: the lines of all files with the same number.
        names: names of the files in errors; further columns may hold anything.
    """
    before: list[int | None] = []
    left = 3
    for row in rows:
        sides = row[: len(names)]
        if left and any(side.strip(" \t") for side in sides):
            left -= 1
            numbers = [int(match[1]) if (match := re.match(r"([0-9]{1,9})\t", side)) else None for side in sides]
            for name, last, number in zip(names, before, numbers, strict=False):
                if last is not None and number == last + 1:
                    hint = "`cut -f 2-` removes the numbers"
                    raise DataError("its lines begin with a running number and a TAB", file=name, hint=hint)
            before = numbers
        yield row


def in_step(files: Sequence[Iterable[Any]], names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Iterate over several files of equal length together, line by line.

    Args:
        files: lines of each, or what was read from each line.
    """
    streams = [iter(lines) for lines in files]
    for number, lines in enumerate(zip_longest(*streams), 1):
        if None in lines:
            short, long = lines.index(None), next(n for n, line in enumerate(lines) if line is not None)
            counts = {short: number - 1, long: number + sum(1 for _ in streams[long])}
            first, second = ((names[n], count) for n, count in sorted(counts.items()))
            raise differ(first, second)
        yield lines


def differ(first: tuple[str, int], second: tuple[str, int]) -> DataError:
    """Return the error of two files, given by name and number of lines, that differ in length."""
    lengths = f"{first[0]} has {plural(first[1], 'line')}, {second[0]} has {second[1]:,}"
    return DataError(f"{lengths}: line {min(first[1], second[1]) + 1:,} has no counterpart")


def read_parallel(
    sources: Iterable[str], targets: Iterable[str], names: tuple[str, str], make: MakePair = make_pair
) -> Iterator[Pair]:
    """Read pairs from two files, line by line."""
    for number, (source, target) in enumerate(refuse_numbers(in_step((sources, targets), names), names), 1):
        yield make(source, target, number)


def read_text(source: str, target: str, names: tuple[str, str] | None = None) -> list[Pair]:
    """Read all pairs of two files into a list.

    Args:
        source: file of the source sentences; `.gz`, `.xz` and `.zst` are decompressed, `-` is stdin.
        target: file of their translations, line by line.
        names: names of the files in errors, if different.

    Raises:
        OSError: a file cannot be opened.
        DataError: the files differ in length, are not text, or their lines begin with a running number.
    """
    names = names or (source, target)
    with open_lines(source) as a, open_lines(target) as b:
        return list(read_parallel(read_lines(a, names[0]), read_lines(b, names[1]), names))


def read_sources(
    lines: Iterable[str], name: str, column: int | None = None, on_bad: OnBad = stop_at, make: MakePair = make_pair
) -> Iterator[Pair]:
    """Read source sentences as pairs without a target; warn once about a line that looks like both sides of a bitext.

    Args:
        column: the column to read, from 1, between TABs; None for whole lines.
    """
    warned = has_text = False
    if column:
        rows = split_lines(lines, name, partial(parse_columns, columns=(column,)), on_bad)
    else:
        rows = refuse_numbers(zip(lines, strict=True), (name,))
    for number, (text, *_) in enumerate(rows, 1):
        separator = "|||" if "|||" in text else ""
        if not has_text and not separator and len([side for side in text.split("\t") if side.strip()]) == 2:
            separator = "a TAB"  # in the first line, as in that of bitext
        has_text = has_text or bool(text.strip(" \t"))
        if separator and not warned:
            reading = "word" if separator == "|||" else "space"
            warning = f"{separator} found, but only source sentences are expected; it is read as a {reading}"
            warnings.warn(f"{name}, line {number}: {warning}", TextWarning, stacklevel=2)
            warned = True
        yield make(text, "", number)


@dataclass(frozen=True)
class Input:
    """Files to read as one text."""

    files: tuple[str, ...]  # "-" is stdin
    parallel: bool = False  # whether there are two files, one for each side
    one_side: bool = False
    columns: tuple[int, ...] = ()  # of both sides or the source, from 1, between TABs; empty: whole lines
    blank: bool | None = False
    drop: bool = False  # whether the output has no line for unreadable and blank ones
    make: MakePair = make_pair


def regular_file(file: str | TextIO | None) -> os.stat_result | None:
    """Return the status of a regular file, given by name or open; None for anything else."""
    try:
        status = os.stat(file) if isinstance(file, str) else os.fstat(file.fileno()) if file else None
    except (OSError, ValueError):  # e.g. a stream without a file descriptor
        return None
    return status if status and stat.S_ISREG(status.st_mode) else None


def name_shown(name: str) -> str:
    """Return the name of a file for messages, without characters that would break the line."""
    return "stdin" if name == "-" else printable(name)


class Text(Iterator[Pair]):
    """The sentence pairs of the input as they are read, numbered through all of its files."""

    def __init__(self, source: Input) -> None:
        names = list(map(name_shown, source.files))
        self.name = "the input" if len(names) > 1 and not source.parallel else " and ".join(names)
        self.lines, self.bad = 0, BadLines(source.blank)  # pairs read so far; the policy for bad lines
        self._input = source
        self._texts = [tuple(source.files)] if source.parallel else [(name,) for name in source.files]
        self._names = [" and ".join(map(name_shown, text)) for text in self._texts]
        sides = self._names if len(self._texts) == 2 else ["FILE", "FILE"]
        hint = f'is each file one side of the text? ‹source="{sides[0]}"› ‹target="{sides[1]}"›'
        self._hint = hint if len(self._texts) < 3 else ""
        self._files_begun = 0
        for name in source.files:
            if name != "-" and not stat.S_ISFIFO(os.stat(name).st_mode):  # which opening would affect
                open(name, "rb").close()
        statuses = [regular_file(sys.stdin if first == "-" else first) for first, *_ in self._texts]
        self._sizes = [status.st_size if status else None for status in statuses]
        self._raw: BinaryIO | None = None  # the file that is being read, or the first of two
        self._pairs = self._read()

    def __next__(self) -> Pair:
        return next(self._pairs)

    def close(self) -> None:
        """Close the file that is being read."""
        self._pairs.close()

    @property
    def expected(self) -> int | None:
        """The number of lines, estimated from the bytes read so far; None if sizes are not known."""
        sizes = [size for size in self._sizes if size is not None]
        if not self.lines or len(sizes) < len(self._sizes):
            return None
        current = self._files_begun - 1
        done = sum(sizes[:current]) + (self._raw.tell() if self._raw else sizes[current])
        return max(self.lines, round(self.lines * sum(sizes) / max(1, done)))

    def _read(self) -> Generator[Pair, None, None]:
        source = self._input
        for files, name in zip(self._texts, self._names, strict=True):
            self._files_begun += 1
            with ExitStack() as stack:
                stack.callback(setattr, self, "_raw", None)
                names = list(map(name_shown, files))
                lines = [
                    read_lines(stack.enter_context(open_lines(file, self._opened)), label, self.bad)
                    for file, label in zip(files, names, strict=True)
                ]
                pairs: Iterator[Pair]
                if source.parallel:
                    pairs = read_parallel(lines[0], lines[1], (names[0], names[1]), source.make)
                elif source.one_side:
                    pairs = read_sources(lines[0], name, next(iter(source.columns), None), self.bad, source.make)
                else:
                    pairs = read_bitext(lines[0], name, source.columns, self.bad, source.make, self._hint)
                for number, pair in enumerate(pairs, 1):
                    self.lines += 1
                    yield replace(pair, id=self.lines, origin=Origin(name, number, self.bad.take()))

    def _opened(self, raw: BinaryIO) -> None:
        self._raw = self._raw or raw
