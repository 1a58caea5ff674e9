"""Signals that end a run: none is lost, none prints a traceback, and no half-written file stays."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

unfinished: set[str] = set()
"""Files to remove where a run ends at once."""


def leave(number: int, frame: FrameType | None) -> None:
    """End at once, whatever else is under way, and take unfinished files along."""
    for path in unfinished:
        with contextlib.suppress(OSError):
            os.unlink(path)
    os._exit(128 + number)


def stop(number: int, frame: FrameType | None) -> None:
    """End by an exception, so that everything is tidied up on the way out; a second Ctrl-C does not wait for that.

    During an import the end is immediate: some modules of other packages try things out as they are imported, and take
    a KeyboardInterrupt for a failure.
    """
    signal.signal(signal.SIGINT, leave)
    while frame:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            leave(number, None)
        frame = frame.f_back
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP end what is done here, except ignored ones, as SIGHUP is under nohup."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    changed = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in changed:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, old in changed.items():
            signal.signal(number, old)


def start_quietly() -> None:
    """Let Ctrl-C end the program without a traceback, even during its first imports."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
