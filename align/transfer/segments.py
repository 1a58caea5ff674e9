"""Segments of a document: source texts, their translations, and where these are in the file."""

from __future__ import annotations

import codecs
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Generic, TypeVar

_Data = TypeVar("_Data", bytes, str)


def text_encoding(name: str) -> str:
    """Return Python's name of an encoding, which must contain ASCII, and write nothing else as ASCII.

    Others, such as punycode and unicode_escape, are no encodings of files, and some take the square of a file's time.

    Raises:
        LookupError: it is unknown, or another.
    """
    try:
        encoding = codecs.lookup(name).name
        plain, *others = (text.encode(encoding, "ignore") for text in (string.printable, "é", "€", "中"))
    except UnicodeError:
        raise LookupError(name) from None
    if plain != string.printable.encode() or any(other.isascii() for other in others if other):
        raise LookupError(name)
    return encoding


@dataclass(frozen=True, slots=True)
class Segment:
    """A source text and its translation, both as they are written in the file, but without the escapes of PO.

    Attributes:
        target: None if there is no translation.
        tags: one of `align.transfer.tags.KINDS`.
        line: line of the source.
        unit: segments of the same unit get their translations together if none has one.
        span: part of the file that the translation replaces.
        around: text to write before it and after it.
        languages: of source and target, as the file names them; "" for one that it does not name.
    """

    source: str
    target: str | None
    tags: str
    line: int
    unit: tuple[int, int]
    span: tuple[int, int]
    around: tuple[str, str] = ("", "")
    languages: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Document(Generic[_Data]):
    """The segments of a file.

    Attributes:
        data: content of the file, which their spans refer to.
        write: returns a translation in the form of the file.
        encode: returns the file's bytes.
    """

    segments: Sequence[Segment]
    data: _Data
    write: Callable[[Segment, str], _Data]
    encode: Callable[[_Data], bytes]

    def fill(self, targets: Sequence[str | None]) -> bytes:
        """Return the file with other translations; those that are None stay as they are."""
        pieces: list[Any] = []
        at = 0
        for _, group in groupby(zip(self.segments, targets, strict=True), key=lambda pair: pair[0].unit):
            pairs = list(group)
            if any(target is None and segment.target is None for segment, target in pairs):
                continue
            for segment, target in pairs:
                if target is not None:
                    start, end = segment.span
                    pieces += [self.data[at:start], self.write(segment, target)]
                    at = end
        return self.encode(self.data[:0].join([*pieces, self.data[at:]]))
