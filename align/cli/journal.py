"""The journal of a run that can be gone on with: what is run, and how much of it is safely done.

A line of JSON says what is run, and then one for each time something was saved: lines of input done, bytes of output,
a digest of the input so far, counts, and what "auto" came to. The last whole line counts. The output is on the disk
before the journal speaks of it, so whatever ends a run, what the journal says is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

from align.errors import shorten
from align.types import Cell, Choice, Place
from align.view.escape import printable

LONGEST = 100_000
"""Bytes of a line of the journal; it never has as many."""

MOST_TOLD = 8
"""Differences between two runs that a message names."""


@dataclass(frozen=True)
class Saved:
    """How far a run has come.

    Attributes:
        lines: of the input that are done.
        bytes: of the output, before it is packed.
        digest: of those lines.
        counts: of lines without links, by reason.
        chosen: where each direction is read, and why; nothing as long as that is open.
    """

    lines: int = 0
    bytes: int = 0
    digest: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    chosen: Sequence[Choice] = ()

    def __post_init__(self) -> None:
        for number in (self.lines, self.bytes, *self.counts.values()):
            if type(number) is not int or number < 0:
                raise ValueError(f"{number!r} is not a number from 0")


def read_saved(line: bytes) -> Saved | None:
    """A line of the journal; None if it is none."""

    def cell(told: Any) -> Cell | None:
        if told is None:
            return None
        if type(told["layer"]) is not int or not (told["head"] == "all" or type(told["head"]) is int):
            raise ValueError
        return Cell(told["layer"], told["head"])

    try:
        told = json.loads(line)
        chosen = [
            Choice(Place(cell(one["place"]["input"]), cell(one["place"]["output"])), str(one["reason"]))
            for one in told["chosen"]
        ]
        counts = {str(name): number for name, number in told["counts"].items()}
        return Saved(told["lines"], told["bytes"], str(told["digest"]), counts, chosen)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return None


def write_saved(saved: Saved) -> bytes:
    """The way back."""
    return json.dumps(asdict(saved)).encode() + b"\n"


def is_run(found: Any) -> bool:
    """Whether this says what is run: names and plain values."""
    return isinstance(found, dict) and all(isinstance(value, str | int | float | None) for value in found.values())


def differences(before: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """What two runs differ in, for a message of one line: `before` may say anything."""
    names = [name for name in {**run, **before} if before.get(name) != run.get(name)]
    told = [
        f"{_show(name, 40)} was {_show(before.get(name))}, and is {_show(run.get(name))}" for name in names[:MOST_TOLD]
    ]
    return "; ".join([*told, f"and {len(names) - MOST_TOLD:,} more"] if names[MOST_TOLD:] else told)


def _show(value: Any, most: int = 300) -> str:
    return printable(shorten(str(value), most))


def read_journal(stream: BinaryIO) -> tuple[dict[str, Any] | None, Saved, int]:
    """What was run, None if that cannot be read; how far it came; and where the last whole line ends."""
    run, saved, end = None, Saved(), 0
    while (line := stream.readline(LONGEST)).endswith(b"\n"):
        if run is None:
            try:
                run = json.loads(line)["run"]
            except (ValueError, TypeError, KeyError, RecursionError):
                break
            if not is_run(run):
                return None, saved, end
        elif later := read_saved(line):
            saved = later
        else:
            break
        end += len(line)
    return run, saved, end
