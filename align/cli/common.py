"""Shared by all commands: exit codes for errors, output to a file or stdout, progress on stderr."""

from __future__ import annotations

import logging
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, BinaryIO

from align.core.errors import ARGUMENT, LONGEST_MESSAGE, DataError, plural, printable, shorten
from align.core.formats import FORMATS
from align.core.types import Alignment, Choice, TextWarning
from align.io.output import open_output as open_output
from align.io.process import stopped_by_signals

DESCRIBING = "extract-align models describe MODEL"  # command that takes the options of a model's text

FLAGS = {
    "source": "-s",
    "target": "-t",
    "text": "the text with -s and -t",
    "too_long": "--bad-lines",
    "wide": "--all-columns",
    **dict.fromkeys(("source_column", "target_column", "id_column"), "--columns"),
    "dictionaries": f"{DESCRIBING} --dictionaries",
    "subword_files": f"{DESCRIBING} --subwords-file",
    "tokenizer": f"{DESCRIBING} --tokenizer",
    "source_prefix": f"{DESCRIBING} --source-prefix",
    "reverse_source_lang": f"{DESCRIBING} --source-lang",
    "reverse_target_lang": f"{DESCRIBING} --target-lang",
}
"""Options whose names are not those of the arguments that they set."""

OK, FAILED, INTERRUPTED, CLOSED_PIPE = 0, 1, 130, 141

REPORT_EVERY, FIRST_REPORT, DRAW_EVERY = 10.0, 3.0, 0.1
"""Seconds between two lines of progress where stderr is not a terminal, until the first of them, and between two bars
where it is one.
"""

_bars: list[Any] = []  # what is drawn on the terminal, and is in the way of a line


def say(message: str) -> None:
    """Write a line to stderr if it is open, where `print` would write to stdout; nothing in it acts on the terminal."""
    for bar in _bars:
        bar.clear()
    if sys.stderr is not None:
        print("\n".join(map(printable, message.split("\n"))), file=sys.stderr, flush=True)


def say_error(program: str, message: str, error: BaseException | None = None) -> None:
    """Write an error to stderr as one line; only a message on what to install keeps its own lines."""
    say(f"{program}: error: {message if isinstance(error, ModuleNotFoundError) else printable(message)}")


def run(
    program: str, job: Callable[[], None], advice: str = "", so_far: Callable[[BaseException], str] | None = None
) -> int:
    """Do a job, and turn errors into one line on stderr and an exit code.

    `advice` is what helps where memory runs out; `so_far` says how far a stopped job came, or nothing.
    """
    show_warnings(program)
    try:
        with stopped_by_signals():
            job()
    except (KeyboardInterrupt, SystemExit) as signal:
        say(f"{program}: interrupted{so_far(signal) if so_far else ''}")
        if isinstance(signal, SystemExit):
            raise
        return INTERRUPTED
    except BrokenPipeError:
        return CLOSED_PIPE
    except (OSError, ValueError, ImportError, MemoryError, RuntimeError) as error:
        if (message := message_of(error, advice)) is None:
            raise
        say_error(program, message, error)
        if so_far and (done := so_far(error)):
            say(f"{program}: stopped{done}")
        return FAILED
    return OK


def message_of(error: Exception, advice: str) -> str | None:
    """Return the message of an expected error; None for an error in the program."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror or error}" if error.filename else str(error.strerror or error)
    if isinstance(error, DataError):
        return error.told(with_options)
    if isinstance(error, ValueError | ImportError):
        return shorten(str(error), LONGEST_MESSAGE)
    return f"out of memory{advice and '; '}{advice}" if lacks_memory(error) else None


def with_options(hint: str) -> str:
    """Return a hint with the options that set its arguments: `--bad-lines blank`, `--gold-format 1-based`."""

    def written(argument: re.Match[str]) -> str:
        file, name, value = argument.groups()
        value = (value or "").strip('"')
        if file:  # of a file of links
            value = f"{value}-based" if name == "base" and value else name if name == "swapped" and value else value
            return f"--{file}-format {value}".rstrip()
        flag = FLAGS.get(name, "--" + name.replace("_", "-"))
        return flag if value in ("", "True") else f"{flag} {value}"

    return ARGUMENT.sub(written, hint)


def lacks_memory(error: Exception) -> bool:
    """Tell whether memory is exhausted; torch has no error class for that on a CPU."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error))


def show_warnings(program: str) -> None:
    """Show our own warnings as lines of the program, and none of those that libraries have for developers."""

    def show(message: Any, *rest: Any, **named: Any) -> None:
        say(f"{program}: warning: {with_options(printable(message.args[0]))}")

    warnings.showwarning = show
    warnings.simplefilter("ignore")
    warnings.simplefilter("always", TextWarning)


class _LogLines(logging.Handler):
    """Writes what is logged as lines of a program."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        say(f"{self.name}: {level}{record.getMessage()}")


def show_log(program: str, quiet: bool) -> None:
    """Show what the package logs as lines of the program; of a quiet one only warnings and errors."""
    logger = logging.getLogger("align")
    logger.handlers[:] = [handler := _LogLines()]
    handler.name = program
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    logger.propagate = False  # other libraries may have sent the root's messages to stdout


def write_links(out: BinaryIO, alignment: Alignment, format: str, scores: bool = False) -> None:
    """Write one pair's links: a line, or three of A3, or a line for each link of NAACL and so none for no link."""
    text = FORMATS[format](alignment, scores)
    if text or format != "naacl":
        out.write(text.encode() + b"\n")


