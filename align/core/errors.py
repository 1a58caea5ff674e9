"""What can be wrong with data, as exceptions that carry what, where and the remedy; all are ValueErrors.

    DataError           anything about files and text that does not fit
    ├── LineError       one line of a file that is to be read as text
    ├── PairError       one sentence pair
    ├── ModelError      a model folder, its files, or what is asked of the model
    │   └── KindError   a type of model that cannot be run
    └── LinksError      a file of links

`str()` is a message for users of the library, in which a remedy names arguments: `too_long="blank"`. A program tells
the same remedy in its own options with `DataError.told`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

_Error = TypeVar("_Error", bound="DataError")


LONGEST_MESSAGE = 2000
"""The most characters of what an error says, in case a value of a file is in it that nothing has shortened."""


def shorten(text: str, most: int = 80) -> str:
    """A text of a file or a library as a message has room for it: at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def printable(text: str) -> str:
    """Return text that cannot move a terminal's cursor or change its colours: other characters become their escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(error: BaseException, most: int = 120) -> str:
    """A library's message, which may quote a file, as one line that is not too long."""
    return shorten(" ".join(str(error).split()), most)


def show_value(value: object) -> str:
    """A value out of an untrusted file for a message: short, and nothing that has parts is written out."""
    if isinstance(value, str):
        return repr(shorten(value, 40))
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return f"a very large {type(value).__name__}"
    return repr(value) if isinstance(value, int | float) else f"of type {type(value).__name__}"


def plural(number: int, noun: str) -> str:
    """A number and what it counts: "1 line", "2,000 lines"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class Argument(NamedTuple):
    """An argument that would help, and the value to give it; None where any value may do.

    `of` says which file it is given for, where a program has an option for each: "gold" or "hyp".
    """

    name: str
    value: str | int | None = None
    of: str = ""


FILES = {"gold": "gold", "hyp": "hypotheses"}
"""What messages call the files that an argument may be given for."""


def as_argument(argument: Argument) -> str:
    """As a caller of the library would write it: `too_long="blank"`; without a value, whose it is is said too."""
    if argument.value is not None:
        return f"{argument.name}={argument.value!r}".replace("'", '"')
    return f"{argument.name} of the {FILES[argument.of]}" if argument.of else argument.name


@dataclass(frozen=True)
class Remedy:
    """What to do about an error.

    Attributes:
        advice: a phrase with a `{}` for each of the arguments, in order.
        arguments: what to set.
    """

    advice: str
    arguments: tuple[Argument, ...] = ()

    def told(self, spell: Callable[[Argument], str] = as_argument) -> str:
        """The advice, with each argument as `spell` writes it."""
        return self.advice.format(*map(spell, self.arguments))


def compose(
    what: str, file: str, line: int, remedy: Remedy | None, spell: Callable[[Argument], str] = as_argument
) -> str:
    """`FILE, line N: WHAT: REMEDY`, of which all but the second part may be missing."""
    place = ", ".join(part for part in (file, f"line {line}" if line else "") if part)
    return ": ".join(part for part in (place, what, remedy.told(spell) if remedy else "") if part)


class DataError(ValueError):
    """Data that cannot be used: what is wrong, where, and what to do about it.

    Args:
        what: what is wrong.
        file: where; what to call the file.
        line: where in it, from 1; 0 for all of it.
        remedy: what to do about it.
    """

    def __init__(self, what: str, *, file: str = "", line: int = 0, remedy: Remedy | None = None) -> None:
        super().__init__(what)
        self.what = shorten(what, LONGEST_MESSAGE)
        self.file = file
        self.line = line
        self.remedy = remedy

    def told(self, spell: Callable[[Argument], str] = as_argument) -> str:
        """The whole message, with each argument of the remedy as `spell` writes it."""
        return compose(self.what, self.file, self.line, self.remedy, spell)

    def in_file(self: _Error, file: str) -> _Error:
        """The same error, with the name of the file that it is in."""
        error = copy.copy(self)
        error.file = file
        return error

    def __str__(self) -> str:
        return self.told()


class LineError(DataError):
    """One line cannot be read; `reason` says in two words why, as `Alignment.skipped` does."""

    def __init__(
        self,
        what: str,
        reason: Literal["not UTF-8", "wrong fields"] = "wrong fields",
        *,
        file: str = "",
        line: int = 0,
        remedy: Remedy | None = None,
    ) -> None:
        super().__init__(what, file=file, line=line, remedy=remedy)
        self.reason = reason


class PairError(DataError):
    """One sentence pair cannot be aligned; `line` is its number in the text, from 1."""


class ModelError(DataError):
    """A model cannot be loaded, or does not have what is asked of it."""


class KindError(ModelError):
    """A model is of a type that cannot be run; `known` are those that can be, and `why` says what it lacks."""

    def __init__(
        self,
        what: str,
        known: Collection[str],
        *,
        why: str = "links need an encoder-decoder Transformer",
        file: str = "",
    ) -> None:
        super().__init__(what, file=file, remedy=Remedy(f"{why}; these are read: {', '.join(sorted(known))}"))
        self.known = known


class LinksError(DataError):
    """A file of links cannot be read beyond doubt, or is not of the text that it is said to be of."""
