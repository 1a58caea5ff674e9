"""The journal of a run that can be resumed: what is run, and how much of it is safely done.

The first line of JSON says what is run. Another follows each time something is saved: lines of input done, bytes of
output, a digest of the input so far, counts, the choices made for "auto", and bytes of the list of bad lines. The last
whole line counts. Output is on the disk before the journal mentions it: whatever ends a run, what it says is true.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

from align.signature import read_choice
from align.types import Choice

LONGEST = 100_000
"""Bytes of a line: the journal never writes as many."""


@dataclass(frozen=True)
class Saved:
    """How far a run has come.

    Attributes:
        lines: of the input that are done.
        bytes: of the output, before it is packed.
        digest: of those lines.
        counts: of lines without links, by reason.
        chosen: where each direction is read, and why; empty until that is chosen.
        listed: bytes of the list of bad lines.
    """

    lines: int = 0
    bytes: int = 0
    digest: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    chosen: Sequence[Choice] = ()
    listed: int = 0

    def __post_init__(self) -> None:
        for number in (self.lines, self.bytes, self.listed, *self.counts.values()):
            if type(number) is not int or number < 0:
                raise ValueError(f"{number!r} is not a number from 0")


def read_saved(line: bytes) -> Saved | None:
    """What a line of the journal says; None if it is not such a line."""
    try:
        record = json.loads(line)
        chosen = [read_choice(choice) for choice in record["chosen"]]
        counts = {str(name): number for name, number in record["counts"].items()}
        return Saved(record["lines"], record["bytes"], str(record["digest"]), counts, chosen, record["listed"])
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError):
        return None


def write_saved(saved: Saved) -> bytes:
    """The line of the journal that `read_saved` reads."""
    return json.dumps(asdict(saved)).encode() + b"\n"


def is_run(record: Any) -> bool:
    """Whether a record says what is run: names and plain values."""
    return isinstance(record, dict) and all(isinstance(value, str | int | float | None) for value in record.values())


def read_journal(stream: BinaryIO) -> tuple[dict[str, Any] | None, Saved, int]:
    """What was run (None if that cannot be read), how far it came, and where the last whole line ends."""
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
