"""What programs that evaluate share: options of files of links, and of the tables that come of them."""

from __future__ import annotations

import argparse
from typing import Any

from align.cli.parser import Idle
from align.evaluation.gold import LinkOptions, Role
from align.evaluation.link_files import LINK_FORMATS
from align.evaluation.tables import TABLES


def add_link_options(group: Any, role: Role, required: bool = False) -> None:
    """Add options for reading gold, or hypotheses ("hyp")."""
    if role == "gold":
        group.add_argument(
            "-g", "--gold", required=required, metavar="FILE", help="gold links; .gz and .xz are unpacked"
        )
    group.add_argument(
        f"--{role}-format",
        choices=LINK_FORMATS,
        metavar="FORMAT",
        help="pharaoh: 0-1; talp: 0-1 and possible 0p1; question: possible 0?1; naacl: `sentence source target S|P`; "
        "giza: A3.final; jsonl (default: by the looks of it)",
    )
    group.add_argument(
        f"--{role}-base",
        type=int,
        choices=(0, 1),
        help="where it starts to count (default: what its indices or its format prove)",
    )
    group.add_argument(f"--{role}-swapped", action="store_true", help="it has the target side first")


def add_length_options(group: Any) -> None:
    """Add the text that the links belong to."""
    group.add_argument("-s", "--source", metavar="FILE", help="source sentences; requires -t")
    group.add_argument("-t", "--target", metavar="FILE", help="target sentences; requires -s")
    add_range_option(group)


def add_range_option(group: Any) -> None:
    """Add the policy for links to words that do not exist."""
    group.add_argument(
        "--out-of-range",
        choices=("stop", "ignore"),
        default="stop",
        help="at a link to a word that its sentence does not have: stop, or go on (in gold it is left out, in a "
        "hypothesis it is wrong)",
    )


def link_options(args: argparse.Namespace, role: Role) -> LinkOptions:
    """Return the options of `add_link_options` and `add_range_option` for gold or for hypotheses."""
    format, base, swapped = (getattr(args, f"{role}_{name}") for name in ("format", "base", "swapped"))
    return LinkOptions(format, base, swapped, args.out_of_range)


def add_table_options(group: Any) -> None:
    """Add the format of tables."""
    group.add_argument(
        "-f",
        "--format",
        choices=tuple(TABLES),
        default="text",
        metavar="FORMAT",
        help=f"of tables: {', '.join(TABLES)}",
    )
    group.add_argument("--wide", action="store_true", help="all columns and whole names, in text wider than 80 columns")


WIDE_IDLE = Idle(("wide",), lambda args: args.format != "text", "is for text: other formats have all columns")
"""Where `--wide` does nothing."""
