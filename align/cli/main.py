"""`extract-align`: align a text, or run one of the commands in `COMMANDS`."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from align.cli.parser import Parser

COMMANDS = {
    "transfer": ("align.cli.transfer", "put tags or labels of source sentences into their translations"),
    "score": ("align.cli.score", "say how well pairs match, to filter a bitext"),
    "jobs": ("align.cli.jobs", "align many files, resumable, on one machine or many"),
    "serve": ("align.cli.serve", "answer over HTTP"),
    "eval": ("align.cli.evaluate", "compare links with gold: AER, precision, recall, F1"),
    "sweep": ("align.cli.sweep", "compare all layers, heads, scores and positions of a model"),
    "view": ("align.cli.view", "draw links, gold and attention as an HTML page"),
    "combine": ("align.cli.combine", "symmetrise two files of links"),
    "baseline": ("align.cli.baseline", "run fast_align, eflomal or MGIZA"),
    "models": ("align.cli.models", "list the bundled models; describe a model"),
    "models describe": ("align.cli.describe", "store how a model's text is prepared, and show the model"),
    "train": ("align.cli.train", "train a translation model to align with"),
    "train scorer": ("align.cli.train_scorer", "train a network that turns a model's attention into links"),
    "analyse": ("align.analysis.commands.program", "study the attention inside a model"),
}
"""Command: its module, with `build_parser` and `main`, and what it does."""


def start() -> None:
    """Prepare the process; must precede the import of torch.

    Ctrl-C ends the process without a traceback, idle OpenMP threads sleep instead of spinning (OpenMP reads its
    settings when torch is imported), and child processes do not search the current folder for modules.
    """
    from align.io.process import start_quietly

    start_quietly()
    warnings.simplefilter("ignore")  # of libraries during import; `show_warnings` lets ours through
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    os.environ.setdefault("NoDefaultCurrentDirectoryInExePath", "1")  # for programs on Windows
    if isinstance(sys.stdout, io.TextIOWrapper):  # help and completions, on every code page
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")


def build_parser() -> Parser:
    """Build the parser of `extract-align` without a command."""
    from align.cli import about, extract

    parser = extract.build_parser()
    first = {name: summary for name, (_, summary) in COMMANDS.items() if " " not in name}
    parser.commands = "\n".join(f"  {name:10} {summary}" for name, summary in first.items())
    about.add_answers(parser, full_parser)
    return parser


def full_parser() -> Parser:
    """Build the parser of `extract-align` with those of all commands, for completion."""
    parser = build_parser()
    for action in parser._get_positional_actions():  # after a command there are no files
        parser._remove_action(action)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (module, summary) in COMMANDS.items():
        if " " not in name:
            command = import_module(module).build_parser()
            commands.add_parser(name, parents=[command], add_help=False, help=summary)
    return parser


def pages() -> Iterator[tuple[str, Parser]]:
    """Yield the parsers of `extract-align`, its commands and theirs, each with the name of its manual page."""
    yield "extract-align", build_parser()
    for name, (module, _) in COMMANDS.items():
        command = import_module(module)
        yield f"extract-align-{name.replace(' ', '-')}", command.build_parser()
        for part in getattr(command, "COMMANDS", ()):
            yield f"extract-align-{name}-{part}", command.build_command(part)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; a file with the name of a command is given as `./NAME`."""
    start()
    words = sys.argv[1:] if arguments is None else list(arguments)
    for count in (2, 1):
        if (name := " ".join(words[:count])) in COMMANDS:
            code: int = import_module(COMMANDS[name][0]).main(words[count:])
            return code
    from align.cli import extract

    return extract.main(words, build_parser())


if __name__ == "__main__":
    sys.exit(main())
