"""The programs behind this project's figures: each command prints its tables and writes them to eval/results/."""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from pathlib import Path

from commands import COMMANDS

from align.cli.common import run, show_warnings
from align.cli.parser import Parser
from align.core.types import TextWarning
from align.io.process import keep_freed_memory

HERE = Path(__file__).parent


def build_parser() -> argparse.ArgumentParser:
    """All commands. What each is for stands at the top of its module, which is read, not imported: that takes long."""
    parser = Parser(prog="python eval/run.py", description=__doc__)
    commands = parser.add_subparsers(prog=parser.prog, dest="command", metavar="COMMAND", required=True)
    for name, add_options in COMMANDS.items():
        source = (HERE / f"{module_of(name)}.py").read_text(encoding="utf-8")
        about = ast.get_docstring(ast.parse(source)) or ""
        summary = about.partition("\n")[0].replace("%", "%%")
        command = commands.add_parser(name, help=summary, description=about)
        add_options(command)
        command.add_argument("-o", "--output", type=Path, default=HERE / "results", help="folder of the results")
    return parser


def module_of(command: str) -> str:
    """The module that does a command's work."""
    return command.replace("-", "_")


def main(arguments: list[str] | None = None) -> int:
    """Run one command."""
    parser = build_parser()
    options = vars(parser.parse_args(arguments))
    command = options.pop("command")

    def job() -> None:
        options["output"].mkdir(parents=True, exist_ok=True)
        importlib.import_module(module_of(command)).run(**options)

    keep_freed_memory()
    show_warnings(command, TextWarning)
    try:
        return run(command, job)
    except argparse.ArgumentError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
