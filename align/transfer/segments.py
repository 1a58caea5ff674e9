"""Segments of a document: source texts, their translations, and where these are in the file."""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import count, groupby

from align.core.errors import DataError, show_value
from align.transfer.tags import Syntax


@dataclass(frozen=True, slots=True)
class Segment:
    """A source text and its translation, both as they are written in the file, but without the escapes of PO."""

    source: str
    target: str | None  # None if there is no translation
    line: int  # of the source
    unit: tuple[int, int]  # segments of the same unit get their translations together if none has one
    span: tuple[int, int]  # part of the file that the translation replaces
    around: tuple[str, str] = ("", "")  # text to write before it and after it
    tags: str | Syntax = "xml"  # one of `align.transfer.tags.KINDS`, or a syntax
    languages: tuple[str, str] = ("", "")  # of source and target, as the file names them; "" if it does not
    line_ends: tuple[str, str] = ("", "")  # at the start and the end of both texts, which are not in either


@dataclass(frozen=True)
class Document:
    """The segments of a file."""

    segments: Sequence[Segment]
    text: str  # content of the file, which the spans of the segments refer to
    encode: Callable[[str], bytes]  # returns the bytes of a content
    # returns a translation in the form of the file
    write: Callable[[Segment, str], str] = lambda segment, target: target.join(segment.around)
    # returns the errors of a unit with these translations, from its segments; each is a reason to leave it
    check: Callable[[Sequence[Segment], Sequence[str | None]], Collection[str]] = lambda segments, targets: ()
    remark: str = ""  # what is left out, for the end of a summary

    def refused(self, targets: Sequence[str | None]) -> dict[int, str]:
        """Return why new translations are not to be written, by the numbers of their segments.

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
        """Return the file with other translations, none of them refused; those that are None stay as they are."""
        pieces, at = [], 0
        for segment, target in zip(self.segments, targets, strict=True):
            if target is not None:
                pieces += [self.text[at : segment.span[0]], self.write(segment, target)]
                at = segment.span[1]
        return self.encode("".join([*pieces, self.text[at:]]))


def decode(data: bytes, encoding: str, file: str) -> str:
    """Return the text of a file, whose bytes follow from it.

    Raises:
        DataError: the bytes are not in this encoding, or it is not one of files, such as punycode, which is also slow.
    """
    try:
        if not encoding.startswith("utf-16") and string.printable.encode(encoding) != string.printable.encode():
            raise LookupError
    except (LookupError, UnicodeError):
        raise DataError(f"unknown encoding {show_value(encoding)}", file=file) from None
    try:
        text = data.decode(encoding)
        is_same = text.encode(encoding) == data
    except UnicodeError:
        is_same = False
    if not is_same:
        says = "as it declares" if encoding.encode() in data else "and declares no other encoding"
        raise DataError(f"the file is not {encoding}, {says}", file=file)
    return text
