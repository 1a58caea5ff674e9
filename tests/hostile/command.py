"""What the programs behind `scripts/fuzz` have in common: their options, and a table of results."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path


def options(what: str, count: int) -> argparse.ArgumentParser:
    """A parser with the options that all of them take.

    Args:
        what: the first word after `scripts/fuzz`.
        count: of cases, unless told otherwise.
    """
    parser = argparse.ArgumentParser(prog=f"scripts/fuzz {what}")
    parser.add_argument("--count", type=int, default=count, help="cases (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after so long")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="put what goes wrong there")
    return parser


class Deadline:
    """Tells whether the time is over."""

    def __init__(self, seconds: float) -> None:
        self.begun = time.monotonic()
        self._seconds = seconds

    @property
    def over(self) -> bool:
        """Whether no more is to be begun."""
        return self.spent > self._seconds

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self.begun


def print_table(parser: argparse.ArgumentParser, rows: Iterable[Sequence[object]]) -> None:
    """Print the command, and a table."""
    print("#", parser.prog, *sys.argv[1:])
    for row in rows:
        print(*row, sep="\t")
