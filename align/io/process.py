"""Control this process and the Python processes that it starts: signals, memory, CPU quota, module path and exit."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

SIGNALS = tuple(filter(None, (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"))))
"""Signals that stop a program; a closed window sends SIGHUP, and SIGBREAK on Windows."""

END_WITH_PARENT = "from align.io.process import end_with_parent; end_with_parent()\n"
"""Start of a script whose process ends with its parent."""


def python(script: str, *arguments: object) -> list[str]:
    """Build the command that runs a script in another Python, with our module path, without the current folder."""
    path = [folder for folder in sys.path if folder]  # '' is the current folder, where `-c` looks first
    return [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}\n{script}", *map(str, arguments)]


def module(name: str, *arguments: object, before: str = "") -> list[str]:
    """Build the command that does what `python -m NAME` does with our module path, after a script."""
    return python(f"{before}import runpy; runpy.run_module({name!r}, None, '__main__', True)", *arguments)


@contextmanager
def another_folder() -> Iterator[None]:
    """Be in the folder of Python's own modules within this context, where no file of a downloaded folder is found."""
    folder = os.getcwd()
    os.chdir(os.path.dirname(os.__file__))
    try:
        yield
    finally:
        os.chdir(folder)


@contextmanager
def no_current_folder() -> Iterator[None]:
    """Keep Python processes that multiprocessing spawns in this context from importing from the current folder.

    A spawned child begins with `python -c`, which puts that folder first on the module path until the parent's own path
    has been sent. A `multiprocessing.py` in a downloaded folder would be run before that.
    """
    if sys.version_info >= (3, 11):
        before = os.environ.get("PYTHONSAFEPATH", "")  # Python takes no notice of an empty one
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            yield
        finally:
            os.environ["PYTHONSAFEPATH"] = before
    else:
        with another_folder():
            yield


@contextmanager
def announced_end(message: str) -> Iterator[None]:
    """Print a message on stderr if this process ends within the context, as when a library exits at once.

    A grandchild waits for the end of a pipe: Ray kills the children of its process before it exits.
    """
    import subprocess

    script = 'exec 3<&0; { read -r line <&3 || printf "%s\\n" "$0" >&2; } &'
    with subprocess.Popen(["/bin/sh", "-c", script, message], stdin=subprocess.PIPE, start_new_session=True) as process:
        process.wait()
        try:
            yield
        finally:
            process.communicate(b"\n")


def end_with_parent() -> None:
    """End this process, and all processes that it forks, as soon as its parent has ended, even if that was killed.

    The stdin must be a pipe whose other end only the parent holds and to which nothing is written.
    """
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def wait() -> None:
        os.read(pipe, 1)
        os._exit(1)

    def watch() -> None:
        threading.Thread(target=wait, daemon=True).start()

    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=watch)  # threads are not forked
    watch()


unfinished: set[str] = set()  # files to remove when a run ends at once


def leave(number: int, frame: FrameType | None) -> None:
    """Remove unfinished files and end at once."""
    for path in unfinished:
        with contextlib.suppress(OSError):
            os.unlink(path)
    os._exit(128 + number)


def stop(number: int, frame: FrameType | None) -> None:
    """End by an exception, so that contexts are closed; a second Ctrl-C does not wait for that.

    During an import the end is immediate: some packages catch a KeyboardInterrupt of their imports as a failure.
    """
    signal.signal(signal.SIGINT, leave)
    while frame:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            leave(number, None)
        frame = frame.f_back
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """End this context on `SIGNALS`, except on ignored ones, as SIGHUP is under nohup."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    changed = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in changed:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, old in changed.items():
            signal.signal(number, old)


def start_quietly() -> None:
    """End without a traceback on Ctrl-C, even during the first imports."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)


def keep_freed_memory() -> None:
    """Tell glibc to keep large freed blocks, which the next batch needs again.

    Returned to the kernel and requested again they cause page faults, which cost several times the arithmetic on some
    virtual machines. Other C libraries are left alone.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD: the highest that glibc takes
    mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


def release_freed_memory() -> None:
    """Tell glibc to return freed blocks, which would otherwise lie between those in use; other C libraries do."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def cpu_quota(groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the cores that Linux's control group may use, rounded up; None without a quota, and on other systems."""
    try:
        quota, period = map(int, (groups / "cpu.max").read_text("ascii").split())
    except (OSError, ValueError):  # there is no such file, or it says "max"
        return None
    return -(-quota // period)
