"""Forks and calls of models wait for each other, and none for ever."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import pytest

from align.models.engine import forking
from align.models.engine.forking import under_way

SOON = 30
"""Seconds after which what should have happened will not."""


def begin(target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is forked there")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_forks_come_before_calls_that_begin_later() -> None:
    inside, leave = threading.Event(), threading.Event()
    called: list[str] = []
    codes: list[int] = []

    def hold() -> None:
        with under_way():
            inside.set()
            leave.wait(SOON)
            with under_way():  # again, while forks wait
                pass

    def fork() -> None:
        child = os.fork()
        if not child:
            signal.alarm(SOON)  # ends it if it waits for the other fork, which is not there
            with under_way():
                os._exit(len(called))
        codes.append(os.waitpid(child, 0)[1])

    def call() -> None:
        with under_way():
            called.append("late")

    threads = [begin(hold)]
    assert inside.wait(SOON)
    threads += [begin(fork), begin(fork)]
    until = time.monotonic() + SOON
    while forking._forks < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    threads.append(begin(call))
    time.sleep(0.2)  # enough for it to enter, if it could
    leave.set()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    assert codes == [0, 0]
    assert called == ["late"]
