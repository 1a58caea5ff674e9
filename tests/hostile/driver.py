"""Try cases that a seed and a number draw, count the results, and keep what goes wrong: what `scripts/fuzz` runs."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


def _keep_nothing(folder: Path) -> None:
    pass


class Tried(NamedTuple):
    """The result of a case."""

    what: str
    """What it is counted as."""
    wrong: str = ""
    """What is wrong with it; nothing where all is well."""
    keep: Callable[[Path], object] = _keep_nothing
    """Writes the case into a folder."""


Case = Callable[[random.Random], Tried]


def search(
    case: Case, count: int, seed: int = 7, seconds: float = float("inf"), keep: Path | None = None
) -> Counter[str]:
    """Try cases, tell on stderr which of them went wrong, and count the results.

    Args:
        case: tries what it draws.
        count: the number of cases.
        seed: decides with the number of a case what is drawn.
        seconds: after these no case is begun.
        keep: the folder for cases that went wrong.
    """
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    for number in range(count):
        if time.monotonic() > end:
            break
        tried = case(random.Random(f"{seed}/{number}"))
        counts[tried.what] += 1
        if tried.wrong:
            counts["wrong"] += 1
            print(f"seed {seed}, case {number}: {tried.wrong}"[:2000], file=sys.stderr)
            if keep:
                folder = keep / f"{seed}-{number}"
                folder.mkdir(parents=True, exist_ok=True)
                tried.keep(folder)
    return counts


def parser_of(what: str, count: int) -> argparse.ArgumentParser:
    """Return a parser of the common options, for the program that `scripts/fuzz` calls so."""
    parser = argparse.ArgumentParser(prog=f"scripts/fuzz {what}")
    parser.add_argument("--count", type=int, default=count, help="cases (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after these")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="put what goes wrong there")
    return parser


def print_counts(what: str, counts: Counter[str]) -> int:
    """Print the command and a table; return the exit code: 1 where something went wrong."""
    print("#", "scripts/fuzz", what, *sys.argv[1:])
    for name in [*sorted(counts.keys() - {"wrong"}), "wrong"]:
        print(name, counts[name], sep="\t")
    return int(counts["wrong"] > 0)


def main(what: str, case: Case, count: int) -> int:
    """Search with the options of the command line."""
    args = parser_of(what, count).parse_args()
    return print_counts(what, search(case, args.count, args.seed, args.seconds, args.keep and args.keep.absolute()))
