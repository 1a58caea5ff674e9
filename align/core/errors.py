"""Exceptions for unusable data: what is wrong, where, and what to do. All are ValueErrors.

    DataError           a file or a text
    ├── LineError       a line of a text file
    ├── PairError       a sentence pair
    ├── ModelError      a model folder, its files, or a request to the model
    │   └── KindError   a type of model that cannot be run
    ├── LinksError      a file of links
    └── LostItemError   results are missing, or in another order than their items

`str()` is a message for users of the library, in which a hint names arguments: `too_long="blank"`. Programs show the
same hint with their own options, by `DataError.told`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection
from typing import TypeVar

_Error = TypeVar("_Error", bound="DataError")


LONGEST_MESSAGE = 2000
"""Limit of characters in a message, for values of files that nothing else has shortened."""


def shorten(text: str, limit: int = 80) -> str:
    """Return an excerpt of a text for a message."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """Return text that cannot move a terminal's cursor or change its colours: other characters become their escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(error: BaseException, limit: int = 120) -> str:
    """Return the message of a library, which may quote a file, as one short line."""
    return shorten(" ".join(str(error).split()), limit)


def show_value(value: object) -> str:
    """Return a value of an untrusted file for a message; collections are not written out."""
    if isinstance(value, str):
        return repr(shorten(value, 40))
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return f"a very large {type(value).__name__}"
    return repr(value) if isinstance(value, int | float) else f"of type {type(value).__name__}"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: "1 line", "2,000 lines"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


ARGUMENT = re.compile(r"‹(?:(gold|hyp)?\.)?(\w+)(?:=([^›]*))?›")
"""An argument in a hint, `‹too_long="blank"›`: its name and its value, if not any may help.

Before the name stands the file that it is for, where a program has an option for each: `‹gold.base=1›`.
"""

FILES = {"gold": "gold", "hyp": "hypotheses"}  # names of these files in messages


def with_arguments(hint: str) -> str:
    """Return a hint for callers of the library: `too_long="blank"`."""

    def written(argument: re.Match[str]) -> str:
        file, name, value = argument.groups()
        if value is not None:
            return f"{name}={value}"
        return f"{name} of the {FILES[file]}" if file else str(name)

    return ARGUMENT.sub(written, hint)


class DataError(ValueError):
    """Data that cannot be used.

    Args:
        line: number in the file, from 1; 0 for the whole file.
    """

    def __init__(self, what: str, *, file: str = "", line: int = 0, hint: str = "") -> None:
        super().__init__(what)
        self.what = shorten(what, LONGEST_MESSAGE)
        self.file = file
        self.line = line
        self.hint = hint

    def told(self, write: Callable[[str], str] = with_arguments) -> str:
        """Return `FILE, line N: WHAT: HINT`, without the parts that are empty, and with control characters escaped.

        `write` writes the arguments of the hint.
        """
        place = ", ".join(part for part in (self.file, f"line {self.line}" if self.line else "") if part)
        return printable(": ".join(part for part in (place, self.what, write(self.hint)) if part))

    def in_file(self: _Error, file: str, line: int = 0) -> _Error:
        """Return the same error with the name of its file, and the line there unless that is 0."""
        error = copy.copy(self)
        error.file, error.line = file, line or self.line
        return error

    def __str__(self) -> str:
        return self.told()


class LineError(DataError):
    """A line cannot be read; `reason` is the short form for `Alignment.skipped`."""

    def __init__(
        self, what: str, reason: str = "wrong fields", *, file: str = "", line: int = 0, hint: str = ""
    ) -> None:
        super().__init__(what, file=file, line=line, hint=hint)
        self.reason = reason


class PairError(DataError):
    """A sentence pair cannot be aligned; without a `file`, `line` is its number in the text, from 1."""


class ModelError(DataError):
    """A model cannot be loaded, or does not have what was requested."""


class KindError(ModelError):
    """A type of model that cannot be run; `known` lists the types that can."""

    def __init__(self, what: str, known: Collection[str], *, file: str = "") -> None:
        super().__init__(what, file=file, hint=f"supported types: {', '.join(sorted(known))}")
        self.known = known


class LinksError(DataError):
    """A file of links is ambiguous or invalid, or does not fit its text."""


class LostItemError(DataError):
    """Results are missing, left over, or in another order than the items that they belong to: a fault of the program.

    Args:
        done: items whose results have come out, all of them before the fault.
        fault: what is wrong with the next one.
    """

    def __init__(self, done: int, fault: str) -> None:
        super().__init__(
            f"{fault} after {plural(done, 'item')}; what is written ends there",
            hint="this is a fault of extract-align: please report it with the command and the text",
        )
