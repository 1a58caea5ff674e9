"""The parser of all programs: no abbreviations, two lines for wrong usage, a short usage line in the help."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

from align.cli.common import say
from align.core.errors import printable

UNKNOWN = "unrecognized arguments: "
"""Beginning of argparse's message about unknown arguments."""


MAY_BE_EMPTY = ("source_prefix",)
"""Options for which an empty value has a meaning."""


class Idle(NamedTuple):
    """Options that have no effect.

    Attributes:
        options: their names.
        when: tells whether they have no effect, given the parsed command line.
        reason: why; follows the option in the message.
    """

    options: Sequence[str]
    when: Callable[[argparse.Namespace], object]
    reason: str


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

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)  # values may have hyphens

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return super()._get_help_string(action) if action.default not in (None, False, ()) else action.help


class Parser(argparse.ArgumentParser):
    """The parser of a program; takes the arguments of its base class.

    Attributes:
        others: parsers of the program's other commands, whose options are completed as well.
    """

    def __init__(self, **named: Any) -> None:
        as_usual: dict[str, Any] = {"formatter_class": Help, "allow_abbrev": False}
        super().__init__(**as_usual | named)
        self.others: Iterable[Parser] = ()
        self._words: list[str] | None = None
        self.color = False  # which Python 3.14 would have in the help, and in what is made of it

    def error(self, message: str) -> NoReturn:
        """Report wrong usage, similar options and `--help`; exit with code 2."""
        if message.startswith(UNKNOWN) and (near := self._resembling(message[len(UNKNOWN) :].split())):
            message += f"; did you mean {' or '.join(near)}?"
        say(f"{self.prog}: error: {printable(message)}\n{self.prog} --help lists all options")
        sys.exit(2)

    def parse_command(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """Parse the command line, in which options may stand between files; after `--` there are only files.

        Args:
            words: the command line; None for that of this process.
        """
        self._words = sys.argv[1:] if words is None else list(words)
        return self.parse_args(self._words) if "--" in self._words else self.parse_intermixed_args(self._words)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return an argument's value; an empty value, as of an unset variable, is an error."""
        if not arg_string and action.dest not in MAY_BE_EMPTY:
            raise argparse.ArgumentError(action, "the value is empty")
        return super()._get_value(action, arg_string)

    def refuse_idle(self, args: argparse.Namespace, rules: Iterable[Idle]) -> None:
        """Refuse options of the command line that have no effect, with exit code 2."""
        absent: list[str] = []  # an option that gathers values makes a new list of it
        given = argparse.Namespace(**{action.dest: absent for action in self._actions})
        self.parse_known_args(self._words, namespace=given)
        for rule in rules:
            for name in rule.options:
                if getattr(given, name) is not absent and rule.when(args):
                    (*_, flag), *_ = (action.option_strings for action in self._actions if action.dest == name)
                    self.error(f"{flag} {rule.reason}")

    def hide(self, names: Collection[str]) -> None:
        """Leave options that are always refused out of the help."""
        for action in self._actions:
            if action.dest in names:
                action.help = argparse.SUPPRESS

    def _resembling(self, words: Iterable[str]) -> list[str]:
        """Return the options that the first unknown word may mean: those that it begins, or the most similar one."""
        shown = [action for action in self._actions if action.help != argparse.SUPPRESS]
        known = [flag for action in shown for flag in action.option_strings if flag.startswith("--")]
        for word in words:
            if word.startswith("--"):
                name = word.partition("=")[0]
                return [flag for flag in known if flag.startswith(name)] or get_close_matches(name, known, 1, 0.75)
        return []
