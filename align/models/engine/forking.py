"""A fork waits for the calls of models that are under way: locks that torch holds would stay locked in the child."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class _Own(threading.local):
    """How many times a thread is in `under_way`."""

    depth = 0


_changed = threading.Condition()
_running = 0
_forks = 0
_own = _Own()


@contextmanager
def under_way() -> Iterator[None]:
    """Let no fork happen until the context ends; any number of threads may be in it at once, and enter it again.

    Who is not in it yet lets forks that are waiting go first: calls that overlap would hold them off for ever.
    """
    global _running
    with _changed:
        if not _own.depth:
            _changed.wait_for(lambda: not _forks)
        _own.depth += 1
        _running += 1
    try:
        yield
    finally:
        with _changed:
            _own.depth -= 1
            _running -= 1
            _changed.notify_all()


def _before_fork() -> None:
    global _forks
    _changed.acquire()
    _forks += 1
    try:
        _changed.wait_for(lambda: not _running)
    finally:
        _forks -= 1
        _changed.notify_all()


def _after_fork_in_child() -> None:
    """Go on without OpenMP's threads, which stay in the parent: torch would wait for them for ever.

    Other threads stay there too, and so do the forks that they are waiting for.
    """
    global _forks
    _forks = 0
    torch.set_num_threads(1)
    _changed.release()


os.register_at_fork(before=_before_fork, after_in_parent=_changed.release, after_in_child=_after_fork_in_child)
