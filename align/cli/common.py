"""What all commands have in common: errors to exit codes, results to a file or stdout, progress to stderr."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

from align.cli.output import open_output as open_output
from align.cli.signals import stopped_by_signals
from align.errors import Argument, DataError
from align.links.formats import FORMATS
from align.links.gold import LinksWarning
from align.types import Alignment
from align.view.escape import printable

FLAGS = {
    **{"append": "--append-test", "source": "-s", "target": "-t", "text": "the text with -s and -t"},
    "subword_files": "--subwords-file",
}
"""Options whose names are not those of the arguments that they set."""

OK, FAILED, INTERRUPTED, CLOSED_PIPE = 0, 1, 130, 141

REPORT_EVERY = 10.0
"""Seconds between two lines of progress where stderr is not a terminal."""


def say(message: str) -> None:
    """Write a line to stderr if it is open, where `print` would write to stdout; nothing in it acts on the terminal."""
    if sys.stderr is not None:
        print("\n".join(map(printable, message.split("\n"))), file=sys.stderr, flush=True)


def run(program: str, job: Callable[[], None], advice: str = "") -> int:
    """Do a job, and turn errors into one line on stderr and an exit code.

    Args:
        program: whose job it is.
        job: what to do.
        advice: what helps where memory runs out.

    Returns:
        0 done, 1 bad data, model or file, 130 Ctrl-C, 141 as for any Unix filter whose reader went away.
    """
    try:
        with stopped_by_signals():
            job()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return CLOSED_PIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say(f"{program}: error: {where}{error.strerror or error}")
        return FAILED
    except DataError as error:
        say(f"{program}: error: {error.told(as_flag)}")
        return FAILED
    except (ValueError, ModuleNotFoundError) as error:
        say(f"{program}: error: {error}")
        return FAILED
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        say(f"{program}: error: out of memory{advice and '; '}{advice}")
        return FAILED
    return OK


def as_flag(argument: Argument) -> str:
    """An argument of the library as the option that sets it: `--too-long blank`, `--gold-base 1`."""
    name = f"{argument.of}_{argument.name}" if argument.of else argument.name
    flag = FLAGS.get(name, "--" + name.replace("_", "-"))
    return flag if argument.value is None or argument.value is True else f"{flag} {argument.value}"


def lacks_memory(error: Exception) -> bool:
    """Whether memory has run out: torch has no class of its own for that on a CPU."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error))


def show_warnings(program: str, category: type[Warning]) -> None:
    """Show our own warnings as lines of the program, and none of those that libraries have for developers."""

    def show(message: Any, *rest: Any, **named: Any) -> None:
        text = message.told(as_flag) if isinstance(message, LinksWarning) else message
        say(f"{program}: warning: {text}")

    warnings.showwarning = show
    warnings.simplefilter("ignore")
    warnings.simplefilter("always", category)


def write_links(out: BinaryIO, alignment: Alignment, format: str, scores: bool = False) -> None:
    """Write one pair's links: a line, or three of A3, or a line for each link of NAACL and so none for no link."""
    text = FORMATS[format](alignment, scores)
    if text or format != "naacl":
        out.write(text.encode() + b"\n")


class Progress:
    """Progress by lines: a bar on a terminal, now and then a line elsewhere, nothing if quiet.

    Args:
        program: whose they are.
        quiet: whether to say nothing.
        before: lines that an earlier run has done.
    """

    def __init__(self, program: str, quiet: bool, before: int = 0) -> None:
        self._program = program
        self.lines = self._before = before
        self._start = self._reported = time.monotonic()
        self._quiet = quiet
        self._bar: Any = None
        if not quiet and sys.stderr is not None and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(initial=before, unit=" lines", unit_scale=True, leave=False)

    def add(self) -> None:
        """Count a line."""
        self.lines += 1
        if self._bar is not None:
            self._bar.update()
        elif not self._quiet and self.lines % 100 == 0 and time.monotonic() - self._reported > REPORT_EVERY:
            self._reported = time.monotonic()
            say(f"{self._program}: {self.lines:,} lines, {self.rate:,.0f} lines/s")

    @property
    def rate(self) -> float:
        """Lines per second since the start."""
        return (self.lines - self._before) / max(time.monotonic() - self._start, 1e-9)

    def write(self, message: str) -> None:
        """A line to stderr that does not tear the bar apart."""
        if self._bar is not None:
            self._bar.clear()
        if not self._quiet:
            say(message)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


def write_unscored(alignments: Iterable[Alignment], out: BinaryIO, format: str, progress: Progress) -> str:
    """Write a line for each alignment whose links have no scores.

    Args:
        alignments: one for each line of input.
        out: where to.
        format: a key of `align.links.formats.FORMATS`.
        progress: counts the lines.

    Returns:
        How many there were, for a message.
    """
    blank = 0
    for alignment in alignments:
        write_links(out, alignment, format)
        blank += not alignment.scores
        progress.add()
    return f"{progress.lines:,} lines, {blank:,} without links, {progress.rate:,.0f} lines/s"
