"""TOML files that people write: parsed on any Python, with names that mean nothing refused."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any

from align.core.errors import shorten

if sys.version_info >= (3, 11):
    import tomllib
else:  # its forerunner, under a name that mypy need not know
    import tomli as tomllib


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        ValueError: the text is not TOML.
    """
    try:
        content: dict[str, Any] = tomllib.loads(text)
    except ValueError as error:
        hint = ": text needs quotes" if str(error).startswith("Invalid value (at line") else ""
        raise ValueError(f"{error}{hint}") from None
    return content


def check_names(where: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse names that mean nothing, such as misspelt ones.

    Args:
        where: what to call the table in errors.
        table: the names and their values.
        known: the names that mean something.

    Raises:
        ValueError: the table has another name.
    """
    for name in table:
        if name not in known:
            raise ValueError(f"{where} has {shorten(name)}, but only {', '.join(known)} mean something there")
