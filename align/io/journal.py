"""The journal of a run that can be resumed: what is run, and how much of it is safely done.

The first line of JSON says what is run. Another follows each time something is saved: lines of input done, bytes and
lines of output, digests of the input and of the output so far, counts, the choices made for "auto", bytes and a digest
of the list of bad lines, and a digest of all this. The last whole line counts. Output is on the disk before the journal
mentions it: whatever ends a run, what it says is true.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, BinaryIO

from align.core.types import Choice
from align.io.manifest import is_run
from align.io.signature import read_choice

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
        output_lines: of the output.
        output_digest: of those bytes of the output.
        listing_digest: of those bytes of the list of bad lines.
    """

    lines: int = 0
    bytes: int = 0
    digest: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    chosen: Sequence[Choice] = ()
    listed: int = 0
    output_lines: int = 0
    output_digest: str = ""
    listing_digest: str = ""

    def __post_init__(self) -> None:
        for number in (self.lines, self.bytes, self.listed, self.output_lines, *self.counts.values()):
            if type(number) is not int or number < 0:
                raise ValueError(f"{number!r} is not a number from 0")
        if not self.lines and (self.bytes or self.listed or self.output_lines):
            raise ValueError("bytes of no line")


def read_saved(line: bytes) -> Saved | None:
    """Read a line of the journal; None if it is not JSON, as after a power cut.

    Raises:
        ValueError: it is JSON, and not what `write_saved` writes.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    try:
        del record["check"]  # which depends on the rest
        saved = Saved(**{**record, "chosen": [read_choice(choice) for choice in record["chosen"]]})
        if write_saved(saved) == line:
            return saved
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError):
        pass
    raise ValueError("not as it was written")


def write_saved(saved: Saved) -> bytes:
    """The line of the journal that `read_saved` reads."""
    content = json.dumps(asdict(saved))
    check = blake2b(content.encode(), digest_size=32).hexdigest()
    return f'{content[:-1]}, "check": "{check}"}}\n'.encode()


def read_run(stream: BinaryIO) -> dict[str, Any] | None:
    """Read from the first line of a journal what was run; None if that cannot be read."""
    line = stream.readline(LONGEST)
    try:
        run = json.loads(line)["run"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return run if line.endswith(b"\n") and is_run(run) else None


def read_journal(stream: BinaryIO) -> tuple[dict[str, Any] | None, Saved, int]:
    """Read what was run (None if that cannot be read), how far it came, and where the last complete line ends.

    Raises:
        ValueError: a line is not as it was written.
    """
    run, saved = read_run(stream), Saved()
    if run is None:
        return None, saved, 0
    end = stream.tell()
    while (line := stream.readline(LONGEST)).endswith(b"\n"):
        later = read_saved(line)
        if later is None:
            break
        saved = later
        end += len(line)
    return run, saved, end
