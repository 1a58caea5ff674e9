"""TOML files that people write: parsed on any Python, with names that mean nothing refused."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any

from align.core.errors import shorten, show_value

if sys.version_info >= (3, 11):
    import tomllib
else:  # its forerunner, under a name that mypy need not know
    import tomli as tomllib


MOST_POINTS = 1000
"""In a file: the parser takes time and memory that grow with the square of the parts of a dotted name."""


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        ValueError: the text is not TOML, or has very many points.
    """
    if text.count(".") > MOST_POINTS:
        raise ValueError(f"has more than {MOST_POINTS:,} points")
    try:
        content: dict[str, Any] = tomllib.loads(text)
    except ValueError as error:
        if str(error).startswith("Exceeds the limit"):  # Python's, with advice for programmers
            raise ValueError("a number has too many digits") from None
        hint = ": text needs quotes" if str(error).startswith("Invalid value (at line") else ""
        raise ValueError(f"{error}{hint}") from None
    return content


def check_names(where: str, table: object, known: Collection[str]) -> None:
    """Refuse names that mean nothing, such as misspelt ones.

    Args:
        where: what to call the table in errors.
        table: the names and their values.
        known: the names that mean something.

    Raises:
        ValueError: it is no table, or has another name.
    """
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} is {show_value(table)}, not a table")
    for name in table:
        if name not in known:
            raise ValueError(f"{where} has {shorten(name)}, but only {', '.join(known)} mean something there")
