"""Read files and stdin as numbered sentence pairs, one at a time regardless of the input's length.

Lines end at `\\n` only, words at ASCII space or TAB only: Python's own `split` also cuts at U+00A0, U+2028
and others, which would shift every index after them.
"""

from __future__ import annotations

import json
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
from align.core.stream import BLANK
from align.core.text import MakePair, make_pair
from align.core.types import Origin, Pair, TextWarning
from align.io.compression import DAMAGED, OPENERS
from align.io.fields import RUNNING_NUMBER, SideSplitter, parse_columns

JSON_LINES = "JSON lines"
_BOM = b"\xef\xbb\xbf"

_BZIP2 = [b"BZh%d1AY&SY" % level for level in range(1, 10)]
_TO_PLAIN = "write the text of each side, a sentence a line"
_CONVERT = "convert it to UTF-8, for example with iconv"
_UNPACK = "unpack it first, or name the file .gz, .xz or .zst"


def _starts(*beginnings: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(beginnings)


def _matches(pattern: bytes) -> Callable[[bytes], bool]:
    compiled = re.compile(rb"(?:\xef\xbb\xbf)?\s*" + pattern, re.IGNORECASE)
    return lambda head: compiled.match(head) is not None


def _is_utf16(mark: bytes, zeros: int) -> Callable[[bytes], bool]:
    """Return a test for a byte order mark, or for zeros in every second byte only, as spaces and line ends have."""

    def test(head: bytes) -> bool:
        count, other_zeros = head[zeros::2].count(0), head[1 - zeros :: 2].count(0)
        return head.startswith(mark) or (not other_zeros and count >= max(8, len(head) // 20))

    return test


def _is_binary(*beginnings: bytes) -> Callable[[bytes], bool]:
    """Return a test for these first bytes, followed by data that is not UTF-8 or has control characters."""

    def test(head: bytes) -> bool:
        if not head.startswith(beginnings):
            return False
        try:
            text = head.decode()
        except UnicodeDecodeError as error:
            return error.start < len(head) - 3  # a character may be cut off at the end
        return re.search(r"[\x00-\x08\x0e-\x1f]", text) is not None

    return test


def _is_po(head: bytes) -> bool:
    """Check that the first line that is not a comment begins a message of gettext."""
    lines = (line for line in head.removeprefix(_BOM).split(b"\n") if line.strip())
    line = next((line for line in lines if not line.startswith(b"#")), b"")
    return re.fullmatch(rb'(?:msgid|msgctxt|domain) ".*"\s*', line) is not None


def _is_json(head: bytes) -> bool:
    """Check that the first line, and the second if it is complete, is a JSON object that is not empty."""
    lines = head.removeprefix(_BOM).split(b"\n")
    complete = [line for line in lines[:-1] if line.strip()][:2] or lines[-1:]
    try:
        return all(line.startswith(b"{") and json.loads(line) for line in complete)
    except (ValueError, RecursionError):
        return False


_TYPES: tuple[tuple[str, str, Callable[[bytes], bool]], ...] = (
    ("compressed data", _UNPACK, _starts(b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", *_BZIP2)),
    ("a zip archive", "unpack it first", _starts(b"PK\x03\x04")),
    ("a tar archive", "unpack it first", lambda head: head[257:262] == b"ustar"),
    ("a Parquet file", "extract-align reads such files in jobs, named .parquet", _is_binary(b"PAR1")),
    ("a PDF", _TO_PLAIN, _matches(rb"%PDF-[0-9.]+\s*[\r\n]")),
    ("UTF-32", _CONVERT, _starts(b"\xff\xfe\0\0", b"\0\0\xfe\xff")),
    ("UTF-16LE", _CONVERT, _is_utf16(b"\xff\xfe", 1)),
    ("UTF-16BE", _CONVERT, _is_utf16(b"\xfe\xff", 0)),
    ("TMX", _TO_PLAIN, _matches(rb"(?:<[?!][^>]*>\s*)*<tmx(?:\s+\w+=|>\s*(?:<|$))")),
    ("XLIFF", _TO_PLAIN, _matches(rb"(?:<[?!][^>]*>\s*)*<xliff(?:\s+[\w:]+=|>\s*(?:<|$))")),
    ("a PO catalogue", _TO_PLAIN, _is_po),
    (JSON_LINES, "extract-align reads such files in jobs, named .jsonl, and extract-align transfer as spans", _is_json),
)


def recognise_file(head: bytes, json_lines: bool = True) -> tuple[str, str] | None:
    """Return the type of a file that is not UTF-8 text, and what to do; None if it may be text.

    Args:
        head: the first bytes of the file, at least its first line.
    """
    for name, advice, test in _TYPES:
        if not (json_lines and name == JSON_LINES) and test(head):
            return name, advice
    return None


OnBad: TypeAlias = Callable[[LineError], None]
"""Handler for the error of an unreadable line: raises it, or returns to replace the line by a blank one."""


def stop_at(error: LineError) -> None:
    """Raise on the first bad line."""
    raise error


class BadLines:
    """The policy for unreadable lines: raise on the first one, or replace each by a blank line.

    Attributes:
        blank: whether they become blank; None if a command does not offer that.
        on_blank: callback that receives the error of each line that became blank, and the content of the line.
    """

    def __init__(self, blank: bool | None) -> None:
        self.blank, self.count, self._first = blank, 0, ""
        self._error: LineError | None = None  # of the line that is being read
        self.on_blank: Callable[[LineError, Any], object] | None = None

    def __call__(self, error: LineError, raw: Any = None) -> None:
        """Raise the error of a line, or note the first one of each line."""
        if not self.blank:
            if self.blank is not None:
                error.hint += f"{error.hint and '; '}{BLANK} leaves such lines blank"
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

    def warn(self) -> None:
        """Warn of the noted lines, if there are any."""
        if self.count:
            message = f"{plural(self.count, 'line')} cannot be read and became blank; the first: {self._first}"
            warnings.warn(message, TextWarning, stacklevel=2)


@contextmanager
def open_lines(name: str, on_open: Callable[[BinaryIO], None] | None = None) -> Iterator[BinaryIO]:
    """Open a file for reading bytes: `.gz`, `.xz` and `.zst` are decompressed, `-` is stdin.

    Args:
        on_open: callback that receives the raw file, before decompression.

    Raises:
        DataError: stdin is closed.
    """
    if name == "-" and sys.stdin is None:
        raise DataError("stdin is closed")
    with nullcontext(sys.stdin.buffer) if name == "-" else open(name, "rb") as raw:
        if on_open:
            on_open(raw)
        opener = next((opener for suffix, opener in OPENERS.items() if name.endswith(suffix)), None)
        with opener(raw) if opener else nullcontext(raw) as stream:
            yield stream


def read_lines(
    stream: Iterable[bytes], name: str, on_bad: OnBad = stop_at, *, json_lines: bool = True
) -> Iterator[str]:
    """Decode lines, without their ends (LF or CRLF) and without a byte order mark.

    Raises:
        LineError: a line is not UTF-8; names the file and the line.
        DataError: the file is of a type that is not text, compressed data is damaged, or the disk fails; names the file
            and the line.
    """
    number = 0
    try:
        head: bytes = stream.peek(8192) if hasattr(stream, "peek") else b""
        for number, raw in enumerate(stream, 1):
            if number == 1 and (recognised := recognise_file(max(head, raw, key=len), json_lines)):
                raise DataError(f"the file is {recognised[0]}", file=name, hint=recognised[1])
            text = _decode(raw.removesuffix(b"\n").removesuffix(b"\r"), name, number, on_bad)
            yield text.removeprefix("\ufeff") if number == 1 else text
    except DAMAGED as error:
        raise DataError(f"damaged compressed data ({error})", file=name, line=number + 1) from None
    except OSError as error:
        if error.filename is not None:  # of a list of bad lines that cannot be written
            raise
        raise DataError(f"cannot be read: {error.strerror or error}", file=name, line=number + 1) from None


def _decode(raw: bytes, name: str, number: int, on_bad: OnBad) -> str:
    """Decode a line; return "" for one that is not UTF-8, if the handler permits it."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        message = f"not UTF-8 (byte 0x{raw[error.start]:02x} at position {error.start + 1})"
    hint = "convert the file, for example with iconv"
    on_bad(LineError(message, "not UTF-8", file=name, line=number, hint=hint))
    return ""


Split: TypeAlias = Callable[[str], tuple[str, ...]]


def _split(line: str, split: Split, name: str, number: int, on_bad: OnBad) -> tuple[str, ...]:
    """Return the fields of a line; two blank ones if they are missing and the handler permits it."""
    try:
        return split(line)
    except ValueError as error:
        message = str(error)
    on_bad(LineError(message, "wrong fields", file=name, line=number))
    return "", ""


def read_bitext(
    lines: Iterable[str],
    name: str,
    columns: Sequence[int] | None = None,
    on_bad: OnBad = stop_at,
    make: MakePair = make_pair,
) -> Iterator[Pair]:
    """Read pairs from lines `source ||| target` or `source TAB target`, or from two of several columns.

    The first line that has `|||` or TAB sets the separator of all lines.

    Args:
        columns: columns of source and target, from 1, between TABs; None for lines that hold only these two.

    Raises:
        LineError: a line cannot be split; names the file and the line.
        DataError: without `columns`, the lines begin with a running number.
    """
    split: Split = partial(parse_columns, columns=columns) if columns else SideSplitter()
    rows = ((line,) for line in lines)
    for number, (line,) in enumerate(rows if columns else refuse_numbers(rows, (name,), KEEP_AS_SOURCE), 1):
        source, target = _split(line, split, name, number, on_bad)
        yield make(source, target, number)


KEEP_AS_WORDS = "`tr '\\t' ' '` keeps them as words"
KEEP_AS_SOURCE = "`sed 's/\\t/ ||| /'` keeps them as source sentences"


def refuse_numbers(
    rows: Iterable[tuple[str, ...]], names: Sequence[str], keep: str = KEEP_AS_WORDS
) -> Iterator[tuple[str, ...]]:
    """Pass rows of one file or of several parallel files on, unless lines begin with a running number and a TAB.

    The first four lines that are not blank decide: their numbers are consecutive in two of them, or lines of two files
    begin with the same number, 0 or 1 in the first line or any in two lines.

    Args:
        rows: the lines of all files with the same number.
        names: names of the files in errors; further columns may hold anything.
        keep: advice if the numbers are text.

    Raises:
        DataError: the lines are numbered; names the file.

    Warns:
        TextWarning: three lines in a row begin with a number and a TAB, and the numbers are not consecutive.
    """
    hint = f"`cut -f 2-` removes the numbers; {keep}"
    before: list[int | None] = []
    left = 4  # a header, and three lines
    same = 0
    ids = [0] * len(names)  # lines in a row that begin with a number and a TAB
    for row in rows:
        sides = row[: len(names)]
        if left and any(side.strip(" \t") for side in sides):
            left -= 1
            numbers = [int(match[1]) if (match := RUNNING_NUMBER.match(side)) else None for side in sides]
            if len(set(numbers)) == 1 and len(numbers) > 1 and numbers[0] is not None:
                same += 2 if numbers[0] in (0, 1) and not before else 1
            numbered = [now is not None and now - 1 == last for last, now in zip(before, numbers, strict=False)]
            if same > 1 or any(numbered):
                name = names[0] if same > 1 else names[numbered.index(True)]
                raise DataError("its lines begin with a running number and a TAB", file=name, hint=hint)
            before = numbers
            ids = [0 if now is None else count + 1 for count, now in zip(ids, numbers, strict=True)]
            if 3 in ids:
                left = 0
                message = (
                    f"{names[ids.index(3)]}: its lines begin with a number and a TAB; if the numbers are ids, "
                    "`cut -f 2-` removes them"
                )
                warnings.warn(message, TextWarning, stacklevel=2)
        yield row


def in_step(files: Sequence[Iterable[Any]], names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Iterate over several files of equal length together, line by line.

    Args:
        files: lines of each, or what was read from each line.

    Raises:
        DataError: the files differ in length; gives the number of lines of two of them.
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
    return DataError(f"{lengths}: line {min(first[1], second[1]) + 1:,} has no other side")


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
        sides = read_lines(a, names[0], json_lines=False), read_lines(b, names[1], json_lines=False)
        return list(read_parallel(*sides, names))


def read_sources(
    lines: Iterable[str], name: str, column: int | None = None, on_bad: OnBad = stop_at, make: MakePair = make_pair
) -> Iterator[Pair]:
    """Read source sentences as pairs without a target; warn once about a line that looks like both sides of a bitext.

    Args:
        column: the column to read, from 1, between TABs; None for whole lines.
    """
    warned = has_text = False
    split = partial(parse_columns, columns=(column,)) if column else None
    rows = ((line,) for line in lines)
    for number, (line,) in enumerate(rows if column else refuse_numbers(rows, (name,)), 1):
        text = _split(line, split, name, number, on_bad)[0] if split else line
        separator = "|||" if "|||" in text else ""
        if not has_text and not separator and len([side for side in text.split("\t") if side.strip()]) == 2:
            separator = "a TAB"  # in the first line, as in that of bitext
        has_text = has_text or bool(text.strip(" \t"))
        if separator and not warned:
            reading = "word" if separator == "|||" else "space"
            warning = f"{separator} in it, where only source sentences are expected; it is read as a {reading}"
            warnings.warn(f"{name}, line {number}: {warning}", TextWarning, stacklevel=2)
            warned = True
        yield make(text, "", number)


@dataclass(frozen=True)
class Input:
    """Files to read as one text.

    Attributes:
        files: their names; "-" is stdin.
        parallel: whether there are two files, one for each side.
        columns: columns of source and target, or of the source alone, from 1, between TABs; empty for lines that hold
            nothing else.
    """

    files: tuple[str, ...]
    parallel: bool = False
    one_side: bool = False
    columns: tuple[int, ...] = ()
    blank: bool | None = False
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
    """The sentence pairs of the input as they are read, numbered through all of its files.

    Attributes:
        lines: number of pairs read so far.
        bad: the policy for unreadable lines, and the lines that became blank.

    Raises:
        OSError: a file cannot be opened.
        DataError: on reading: a line cannot be read, or compressed data is damaged; names file and line.
    """

    def __init__(self, source: Input) -> None:
        names = list(map(name_shown, source.files))
        self.name = "the input" if len(names) > 1 and not source.parallel else " and ".join(names)
        self.lines, self.bad = 0, BadLines(source.blank)
        self._input = source
        self._texts = [tuple(source.files)] if source.parallel else [(name,) for name in source.files]
        self._names = [" and ".join(map(name_shown, text)) for text in self._texts]
        self._files_begun = 0
        for name in source.files:
            _check_readable(name)
        self._sizes = [_size(text[0]) for text in self._texts]
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
                stack.callback(self._closed)
                names = list(map(name_shown, files))
                lines = [
                    read_lines(
                        stack.enter_context(open_lines(file, self._opened)), label, self._refuse, json_lines=False
                    )
                    for file, label in zip(files, names, strict=True)
                ]
                pairs: Iterator[Pair]
                if source.parallel:
                    pairs = read_parallel(lines[0], lines[1], (names[0], names[1]), source.make)
                elif source.one_side:
                    pairs = read_sources(lines[0], name, next(iter(source.columns), None), self._refuse, source.make)
                else:
                    pairs = read_bitext(lines[0], name, source.columns, self._refuse, source.make)
                for number, pair in enumerate(pairs, 1):
                    self.lines += 1
                    yield replace(pair, id=self.lines, origin=Origin(name, number, self.bad.take()))

    def _opened(self, raw: BinaryIO) -> None:
        self._raw = self._raw or raw

    def _closed(self) -> None:
        self._raw = None

    def _refuse(self, error: LineError) -> None:
        error.hint = error.hint or self._advise(error)
        self.bad(error)

    def _advise(self, error: LineError) -> str:
        """Return advice for a line without two fields, in addition to leaving it blank."""
        if len(self._texts) == 2 and error.line == 1 and not self._input.columns:
            source, target = self._names
            return f'is each file one side of the text? ‹source="{source}"› ‹target="{target}"›'
        if error.what.startswith("no |||") and error.line == 1 and len(self._texts) == 1:
            return 'is each file one side of the text? ‹source="FILE"› ‹target="FILE"›'
        if error.what.startswith("both ||| and TAB"):
            return '‹columns="1,2"› reads two columns between TABs'
        if error.what.startswith("a TAB in it"):
            return "`tr '\\t' ' '` makes it a space"
        if "fields between TAB" in error.what:
            return '‹columns› reads two of them, for example ‹columns="2,3"›'
        return ""


def _check_readable(name: str) -> None:
    """Open a file and close it again, unless it is a pipe, for which opening has side effects."""
    if name != "-" and not stat.S_ISFIFO(os.stat(name).st_mode):
        open(name, "rb").close()


def _size(name: str) -> int | None:
    about = regular_file(sys.stdin if name == "-" else name)
    return about.st_size if about else None
