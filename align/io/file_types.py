"""Recognise files that are not lines of text by their first bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

JSON_LINES = "JSON lines"
_BOM = b"\xef\xbb\xbf"

_BZIP2 = [b"BZh%d1AY&SY" % level for level in range(1, 10)]
_TO_PLAIN = "write the text of each side, a sentence a line"
_CONVERT = "convert it to UTF-8, for example with iconv"
_UNPACK = "unpack it first, or name the file .gz or .xz"


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
