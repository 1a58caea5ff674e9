"""Options of the command line: groups of them as dataclasses, an adapter to argparse, and parsers of their values."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import field, fields
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from align.cli.parser import Parser
from align.core.errors import shorten
from align.models.languages import check_language

T = TypeVar("T")

MAX_THREADS = 1024
"""More than any machine has cores; with very many torch ends the process without a message of ours."""


def option(
    *flags: str,
    default: Any = None,
    short: str = "",
    reads: bool = False,
    writes: bool = False,
    positional: bool = False,
    **settings: Any,
) -> Any:
    """Declare a field of a group, and the option that sets it: `source_lang` is set by `--source-lang`.

    Args:
        flags: further names, such as "-o"; with a long one among them, the name of the field is none.
        default: value where the option is not given, and where a command does not offer it. A default of False makes
            it a switch.
        short: what `-h` says of it, if that is not what stands before the first semicolon of its help.
        reads: whether it names files or folders to read, which no output may replace; each FILE and MODEL does
            that is not written.
        writes: whether it names a file to write.
        positional: whether it is an argument without a flag.
        settings: arguments of argparse's `add_argument`; the values of a Literal are its choices, and an int
            is a number N from 1.
    """
    is_list = default == () and "type" in settings and not settings["metavar"].endswith("]")  # repeated, it goes on
    settings = ({"action": "store_true"} if default is False else {"action": "extend"} if is_list else {}) | settings
    reads = reads or (settings.get("metavar") in ("FILE", "MODEL") and not writes)
    if not positional and not any(flag.startswith("--") for flag in flags):
        flags = (*flags, "")  # the name of the field
    metadata = {"flags": flags, "short": short, "reads": reads, "writes": writes, **settings}
    return field(default=default, metadata=metadata)


argument = partial(option, positional=True)
"""Declare a field of a group, and the positional argument that sets it; see `option`."""


def add_group(
    parser: Parser,
    kind: type,
    title: str = "",
    only: Collection[str] = (),
    without: Collection[str] = (),
    **changes: Any,
) -> None:
    """Add the options of a group to a parser.

    Args:
        kind: a dataclass whose fields are declared by `option`; its TITLE heads the group in the help.
        title: another title.
        only: names of the fields to offer; empty for all of them.
        without: names of fields not to offer.
        changes: by the names of fields: settings that differ in this command, such as `output={"required": True}`.
    """
    hints = get_type_hints(kind)
    group = parser.add_argument_group(title or getattr(kind, "TITLE", ""))
    offered = [each for each in fields(kind) if each.metadata]
    if unknown := {*only, *without, *changes} - {each.name for each in offered}:
        raise ValueError(f"{kind.__name__} has no option {', '.join(sorted(unknown))}")
    offered = [each for each in offered if (not only or each.name in only) and each.name not in without]
    parser.offered.setdefault(kind, set()).update(each.name for each in offered)
    for each in offered:
        default = [] if each.default == () and "action" in each.metadata else each.default
        settings = {**each.metadata, "default": default, **changes.get(each.name, {})}
        parser.short_texts[each.name] = settings.pop("short") or settings["help"].partition(";")[0]
        flags = [flag or "--" + each.name.replace("_", "-") for flag in settings.pop("flags")]
        if settings.pop("reads"):
            parser.reads.append(each.name)
        if settings.pop("writes"):
            parser.writes[each.name] = flags[0]
        if not flags:
            group.add_argument(each.name, **settings)
            continue
        kinds = (hints[each.name], *get_args(hints[each.name]))
        if int in kinds:
            settings = {"type": whole_number(1), "metavar": "N", **settings}
        elif (literals := [kind for kind in kinds if get_origin(kind) is Literal]) and "type" not in settings:
            settings.setdefault("choices", get_args(literals[0]))
        group.add_argument(*flags, dest=each.name, **settings)


def read_group(kind: type[T], args: argparse.Namespace, **values: Any) -> T:
    """Return a group with the values of a command line."""
    return kind(**{name: getattr(args, name) for name in args.offered.get(kind, ())} | values)


def new_parser(program: str, description: str, examples: str, short: Sequence[str] = ()) -> Parser:
    """Return the parser of a program, with --help and examples at its end."""
    return Parser(prog=program, description=description, epilog=examples, short=short)


# Parsers of values.


def parse_number(text: str, least: int = 1, most: float = inf) -> int | None:
    """Return the number that ASCII digits stand for; None for other text, or outside the range."""
    if not (text.isascii() and text.isdigit() and len(text) < 4000):  # `int` takes no longer ones
        return None
    number = int(text)
    return number if least <= number <= most else None


def number_or(*words: str) -> Callable[[str], int | str]:
    """Return a parser of arguments that are a number from 1 or one of some words."""

    def parse(text: str) -> int | str:
        if (value := text if text in words else parse_number(text)) is None:
            raise argparse.ArgumentTypeError(
                f"expected a number from 1, or {' or '.join(words)}; got {shorten(text, 40)!r}"
            )
        return value

    return parse


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers from `least`, up to `most` if there is one."""

    def parse(text: str) -> int:
        if (number := parse_number(text, least, most or sys.maxsize)) is None:
            limit = f" to {most:,}" if most else ""
            raise argparse.ArgumentTypeError(f"expected a number from {least}{limit}; got {shorten(text, 40)!r}")
        return number

    return parse


seed_number = whole_number(0, 2**32 - 1)
"""An argument that is the seed of random numbers, of which scikit-learn takes 32 bits."""


def number_up_to(most: int, nothing: str | None = None) -> Callable[[str], float | None]:
    """Return a parser of numbers from 0 to `most`, or of the word that stands for None."""

    def parse(text: str) -> float | None:
        if text == nothing:
            return None
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if 0 <= number <= most:
            return number
        raise argparse.ArgumentTypeError(
            f"expected a number from 0 to {most}{f', or {nothing}' if nothing else ''}; got {text!r}"
        )

    return parse


def one_or_two(parse_one: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """Return a parser of one value, or of two separated by a comma."""

    def parse(text: str) -> tuple[T, ...]:
        parts = text.split(",")
        if len(parts) > 2:
            raise argparse.ArgumentTypeError(f"expected one value or two, as in 1,2; got {text!r}")
        return tuple(map(parse_one, parts))

    return parse


def column_numbers(text: str) -> tuple[int, ...]:
    """Parse an argument of one or two numbers from 1."""
    numbers = [parse_number(number, 1, 9999) for number in text.split(",")]
    if len(numbers) > 2 or None in numbers:
        raise argparse.ArgumentTypeError(f"expected two column numbers such as 2,3; got {shorten(text, 40)!r}")
    return tuple(number for number in numbers if number)


def language_code(text: str) -> str:
    """Parse a language code."""
    try:
        return check_language(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def file_prefix(text: str) -> Path:
    """Parse the beginning of file names."""
    if text.endswith(os.sep) or not Path(text).name:
        raise argparse.ArgumentTypeError(
            f"{text!r} is a folder, not the beginning of file names, such as figures/model"
        )
    return Path(text)
