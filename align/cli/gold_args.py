"""Options of files of links and gold, for the commands that compare them."""

from __future__ import annotations

import argparse
from typing import Any

from align.evaluation.gold import LinkOptions, Role
from align.evaluation.link_files import LINK_FORMATS


def add_link_options(group: Any, role: Role, required: bool = False, dispensable: bool = False) -> None:
    """Add options for reading gold, or hypotheses ("hyp").

    Args:
        dispensable: whether `--without-gold` may replace gold.
    """
    if role == "gold":
        either = group.add_mutually_exclusive_group(required=True) if dispensable else group
        either.add_argument(
            "-g", "--gold", required=required, metavar="FILE", help="gold links; .gz, .xz and .zst are unpacked"
        )
        if dispensable:
            either.add_argument(
                "--without-gold",
                action="store_true",
                help="compare with fast_align's links of -s and -t instead, trained on these: a text of a thousand "
                "lines and more. The order of systems is similar to that of their error rates",
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
