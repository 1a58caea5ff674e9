"""The parser of all programs: no abbreviations, two lines for wrong usage, a short usage line in the help."""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from align.cli.common import say
from align.core.errors import printable
from align.io.output import link_target, temporary_name
from align.io.reader import regular_file

UNKNOWN = "unrecognized arguments: "  # beginning of argparse's message about unknown arguments


class Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps line breaks of the examples, adds defaults, and lists no options in the usage line."""

    def add_usage(
        self, usage: str | None, actions: Iterable[argparse.Action], groups: Any, prefix: str | None = None
    ) -> None:
        """Write the usage line: required options, one word for all others, and positional arguments."""
        options = argparse.Action([], "options", metavar="[OPTION]...")
        required = [action for action in actions if action.option_strings and action.required]
        rest = [action for action in actions if not action.option_strings]
        super().add_usage(usage, [*required, options, *rest], [], prefix)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap paragraphs; write `  command   what it does` as two lines."""
        lines = []
        for line in text.splitlines():
            command, _, what = line.strip().partition("   ")
            if line.startswith("  "):
                lines += [f"  # {what.strip()}"] * bool(what) + [f"  {command}"]
            else:
                lines += textwrap.wrap(line, width, break_on_hyphens=False) or [""]
        return "\n".join(lines)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)  # values may have hyphens

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if isinstance(action.default, tuple) and action.default:
            return f"{action.help} (default: {','.join(map(str, action.default))})"
        return super()._get_help_string(action) if action.default not in (None, False, (), []) else action.help


class ShortHelp(argparse.Action):
    """`-h`: the most used options, a line each, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        """Print the help and exit."""
        assert isinstance(parser, Parser)
        parser._print_message(f"{parser.short_help().rstrip()}\n", sys.stdout)
        parser.exit()


MODEL_FILES = re.compile(
    r".*\.(pt|bin|npz|safetensors|spm|model|ya?ml|jinja|argosmodel|codes|json|toml)|vocab\.txt|merges\.txt"
    r"|dict\.[^.]+\.txt|bpe\..*|codes?(\..*)?|bpecodes|(shared|source|target)_vocabulary\.txt"
)
"""Names of the files of models, which no output replaces in a model's folder."""

WEIGHTS = (".safetensors", ".bin", ".pt", ".npz")  # endings of the files of models that have the weights


def _file_names(value: object) -> Iterator[str]:
    """Yield what may be names of files in the value of an option."""
    if isinstance(value, (str, Path)):
        yield str(value)
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from _file_names(element)


