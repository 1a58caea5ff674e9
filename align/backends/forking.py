"""A fork waits for the calls of models that are under way: locks that torch holds would stay locked in the child."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_changed = threading.Condition()
_running = 0


@contextmanager
def under_way() -> Iterator[None]:
    """Let no fork happen until the context ends; any number of threads may be in it at once."""
    global _running
    with _changed:
        _running += 1
    try:
        yield
    finally:
        with _changed:
            _running -= 1
            _changed.notify_all()


def _before_fork() -> None:
    _changed.acquire()
    _changed.wait_for(lambda: not _running)


def _after_fork_in_child() -> None:
    """Go on without OpenMP's threads, which stay in the parent: torch would wait for them for ever."""
    torch.set_num_threads(1)
    _changed.release()


os.register_at_fork(before=_before_fork, after_in_parent=_changed.release, after_in_child=_after_fork_in_child)
