"""Command line of `extract-align analyse`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from inspect import getdoc

from align.analysis.commands.common import PROGRAM, FindingArgs
from align.analysis.commands.questions import COMMANDS as COMMANDS
from align.cli.args import MethodArgs, ModelArgs, RunArgs
from align.cli.common import run
from align.cli.loading import LANGUAGES, Request
from align.cli.options import add_group, new_parser, read_group
from align.cli.parser import Parser

COMMON = (
    (FindingArgs, ("format", "wide", "plots")),
    (ModelArgs, ("model", *LANGUAGES)),
    (RunArgs, ("device", "threads", "quiet")),
)
"""Groups of options of all commands, and which of them."""

EXAMPLES = """examples:
  extract-align analyse mixing -s text.de -t text.en   norms against weights, by kind of piece
  extract-align analyse mixing --help   what a command takes
"""


def build_command(name: str) -> Parser:
    """Build the parser of a command; the docstring of its question has a summary and examples."""
    kind = COMMANDS[name]
    summary, _, examples = (getdoc(kind) or "").partition("\n\n")
    parser = new_parser(f"{PROGRAM} {name}", summary, "\n  ".join(["examples:", *examples.split("\n")]))
    add_group(parser, kind, **kind.CHANGES)
    for common, names in COMMON:
        if only := [name for name in names if name not in kind.WITHOUT]:
            add_group(parser, common, only=only)
    return parser


def build_parser() -> Parser:
    """Build the parser that lists the commands, and leaves what follows one to its own parser."""
    parser = new_parser(PROGRAM, "Analyse the attention inside a model.", EXAMPLES)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")
    for name in COMMANDS:
        command = build_command(name)
        summary = str(command.description).rstrip(".")
        commands.add_parser(name, parents=[command], add_help=False, help=summary, prog=command.prog)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align analyse`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = next(iter(words), "")
    if name not in COMMANDS:
        build_parser().parse_args(words)  # prints the help, or rejects the name
    parser = build_command(name)
    args = parser.parse_command(words[1:])
    question, output = read_group(COMMANDS[name], args), read_group(FindingArgs, args)
    method = MethodArgs(position="both", scorer="none")
    request = Request(read_group(ModelArgs, args), method, read_group(RunArgs, args))
    question.check(parser)
    return run(PROGRAM, lambda: question.run(words, request, output))