LANGUAGES = {"de": "German", "en": "English"}


def direction(source: str, target: str) -> str:
    """Return two languages by name where names are known: "German to English"."""
    return " to ".join(LANGUAGES.get(language, language) for language in (source, target))


class Progress:
    """Show progress: a bar on a terminal, a line at intervals elsewhere, nothing if quiet.

    Args:
        expected: returns how many lines there will be in all; None as long as that is not known.
        files: returns what to say before the speed.
        every: seconds between two lines where stderr is not a terminal; None for REPORT_EVERY.
    """

    def __init__(
        self,
        program: str,
        quiet: bool = False,
        expected: Callable[[], int | None] = lambda: None,
        files: Callable[[], str] = str,
        every: float | None = None,
    ) -> None:
        self._program, self._quiet, self._expected, self._files = program, quiet, expected, files
        self._every = REPORT_EVERY if every is None else every
        self._bar: Any = None
        self._counts = False  # whether lines that are done are shown
        self._describe: Callable[[Sequence[Choice]], Iterable[str]] = lambda choices: ()
        self.lines = self._before = 0
        self._ahead = 0.0  # lines that are done and not written yet
        self._passes = 1
        self._start = self._shown = time.monotonic()

    def begin(
        self,
        waiting: str = "working …",
        before: int = 0,
        passes: int = 1,
        describe: Callable[[Sequence[Choice]], Iterable[str]] = lambda choices: (),
    ) -> None:
        """Show progress from here on: `waiting` until the first line is done; nothing if it is empty.

        `before` lines were done by an earlier run; each line goes through a model `passes` times.
        """
        self.close()
        self._describe, self._passes = describe, passes
        self.lines = self._before = before
        self._counts, self._shown = bool(waiting) and not self._quiet, time.monotonic()
        if waiting:
            self.show(waiting)

    def choose(self, choices: Sequence[Choice]) -> None:
        """Describe the layers and heads of a text, and start the clock."""
        for line in self._describe(choices):
            self.write(f"{self._program}: {line}")
        self.start()

    def start(self) -> None:
        """Start the clock, before the first line is done."""
        self._start = time.monotonic()
        self._shown = self._start - max(0.0, self._every - FIRST_REPORT)

    def batch(self, pairs: int) -> None:
        """Count pairs that have gone through a model once, and are not written yet."""
        self._ahead += pairs / self._passes
        self._show_counts()

    def add(self, items: int = 1) -> None:
        """Count lines that are written."""
        self.lines += items
        self._ahead = max(0.0, self._ahead - items)
        self._show_counts()

    @property
    def done(self) -> int:
        """Lines that have passed through the models, written or not."""
        return int(self.lines + self._ahead)

    @property
    def rate(self) -> float:
        """Lines per second since the start."""
        return (self.lines + self._ahead - self._before) / max(time.monotonic() - self._start, 1e-9)

    @property
    def speed(self) -> str:
        """The rate in words."""
        return f"{self.rate:,.{0 if self.rate >= 10 else 1}f} lines/s"

    def show(self, text: str) -> None:
        """Say what is being done."""
        if self._quiet:
            return
        if self._bar is None and sys.stderr is not None and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(leave=False, dynamic_ncols=True, mininterval=0, bar_format="{desc}")
            _bars.append(self._bar)
        if self._bar is not None:
            self._bar.set_description_str(f"{self._program}: {printable(text)}")
        elif self._is_due():
            say(f"{self._program}: {text}")

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now - self._shown < (self._every if self._bar is None else DRAW_EVERY):
            return False
        self._shown = now
        return True

    def _show_counts(self) -> None:
        if not self._counts or not self._is_due():
            return
        expected, rate, count = self._expected(), self.rate, plural(self.done, "line")
        text = f"{self._files()}{self.speed}"
        if expected and rate:
            text += f", {timedelta(seconds=round(max(0, expected - self.done) / rate))} left"
        if self._bar is None:
            share = f" ({100 * self.done // expected}%)" if expected else ""
            say(f"{self._program}: {count}{share}, {text}")
        else:
            self._bar.bar_format = "{percentage:3.0f}%|{bar}| {desc}" if expected else "{desc}"
            self._bar.total = expected
            self._bar.set_description_str(f"{count}, {text}", refresh=False)
            self._bar.update(self.done - self._bar.n)

    def write(self, message: str) -> None:
        """Write a line to stderr."""
        if not self._quiet:
            say(message)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            _bars.remove(self._bar)
            self._bar.close()
        self._bar, self._counts = None, False


def write_alignments(
    alignments: Iterable[Alignment], out: BinaryIO, format: str, progress: Progress, scores: bool = False
) -> str:
    """Write all alignments, with the scores of links if `scores`, and return a summary."""
    blank = 0
    progress.begin()
    for alignment in alignments:
        write_links(out, alignment, format, scores)
        blank += not alignment.scores
        progress.add()
    return f"{plural(progress.lines, 'line')}, {blank:,} without links, {progress.speed}"
