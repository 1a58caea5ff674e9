"""Command line of `extract-align analyse`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from inspect import getdoc

from align.analysis.bert import program
from align.analysis.commands.common import PROGRAM, FindingArgs, Question
from align.analysis.commands.questions import COMMANDS as COMMANDS
from align.cli.args import MethodArgs, ModelArgs, RunArgs
from align.cli.common import open_output, run, say
from align.cli.loading import LANGUAGES, Request
from align.cli.options import add_group, new_parser, read_group
from align.cli.parser import Parser
from align.cli.sweep import need
from align.io.signature import signature
from align.view.findings import draw_figures, write_tables

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

TRAINING = "train-bert"  # the command that makes a model


def help_of(name: str) -> tuple[str, str]:
    """Return the summary and the examples in a command's docstring."""
    summary, _, examples = (getdoc(COMMANDS[name]) or "").partition("\n\n")
    return summary, "\n  ".join(["examples:", *examples.split("\n")])


def build_command(name: str) -> Parser:
    """Build the parser of a command."""
    if name == TRAINING:
        return program.build_parser()
    kind = COMMANDS[name]
    summary, examples = help_of(name)
    parser = new_parser(f"{PROGRAM} {name}", summary, examples)
    add_group(parser, kind, **kind.CHANGES)
    for common, names in COMMON:
        if only := [name for name in names if name not in kind.WITHOUT]:
            add_group(parser, common, only=only)
    return parser


def build_parser() -> Parser:
    """Build the parser that lists the commands, and leaves what follows one to its own parser."""
    parser = new_parser(PROGRAM, "What does attention do inside a model?", EXAMPLES)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")
    for name in (*COMMANDS, TRAINING):
        command, summary = (
            build_command(name),
            "A small BERT, to analyse" if name == TRAINING else help_of(name)[0].rstrip("."),
        )
        commands.add_parser(name, parents=[command], add_help=False, help=summary, prog=command.prog)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `extract-align analyse`."""
    words = sys.argv[1:] if arguments is None else arguments
    name = next(iter(words), "")
    if name == TRAINING:
        return program.main(words[1:])
    if name not in COMMANDS:
        build_parser().parse_args(words)  # prints the help, or rejects the name
    parser = build_command(name)
    args = parser.parse_command(words[1:])
    question, output = read_group(COMMANDS[name], args), read_group(FindingArgs, args)
    method = MethodArgs(position="both", scorer="none")
    request = Request(read_group(ModelArgs, args), method, read_group(RunArgs, args))
    question.check(parser)
    return run(PROGRAM, lambda: publish(name, question, request, output))


def publish(name: str, question: Question, request: Request, output: FindingArgs) -> None:
    """Answer a question, print the tables, and draw the figures."""
    if output.plots:
        need("matplotlib", "figures")
        output.plots.parent.mkdir(parents=True, exist_ok=True)
    finding, parts = question.answer(request)
    sign = signature({"name": name, **parts}, "analysis")
    drawn = draw_figures(finding, output.plots) if output.plots else []  # before anything is written to stdout
    with open_output(None) as stdout:
        stdout.write(write_tables(finding.tables, sign, format=output.format, wide=output.wide).encode() + b"\n")
    if not request.run.quiet:
        for path in drawn:
            say(f"{PROGRAM}: {path}")
