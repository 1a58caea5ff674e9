"""Manual pages out of the parsers: `python -m align.cli.manual FOLDER` writes one for each command."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import align
from align.cli.main import COMMANDS, build_parser
from align.cli.parser import Parser

EXIT_STATUS = {
    "0": "All is done.",
    "1": "Input, a model or a file cannot be used; one line on stderr says which, and why.",
    "2": "Wrong usage.",
    "130": "Interrupted.",
    "141": "Whoever read the output went away.",
}

_SPECIAL = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


def pages() -> Iterator[tuple[str, Parser]]:
    """Yield the names of all pages, each with its parser: `extract-align`, its commands, and theirs."""
    yield "extract-align", build_parser()
    for name, (module, _) in COMMANDS.items():
        command = import_module(module)
        yield f"extract-align-{name}", command.build_parser()
        for part in getattr(command, "COMMANDS", ()):
            yield f"extract-align-{name}-{part}", command.build_command(part)


def manual_page(name: str, parser: argparse.ArgumentParser) -> str:
    """The page of a program, in roff with the macros of man(7)."""
    summary = (parser.description or "").rstrip(".")
    usage = " ".join(parser.format_usage().split()[1 + len(parser.prog.split()) :])
    examples, _, closing = (parser.epilog or "").partition("\n\n")
    lines = [f'.TH {roff(name.upper())} 1 "" "extract\\-align {align.__version__}" "User Commands"']
    lines += [".nh", ".ad l", ".SH NAME", f"{roff(name)} \\- {roff(first_letter(summary, str.lower).replace('`', ''))}"]
    lines += [".SH SYNOPSIS", f".B {roff(parser.prog)}", roff(usage), ".SH DESCRIPTION", marked(f"{summary}.")]
    lines += [roff(closing)] if closing else []
    lines.append(".SH OPTIONS")
    for group in parser._action_groups:
        if actions := [action for action in group._group_actions if action.help != argparse.SUPPRESS]:
            lines += (
                []
                if group.title in ("options", "positional arguments")
                else [f".SS {roff(first_letter(group.title or '', str.upper))}"]
            )
            for action in actions:
                if isinstance(action, argparse._SubParsersAction):
                    for one in action._choices_actions:
                        page = f"\\fB{roff(f'{name}-{one.dest}')}\\fR(1)"
                        lines += [".TP", f"\\fB{roff(one.dest)}\\fR", f"{marked(one.help or '')}; see {page}"]
                else:
                    lines += [".TP", heading(action), marked(parser._get_formatter()._expand_help(action))]
    lines.append(".SH EXAMPLES")
    for line in examples.splitlines()[1:]:
        command, _, what = line.strip().partition("   ")
        lines += [".TP", f".B {roff(command)}", marked(what.strip())]
    lines.append(".SH EXIT STATUS")
    for status, meaning in EXIT_STATUS.items():
        lines += [".TP", f".B {status}", roff(meaning)]
    others = ", ".join(f"\\fB{roff(other)}\\fR(1)" for other in see_also(name))
    return "\n".join((*lines, ".SH SEE ALSO", others, ""))


def see_also(name: str) -> list[str]:
    """Return the other pages of the first level."""
    names = ["extract-align", *(f"extract-align-{command}" for command in COMMANDS)]
    return [other for other in names if other != name]


def heading(action: argparse.Action) -> str:
    """An option in all its spellings with what it takes, or the name of an argument."""
    if not action.option_strings:
        return f".I {roff(str(action.metavar or action.dest))}"
    values = "|".join(map(str, action.choices)) if action.choices else action.dest.upper()
    takes = "" if action.nargs == 0 else f" \\fI{roff(str(action.metavar or values))}\\fR"
    return ", ".join(f"\\fB{roff(flag)}\\fR" for flag in action.option_strings) + takes


def marked(text: str) -> str:
    """Text in which `this` is bold."""
    parts = re.split(r"`([^`]+)`", " ".join(text.split()))
    return "".join(f"\\fB{roff(part)}\\fR" if n % 2 else roff(part) for n, part in enumerate(parts)) or r"\&"


def first_letter(text: str, change: Callable[[str], str]) -> str:
    """Text with another first letter."""
    return change(text[:1]) + text[1:]


def roff(text: str) -> str:
    """Text as roff writes it: nothing in it is a command, and hyphens are those of options."""
    escaped = "".join(_SPECIAL.get(character, character) for character in text)
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


def main(arguments: list[str]) -> int:
    """Write all pages into a folder."""
    (folder,) = arguments
    for title, parser in pages():
        Path(folder, f"{title}.1").write_text(manual_page(title, parser), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
