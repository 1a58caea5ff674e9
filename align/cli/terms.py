"""`extract-align --terms`: a glossary, and what it asks for checked in each line."""

from __future__ import annotations

from typing import Any, BinaryIO

from align.cli.parser import Idle
from align.core.types import Alignment
from align.io.reader import name_shown, open_lines, read_lines
from align.transfer.terms import Glossary, format_checked, read_glossary

TERMS_IDLE = (
    Idle(("format",), lambda args: args.terms and args.format != "jsonl", "has no effect: --terms writes jsonl"),
    Idle(("scores",), lambda args: args.terms, "has no effect with --terms, which always writes them"),
)
"""What does nothing beside --terms."""


def add_terms_option(group: Any) -> None:
    """A glossary to check."""
    group.add_argument(
        "--terms",
        metavar="FILE",
        help="a glossary, lines `term TAB translation`: write jsonl, with the terms in each source and whether they "
        "were translated as asked; of several lines with the same term any will do",
    )


def open_glossary(name: str) -> Glossary:
    """Read the glossary.

    Raises:
        OSError: it cannot be opened.
        DataError: it is none; names file and line.
    """
    shown = name_shown(name)
    with open_lines(name) as stream:
        return read_glossary(read_lines(stream, shown), shown)


def write_checked(out: BinaryIO, alignment: Alignment, terms: Glossary) -> None:
    """Write one pair's links and terms."""
    out.write(format_checked(alignment, terms).encode() + b"\n")
