"""The options that say which text a program reads."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from align.core.formats import WITH_LINES
from align.core.text import LinePair
from align.io.reader import Input, regular_file


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the input and for lines that cannot be read."""
    group = parser.add_argument_group("input (UTF-8; .gz and .xz are unpacked; - is stdin)")
    group.add_argument(
        "input",
        nargs="*",
        metavar="FILE",
        help="lines `source ||| target` or `source TAB target`; several are one text (default: stdin)",
    )
    group.add_argument("-s", "--source", metavar="FILE", help="source sentences; requires -t")
    group.add_argument("-t", "--target", metavar="FILE", help="target sentences; requires -s")
    group.add_argument(
        "--columns",
        type=column_numbers,
        default=(),
        metavar="N,N",
        help="which columns of a FILE of TABs are source and target, from 1, where there are more of them",
    )
    add_bad_lines_option(group, "a line that has not two fields, is not UTF-8, or is longer than the model takes")


def add_bad_lines_option(
    group: Any, lines: str, stop: str = "stop", blank: str = "read a blank line in its place"
) -> None:
    """Add the policy for lines that cannot be read.

    Args:
        group: of the parser.
        lines: which lines the policy is for.
        stop: what "stop" does.
        blank: what "blank" does.
    """
    group.add_argument("--bad-lines", choices=("stop", "blank"), default="stop", help=f"at {lines}: {stop}, or {blank}")


def column_numbers(text: str) -> tuple[int, ...]:
    """Parse an argument of one or two numbers from 1."""
    numbers = text.split(",")
    if len(numbers) > 2 or not all(n.isascii() and n.isdigit() and 1 <= len(n) <= 4 and int(n) for n in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not two numbers from 1, such as 2,3")
    return tuple(map(int, numbers))


def read_input(
    parser: argparse.ArgumentParser, args: argparse.Namespace, *others: str | None, one_side: bool = False
) -> Input:
    """Read the options of the input.

    Half a pair of files, both ways at once, stdin for two files, and output over input are refused, with exit code 2.

    Args:
        parser: who refuses.
        args: the options.
        others: further files to read.
        one_side: whether there are source sentences only, and a target is what is refused.
    """
    if one_side and args.target is not None:
        parser.error("--translate writes the target side itself: leave out -t/--target")
    if not one_side and (args.source is None) != (args.target is None):
        parser.error("-s/--source and -t/--target go together")
    if args.source is not None and args.input:
        parser.error("either FILEs of both sides, or -s and -t" if not one_side else "either FILE or -s FILE")
    parallel = args.target is not None
    if args.columns and parallel:
        parser.error("--columns requires FILE, not -s and -t")
    if args.columns and len(args.columns) != 2 - one_side:
        parser.error(f"--columns takes {'one number with --translate' if one_side else 'two numbers: source,target'}")
    if len(set(args.columns)) < len(args.columns):
        parser.error("--columns takes two columns: source and target cannot be the same")
    files = tuple(args.input) or ("-",)
    if args.source is not None:
        files = (args.source, args.target) if parallel else (args.source,)
    check_files(parser, (*files, *others), args.output)
    return Input(files, parallel, one_side, args.columns, args.bad_lines == "blank")


def with_lines(text: Input, format: str, words: str = "spaces") -> Input:
    """Return an input whose pairs keep their lines if the format of links, or what a word is, needs them."""
    return replace(text, make=LinePair.of) if format in WITH_LINES or words != "spaces" else text


def check_files(
    parser: argparse.ArgumentParser, names: Iterable[str | None], output: str | None, option: str = "-o"
) -> None:
    """Refuse, with exit code 2, stdin for two files, and output over input.

    Args:
        parser: who refuses.
        names: all files to read; `-` is stdin.
        output: the file to write; None or `-` for stdout.
        option: that names it.
    """
    files = [name for name in names if name is not None]
    if files.count("-") > 1:
        parser.error("only one of the files can be stdin")
    if output == "":
        parser.error(f"{option} needs the name of a file")
    to_stdout = output in (None, "-")
    written = regular_file(sys.stdout if to_stdout else output)
    for name in files:
        file = regular_file(sys.stdin if name == "-" else name)
        if written and file and os.path.samestat(file, written):
            shown = "on stdin" if name == "-" else name
            parser.error("stdout is the input file" if to_stdout else f"{option} would replace the input {shown}")
