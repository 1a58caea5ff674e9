"""Sentences on the command line: one file of both sides, two files, or stdin; or those of one side."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TextIO

from align.text.lines import open_lines, read_bitext, read_lines, read_parallel, read_sources
from align.types import Pair
from align.view.escape import printable


def add_input_options(parser: argparse.ArgumentParser, too_long: bool = True) -> None:
    """Where the sentences come from, and what to do with those that are too long for a model."""
    group = parser.add_argument_group("input (UTF-8; .gz and .xz are unpacked; - is stdin)")
    group.add_argument("input", nargs="?", help="lines `source ||| target` or `source TAB target` (default: stdin)")
    group.add_argument("-s", "--source", metavar="FILE", help="source sentences; goes with -t")
    group.add_argument("-t", "--target", metavar="FILE", help="target sentences; goes with -s")
    if too_long:
        group.add_argument(
            "--too-long",
            choices=("stop", "blank"),
            default="stop",
            help="at a line longer than the model takes: stop, or give it a blank line",
        )


def input_names(args: argparse.Namespace) -> tuple[str, ...]:
    """The files of the options above: one of both sides or of source sentences, or one for each side."""
    if args.source is None:
        return (args.input or "-",)
    return (args.source,) if args.target is None else (args.source, args.target)


def check_inputs(
    parser: argparse.ArgumentParser, args: argparse.Namespace, *others: str | None, one_side: bool = False
) -> None:
    """Refuse, with exit code 2, half a pair of files, both ways at once, stdin for two files, output over input.

    With `one_side` there are source sentences only, and a target is what is refused.
    """
    if one_side and args.target is not None:
        parser.error("--translate writes the target side itself: leave out -t/--target")
    if not one_side and (args.source is None) != (args.target is None):
        parser.error("-s/--source and -t/--target go together")
    if args.source is not None and args.input is not None:
        parser.error("either one file of both sides, or -s and -t" if not one_side else "either FILE or -s FILE")
    check_files(parser, (*input_names(args), *others), args.output)


def check_files(parser: argparse.ArgumentParser, names: Iterable[str | None], output: str | None) -> None:
    """Refuse, with exit code 2, stdin for two files, and output over input.

    Args:
        parser: who refuses.
        names: all files to read; `-` is stdin.
        output: the file to write; None or `-` for stdout.
    """
    files = [name for name in names if name is not None]
    if files.count("-") > 1:
        parser.error("only one of the files can be stdin")
    if output == "":
        parser.error("-o needs the name of a file")
    to_stdout = output in (None, "-")
    written = _regular_file(sys.stdout if to_stdout else output)
    for name in files:
        file = _regular_file(sys.stdin if name == "-" else name)
        if written and file and os.path.samestat(file, written):
            shown = "on stdin" if name == "-" else name
            parser.error("stdout is the input file" if to_stdout else f"-o would replace the input {shown}")


def _regular_file(file: str | TextIO | None) -> os.stat_result | None:
    """The status of an ordinary file, by its name or open; None for anything else."""
    try:
        about = os.stat(file) if isinstance(file, str) else os.fstat(file.fileno()) if file else None
    except (OSError, ValueError):  # as for a stream without a file descriptor
        return None
    return about if about and stat.S_ISREG(about.st_mode) else None


def name_shown(name: str) -> str:
    """What messages call a file: no line may be broken by its name."""
    return "stdin" if name == "-" else printable(name)


@contextmanager
def open_pairs(names: Sequence[str]) -> Iterator[tuple[Iterator[Pair], str]]:
    """The pairs of one file of both sides or of two files, and what to call it or them in messages."""
    shown = [name_shown(name) for name in names]
    with ExitStack() as stack:
        lines = [
            read_lines(stack.enter_context(open_lines(name)), show) for name, show in zip(names, shown, strict=True)
        ]
        if len(lines) == 2:
            yield read_parallel(lines[0], lines[1], (shown[0], shown[1])), " and ".join(shown)
        else:
            yield read_bitext(lines[0], shown[0]), shown[0]


@contextmanager
def open_sources(names: Sequence[str]) -> Iterator[tuple[Iterator[Pair], str]]:
    """The source sentences of a file, as pairs without a target, and what to call it in messages."""
    (name,) = names
    shown = name_shown(name)
    with open_lines(name) as stream:
        yield read_sources(read_lines(stream, shown), shown), shown