class Parser(argparse.ArgumentParser):
    """The parser of a program; takes the arguments of its base class."""

    def __init__(self, short: Sequence[str] = (), **named: Any) -> None:
        as_usual: dict[str, Any] = {"formatter_class": Help, "allow_abbrev": False}
        super().__init__(**as_usual | named | {"add_help": False})
        self._short, self.commands = short, ""
        self.short_texts: dict[str, str] = {}
        # From `align.cli.options`: the fields of each group that are offered, those that name files to read,
        # and those that name files to write, with their flags.
        self.offered: dict[type, set[str]] = {}
        self.reads: list[str] = []
        self.writes: dict[str, str] = {}
        if named.get("add_help", True):
            help = "show the most used options" if short else "show all options"
            self.add_argument("-h", action=ShortHelp, nargs=0, default=argparse.SUPPRESS, help=help)
            self.add_argument("--help", action="help", help="show all options")
        self.words: list[str] = []
        self.color = False  # which Python 3.14 would have in the help, and in what is made of it

    def error(self, message: str) -> NoReturn:
        """Report wrong usage, similar options and `--help`; exit with code 2."""
        words = message[len(UNKNOWN) :].split() if message.startswith(UNKNOWN) else []
        if unknown := next((word for word in words if word.startswith("--")), None):
            # the options that it begins, or the most similar one
            name = unknown.partition("=")[0]
            shown = [action for action in self._actions if action.help != argparse.SUPPRESS]
            known = [flag for action in shown for flag in action.option_strings if flag.startswith("--")]
            near = [flag for flag in known if flag.startswith(name)] or get_close_matches(name, known, 1, 0.75)
            message += f"; did you mean {' or '.join(near)}?" if near else ""
        say(f"{self.prog}: error: {printable(message)}\n{self.prog} --help lists all options")
        sys.exit(2)

    def parse_command(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """Parse the command line, in which options may stand between files; after `--` there are only files."""
        self.words = sys.argv[1:] if words is None else list(words)
        args = self.parse_args(self.words) if "--" in self.words else self.parse_intermixed_args(self.words)
        self._check_files(args)
        args.offered = self.offered
        return args

    def require_both(self, args: object, first: str, second: str) -> None:
        """Refuse one of two options, given by their flags, without the other."""
        dests = (flag.rpartition("--")[2].replace("-", "_") for flag in (first, second))
        if len({getattr(args, dest) is None for dest in dests}) > 1:
            self.error(f"give both {first} and {second}")

    def _check_files(self, args: argparse.Namespace) -> None:
        """Refuse stdin for two files, and output over an input, another output or a file of a model."""
        values = vars(args)
        read = [name for dest in self.reads for name in _file_names(values[dest])]
        if "input" in values and not (values["input"] or values.get("source") or values.get("html_file")):
            read.append("-")
        if read.count("-") > 1:
            self.error("only one of the files can be stdin")
        outputs = {flag: values[dest] for dest, flag in self.writes.items() if isinstance(values[dest], str)}
        places = [os.path.normcase(os.path.realpath(name)) for name in outputs.values()]
        for flag, name in ({"-o": "-"} | outputs).items():
            if flag != "-o" and (name == "-" or places.count(os.path.normcase(os.path.realpath(name))) > 1):
                self.error(f"{flag} needs a file of its own")
            part = None if name == "-" else regular_file(temporary_name(link_target(name)))
            written = [regular_file(sys.stdout if name == "-" else name), part]
            for other in read:
                file = regular_file(sys.stdin if other == "-" else other)
                if file and any(output and os.path.samestat(file, output) for output in written):
                    replaced = f"{flag} would replace the input {'on stdin' if other == '-' else other}"
                    self.error("stdout is the input file" if name == "-" else replaced)
            if os.path.isfile(name) and MODEL_FILES.fullmatch(os.path.basename(name)):
                # Beside weights, or in or around a folder that is read: a model's, or its dictionaries'.
                folder = os.path.dirname(os.path.realpath(name))
                near: set[str] = set()
                for own in map(os.path.realpath, filter(os.path.isdir, read)):
                    near |= {own, os.path.join(own, "model"), os.path.dirname(own)}
                if folder in near or any(other.endswith(WEIGHTS) for other in os.listdir(folder)):
                    self.error(f"{flag} would replace {name}, a file of a model")

    def short_help(self) -> str:
        """Return the help that fits a screen: usage, commands, and the most used options."""
        if not self._short:
            return self.format_help()
        heads = {action.dest: self._get_formatter()._format_action_invocation(action) for action in self._actions}
        rows = [f"  {heads[name]:26} {self.short_texts[name]}" for name in self._short]
        parts = [self.format_usage().rstrip(), "", *textwrap.wrap(self.description or "", 80), ""]
        parts += ["commands:", self.commands] if self.commands else []
        parts += ["options (--help lists all, with examples):", *rows]
        return "\n".join(parts)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return an argument's value; an empty value, as of an unset variable, is an error."""
        if not arg_string and action.dest != "source_prefix":  # where it means something
            raise argparse.ArgumentError(action, "the value is empty")
        return super()._get_value(action, arg_string)

    def format_help(self) -> str:
        """Return the help with all options, after the list of commands."""
        text = super().format_help()
        commands = f"commands (each has its own --help):\n{self.commands}\n\n"
        return text.replace("options:\n", f"{commands}options:\n", 1) if self.commands else text
