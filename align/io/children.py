"""Python in a process of its own: it finds the modules that we find, and can be made to end when we do."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

END_WITH_PARENT = "from align.io.children import end_with_parent; end_with_parent()\n"
"""Begins a script whose process is to end with the one that started it."""


def python(script: str, *arguments: object) -> list[str]:
    """The command that runs a script in another Python, with our module path and nothing of the current folder."""
    path = [folder for folder in sys.path if folder]  # '' is the current folder, where `-c` looks first
    return [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}\n{script}", *map(str, arguments)]


def module(name: str, *arguments: object, before: str = "") -> list[str]:
    """The command that does what `python -m NAME` does, but so, and a script before it."""
    return python(f"{before}import runpy; runpy.run_module({name!r}, None, '__main__', True)", *arguments)


@contextmanager
def no_current_folder() -> Iterator[None]:
    """Make Python processes that multiprocessing spawns meanwhile import nothing from the current folder.

    A spawned child begins with `python -c`, which puts that folder first on the module path until the parent's own path
    has been sent. A `multiprocessing.py` in a downloaded folder would be run before that.
    """
    if sys.version_info >= (3, 11):
        before = os.environ.get("PYTHONSAFEPATH")
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ["PYTHONSAFEPATH"]
            else:
                os.environ["PYTHONSAFEPATH"] = before
        return
    folder = os.getcwd()
    os.chdir(os.path.dirname(os.__file__))
    try:
        yield
    finally:
        os.chdir(folder)


@contextmanager
def announced_end(message: str) -> Iterator[None]:
    """Have a message on stderr if this process ends within the context, as where a library's own code exits at once.

    It is a grandchild that waits for the end of a pipe: Ray's code kills the children of its process before it exits.
    """
    script = 'exec 3<&0; { read -r line <&3 || printf "%s\\n" "$0" >&2; } &'
    with subprocess.Popen(["/bin/sh", "-c", script, message], stdin=subprocess.PIPE, start_new_session=True) as process:
        process.wait()
        try:
            yield
        finally:
            process.communicate(b"\n")


def end_with_parent() -> None:
    """End this process, and all that it forks, as soon as its parent has ended, even by a signal that nobody sees.

    Its stdin must be a pipe to which only the parent has the other end, and nobody writes: its end is the sign.
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

    os.register_at_fork(after_in_child=watch)  # threads are not forked
    watch()
