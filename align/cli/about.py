"""Options that print something and exit: version and shell completion."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import align
from align.cli.parser import Parser
from align.models.folder import bundled_models

SHELLS = ("bash", "zsh", "tcsh")


def add_answers(parser: Parser, full_parser: Callable[[], Parser]) -> None:
    """Add the options that print something and exit."""

    class Completion(argparse.Action):
        def __call__(self, parser: Any, namespace: Any, shell: Any, option: Any = None) -> None:
            parser._print_message(complete(full_parser(), shell), sys.stdout)
            parser.exit()

    parser.add_argument("--version", action="version", version=f"{parser.prog} {align.__version__}")
    parser.add_argument(
        "--print-completion",
        action=Completion,
        choices=SHELLS,
        metavar="SHELL",
        help=f"print the completion script for a shell: {', '.join(SHELLS)}",
    )


def complete(parser: Parser, shell: str) -> str:
    """Return a script that completes commands, options, their values, files and folders."""
    import shtab

    function, names = "_extract_align_model_or_file", " ".join(bundled_models())
    preamble = {
        "bash": f'{function}() {{ compgen -W "{names}" -- "$1"; compgen -f -- "$1"; }}',
        "zsh": f"{function}() {{ _alternative 'models:bundled model:({names})' 'files:file:_files'; }}",
    }
    model = {"bash": function, "zsh": function, "tcsh": "f", "preamble": preamble}
    kinds = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY, "PREFIX": shtab.FILE, "MODEL": model}
    _describe_values(parser, kinds)
    script = str(shtab.complete(parser, shell))
    if shell == "bash":  # a first word that begins no command is a file
        script = script.replace("complete -o filenames -F", "complete -o filenames -o default -F")
    return f"{script}\n"


def _describe_values(parser: argparse.ArgumentParser, kinds: dict[str, Any]) -> None:
    """Tell shtab what options and arguments take, by their metavars: files, folders, or models."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in set(action.choices.values()):
                _describe_values(command, kinds)
            continue
        if action.option_strings and action.nargs in ("*", "+"):
            action.nargs = None  # after which further files and options are offered, and not files alone
        kind = str(action.metavar) if action.option_strings else "FILE"
        if kind in kinds and not action.choices:
            action.complete = kinds[kind]  # type: ignore[attr-defined]
