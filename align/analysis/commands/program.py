"""`analyse-attention COMMAND`: what attention does inside a model."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from align.analysis.commands.common import PROGRAM, add_common_options, common_options, publish
from align.cli.common import run, show_warnings
from align.cli.options import new_parser
from align.cli.parser import Parser
from align.core.types import TextWarning

COMMANDS = (
    "mixing",
    "patterns",
    "syntax",
    "coreference",
    "similarity",
    "keywords",
    "layers",
    "ablate",
    "prune",
    "adversary",
    "adversary-translation",
)
"""The modules beside this one, each a question: SUMMARY and EXAMPLES, `add_options`, `read_options` and `answer`;
REFUSED, where a command has it, names options of all commands that it refuses."""

EXAMPLES = """examples:
  analyse-attention mixing -s text.de -t text.en     norms against weights, by kind of piece
  analyse-attention mixing --help                    what a command takes
"""


def build_command(name: str) -> Parser:
    """The parser of a command."""
    module = _module(name)
    summary = module.SUMMARY if module.SUMMARY.endswith("?") else f"{module.SUMMARY}."
    parser = new_parser(f"{PROGRAM} {name}", summary, module.EXAMPLES)
    module.add_options(parser)
    add_common_options(parser)
    parser.hide(getattr(module, "REFUSED", ()))
    return parser


def build_parser() -> Parser:
    """The parser that knows the commands, and leaves what follows one to its own."""
    parser = new_parser(PROGRAM, "What does attention do inside a model?", EXAMPLES)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")
    for name in COMMANDS:
        command = build_command(name)
        commands.add_parser(name, parents=[command], add_help=False, help=_module(name).SUMMARY, prog=command.prog)
    return parser


def _module(name: str) -> Any:
    return import_module(f"align.analysis.commands.{name.replace('-', '_')}")


def main() -> int:
    """Entry point of `analyse-attention`."""
    command = next(iter(sys.argv[1:]), "")
    if command not in COMMANDS:
        build_parser().parse_args()  # which answers, or says what is wrong
    parser, module = build_command(command), _module(command)
    args = parser.parse_command(sys.argv[2:])
    common, options = common_options(parser, args), module.read_options(parser, args)
    show_warnings(PROGRAM, TextWarning)
    return run(PROGRAM, lambda: publish(common, command, lambda: module.answer(common, options)))


if __name__ == "__main__":
    sys.exit(main())
