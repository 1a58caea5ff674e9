"""What every command does alike: errors to exit codes, results to a file or stdout, progress to stderr."""

from __future__ import annotations

import os
import signal
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from align.formats import FORMATS
from align.stream import OPENERS
from align.types import Alignment
from align.view.escape import printable

OK, FAILED, INTERRUPTED, CLOSED_PIPE = 0, 1, 130, 141

REPORT_EVERY = 10.0
"""Seconds between two lines of progress where stderr is not a terminal."""


def say(message: str) -> None:
    """A line to stderr, if there is one: `print` would take stdout for it. Nothing in it acts on the terminal."""
    if sys.stderr is not None:
        print("\n".join(map(printable, message.split("\n"))), file=sys.stderr, flush=True)


def run(program: str, job: Callable[[], None]) -> int:
    """Do a job and turn what may go wrong into one line on stderr and an exit code.

    Returns:
        0 done, 1 bad data, model or file, 130 Ctrl-C, 141 as for any Unix filter whose reader went away.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    try:
        job()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes at exit
        return CLOSED_PIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say(f"{program}: error: {where}{error.strerror or error}")
        return FAILED
    except (ValueError, ModuleNotFoundError) as error:
        say(f"{program}: error: {error}")
        return FAILED
    except (MemoryError, RuntimeError) as error:  # torch has no class of its own for a CPU that is out of memory
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        say(f"{program}: error: out of memory; a smaller --batch-tokens needs less")
        return FAILED
    return OK


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def show_warnings(program: str, category: type[Warning]) -> None:
    """Show warnings of our own as lines of the program, and none of the libraries' to their developers."""

    def show(message: Any, *rest: Any, **named: Any) -> None:
        say(f"{program}: warning: {message}")

    warnings.showwarning = show
    warnings.simplefilter("ignore")
    warnings.simplefilter("always", category)


@contextmanager
def open_output(path: str | None) -> Iterator[BinaryIO]:
    """Where results go: stdout, or a file (packed if named .gz or .xz) that appears only when it is complete.

    Raises:
        OSError: it cannot be written, or the disk is full; names the file.
    """
    if path is None or path == "-":
        if sys.stdout is None:
            raise ValueError("stdout is closed; name a file with -o")
        with _named("stdout"):
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    with _named(path):
        mode = os.stat(path).st_mode if os.path.exists(path) else None
        if mode is not None and not stat.S_ISREG(mode):  # a device or a pipe
            with open(path, "wb") as stream:
                yield stream
            return
        target = Path(os.path.realpath(path))
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            pack = next((opener for suffix, opener in OPENERS.items() if path.endswith(suffix)), None)
            with open(descriptor, "wb") as raw:
                if pack:
                    with pack(raw, "wb") as packed:
                        yield packed
                else:
                    yield raw
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask if mode is None else stat.S_IMODE(mode))
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Put the output's name into errors of writing, which have none of their own."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None or Path(str(error.filename)).name.startswith(f".{Path(name).name}."):
            raise OSError(error.errno, f"cannot write: {error.strerror}", name) from None
        raise


def write_links(out: BinaryIO, alignment: Alignment, format: str, scores: bool = False) -> None:
    """Write one pair's links: a line, or three of A3, or a line for each link of NAACL and so none for no link."""
    text = FORMATS[format](alignment, scores)
    if text or format != "naacl":
        out.write(text.encode() + b"\n")


class Progress:
    """Lines done: a bar on a terminal, now and then a line elsewhere, nothing where quiet."""

    def __init__(self, program: str, quiet: bool) -> None:
        self._program = program
        self.lines = 0
        self._start = self._reported = time.monotonic()
        self._quiet = quiet
        self._bar: Any = None
        if not quiet and sys.stderr is not None and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(unit=" lines", unit_scale=True, leave=False)

    def add(self) -> None:
        """One line more."""
        self.lines += 1
        if self._bar is not None:
            self._bar.update()
        elif not self._quiet and self.lines % 100 == 0 and time.monotonic() - self._reported > REPORT_EVERY:
            self._reported = time.monotonic()
            say(f"{self._program}: {self.lines:,} lines, {self.rate:,.0f} lines/s")

    @property
    def rate(self) -> float:
        """Lines per second since the start."""
        return self.lines / max(time.monotonic() - self._start, 1e-9)

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
