"""Options that print something and exit: version, shell completion; names of the bundled models."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from typing import Any

import align
from align.cli.common import direction, open_output, run
from align.cli.parser import Parser
from align.models.folder import BUNDLED, find_model
from align.models.model_toml import ModelOptions

SHELLS = ("bash", "zsh", "tcsh")

_CARD_ROW = re.compile(r"\| (use|size|trained on) \| (.*) \|")


def add_answers(parser: Parser, full_parser: Callable[[], Parser]) -> None:
    """Add the options that print something and exit."""

    class Completion(argparse.Action):
        def __call__(self, parser: Any, namespace: Any, shell: Any, option: Any = None) -> None:
            def answer() -> None:
                with open_output(None) as out:
                    out.write(complete(full_parser(), shell).encode())

            sys.exit(run(parser.prog, answer))

    parser.add_argument("--version", action="version", version=f"{parser.prog} {align.__version__}")
    parser.add_argument(
        "--print-completion",
        action=Completion,
        choices=SHELLS,
        metavar="SHELL",
        help=f"print the completion script for a shell: {', '.join(SHELLS)}",
    )


def bundled_models() -> list[str]:
    """Return the names of the bundled models."""
    return sorted(path.parent.name for path in BUNDLED.glob("*/model.toml"))


def list_models() -> str:
    """Return a paragraph for each bundled model: name, direction, rows of its card, and folder."""
    paragraphs = []
    for name in bundled_models():
        folder = find_model(name, ModelOptions())
        lines = [f"{name}  {direction(folder.options.source_lang or '', folder.options.target_lang or '')}"]
        card = (folder.root / "README.md").read_text(encoding="utf-8")
        lines += [f"  {row}: {text}" for row, text in _CARD_ROW.findall(card)]
        paragraphs.append("\n".join((*lines, f"  {folder.root}", "")))
    return "\n".join(paragraphs)


def complete(parser: Parser, shell: str) -> str:
    """Return a script that completes commands, options, their values, files and folders."""
    import shtab

    _describe_values(parser)
    script = str(shtab.complete(parser, shell))
    if shell == "bash":  # a first word that begins no command is a file
        script = script.replace("complete -o filenames -F", "complete -o filenames -o default -F")
    return f"{script}\n"


def _describe_values(parser: argparse.ArgumentParser) -> None:
    """Tell shtab what options and arguments take: files, folders, or models."""
    import shtab

    kinds = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY, "PREFIX": shtab.FILE, "MODEL": model_or_file()}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in set(action.choices.values()):
                _describe_values(command)
            continue
        action.nargs = getattr(action, "save_nargs", action.nargs)  # which parse_intermixed_args puts aside
        if action.option_strings and action.nargs in ("*", "+"):
            action.nargs = None  # after which further files and options are offered, and not files alone
        kind = str(action.metavar) if action.option_strings else "FILE"
        if kind in kinds and not action.choices:
            action.complete = kinds[kind]  # type: ignore[attr-defined]


def model_or_file() -> dict[str, Any]:
    """Return shtab's description of an argument that is the name of a bundled model, or a file."""
    function, names = "_extract_align_model_or_file", " ".join(bundled_models())
    preamble = {
        "bash": f'{function}() {{ compgen -W "{names}" -- "$1"; compgen -f -- "$1"; }}',
        "zsh": f"{function}() {{ _alternative 'models:bundled model:({names})' 'files:file:_files'; }}",
    }
    return {"bash": function, "zsh": function, "tcsh": "f", "preamble": preamble}
