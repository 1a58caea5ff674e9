"""How two runs differ, for messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from align.core.errors import printable, shorten

MOST_NAMED = 8
"""Differences between two runs that a message names."""


def differences(before: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """How two runs differ, for a message of one line; `before` comes from a file and may hold anything."""
    names = [name for name in {**run, **before} if before.get(name) != run.get(name)]
    changes = []
    for name in names[:MOST_NAMED]:
        was, now = _parts_that_differ(before.get(name), run.get(name))
        changes.append(f"{_show(name, 40)} was {_show(was)}, and is {_show(now)}")
    return "; ".join([*changes, f"and {len(names) - MOST_NAMED:,} more"] if names[MOST_NAMED:] else changes)


def _parts_that_differ(was: Any, now: Any) -> tuple[Any, Any]:
    """Of two signatures the parts that are not in the other; anything else as it is."""
    if not (isinstance(was, str) and isinstance(now, str) and "|" in was and "|" in now):
        return was, now
    before, after = Counter(was.split("|")), Counter(now.split("|"))
    gone, new = ("|".join((one - other).elements()) for one, other in ((before, after), (after, before)))
    return (gone or "none", new or "none") if gone or new else (was, now)


def _show(value: Any, most: int = 300) -> str:
    return printable(shorten(str(value), most))
