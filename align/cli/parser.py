"""The parser of all programs: nothing abbreviated, wrong usage answered in two lines, a short usage in the help."""

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
"""What argparse begins its message with where nothing takes an argument."""


MAY_BE_EMPTY = ("source_prefix",)
"""Options of which an empty value has a meaning."""


class Idle(NamedTuple):
    """Options that would do nothing.

    Attributes:
        options: their names.
        when: whether that is so, given the whole command line.
        reason: why; what to say behind the option.
    """

    options: Sequence[str]
    when: Callable[[argparse.Namespace], object]
    reason: str


class Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of the examples, adds defaults where there are any, and lists no options in the usage."""

    def add_usage(
        self, usage: str | None, actions: Iterable[argparse.Action], groups: Any, prefix: str | None = None
    ) -> None:
        """The usage: options that must be given, one word for all others, and the rest of the arguments."""
        options = argparse.Action([], "options", metavar="[OPTION]...")
        required = [action for action in actions if action.option_strings and action.required]
        rest = [action for action in actions if not action.option_strings]
        super().add_usage(usage, [*required, options, *rest], [], prefix)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)  # values may have hyphens

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return super()._get_help_string(action) if action.default not in (None, False, ()) else action.help


class Parser(argparse.ArgumentParser):
    """A parser as all programs have it; takes the arguments of its base class.

    Attributes:
        others: parsers of what else the program does, whose options a shell completes, too.
    """

    def __init__(self, **named: Any) -> None:
        as_usual: dict[str, Any] = {"formatter_class": Help, "allow_abbrev": False}
        super().__init__(**as_usual | named)
        self.others: Iterable[Parser] = ()
        self._words: list[str] | None = None
        self.color = False  # which Python 3.14 would have in the help, and in what is made of it

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, which option may have been meant, and where to look; exit code 2."""
        if message.startswith(UNKNOWN) and (near := self._resembling(message[len(UNKNOWN) :].split())):
            message += f"; did you mean {' or '.join(near)}?"
        say(f"{self.prog}: error: {printable(message)}\n{self.prog} --help says what there is")
        sys.exit(2)

    def parse_command(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """The command line, in which options may stand between files; behind `--` there are files only.

        Args:
            words: its words, if they are not all of this process's.
        """
        self._words = sys.argv[1:] if words is None else list(words)
        return self.parse_args(self._words) if "--" in self._words else self.parse_intermixed_args(self._words)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """An argument's value; an empty one, as of an unset variable, is an error and not the default."""
        if not arg_string and action.dest not in MAY_BE_EMPTY:
            raise argparse.ArgumentError(action, "the value is empty")
        return super()._get_value(action, arg_string)

    def refuse_idle(self, args: argparse.Namespace, rules: Iterable[Idle]) -> None:
        """Refuse, with exit code 2, options of the command line that would do nothing there, whatever their values."""
        absent: list[str] = []  # an option that gathers values makes a new list of it
        given = argparse.Namespace(**{action.dest: absent for action in self._actions})
        self.parse_known_args(self._words, namespace=given)
        for rule in rules:
            for name in rule.options:
                if getattr(given, name) is not absent and rule.when(args):
                    (*_, flag), *_ = (action.option_strings for action in self._actions if action.dest == name)
                    self.error(f"{flag} {rule.reason}")

    def hide(self, names: Collection[str]) -> None:
        """Leave options out of the help, such as those that are refused whatever else is given."""
        for action in self._actions:
            if action.dest in names:
                action.help = argparse.SUPPRESS

    def _resembling(self, words: Iterable[str]) -> list[str]:
        """The options that the first unknown one may have been meant for: those that it begins, or the nearest."""
        shown = [action for action in self._actions if action.help != argparse.SUPPRESS]
        known = [flag for action in shown for flag in action.option_strings if flag.startswith("--")]
        for word in words:
            if word.startswith("--"):
                name = word.partition("=")[0]
                return [flag for flag in known if flag.startswith(name)] or get_close_matches(name, known, 1, 0.75)
        return []
