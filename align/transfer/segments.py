"""Segments of a document: source texts, their translations, and where these are in the file."""

from __future__ import annotations

import codecs
import string
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import count, groupby
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
        unit: segments of the same unit get their translations together if none has one.
        span: part of the file that the translation replaces.
        around: text to write before it and after it.
        line_ends: line ends at the start and the end of the source and the translation, which are not in either.
        languages: of source and target, as the file names them; "" for one that it does not name.
    """

    source: str
    target: str | None
    tags: str
    line: int
    unit: tuple[int, int]
    span: tuple[int, int]
    around: tuple[str, str] = ("", "")
    line_ends: tuple[str, str] = ("", "")
    languages: tuple[str, str] = ("", "")


Check = Callable[[Sequence[Segment], Sequence[str | None]], Collection[str]]
"""Returns the errors of a unit with these translations, from its segments; each is a reason to leave it as it is."""


@dataclass(frozen=True)
class Document(Generic[_Data]):
    """The segments of a file.

    Attributes:
        data: content of the file, which their spans refer to.
        write: returns a translation in the form of the file.
        check: returns the errors of a unit's translations.
    """

    segments: Sequence[Segment]
    data: _Data
    write: Callable[[Segment, str], _Data]
    encode: Callable[[_Data], bytes]
    check: Check = lambda segments, targets: ()

    def refused(self, targets: Sequence[str | None]) -> dict[int, str]:
        """Return why new translations are not written, by the numbers of their segments.

        A unit gets its translations together: none if a segment would stay without one, or if they would cause an error
        that the unit does not have now.
        """
        reasons: dict[int, str] = {}
        for _, group in groupby(zip(count(), self.segments, targets), key=lambda row: row[1].unit):
            numbers, segments, new = zip(*group, strict=True)
            changed = [n for n, target in zip(numbers, new, strict=True) if target is not None]
            if not changed:
                continue
            now = [segment.target for segment in segments]
            then = [target if target is not None else own for target, own in zip(new, now, strict=True)]
            errors = ["another segment of its unit has no translation"] if None in then else []
            if not errors and (found := self.check(segments, then)):
                errors = [error for error in found if error not in self.check(segments, now)]
            reasons |= dict.fromkeys(changed, errors[0]) if errors else {}
        return reasons

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
