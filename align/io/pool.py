"""Worker processes: each has the models, one CPU thread, and a slice of the text at a time."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count as numbers
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any

import torch

from align.core.batching import OnBatch
from align.core.stream import Job, OpenPool, Pool, Task
from align.io.process import no_current_folder

METHOD = "fork" if sys.platform == "linux" else "spawn"
"""How a process is started: forked it shares the models' memory, spawned it loads them again."""

AT_ONCE = 2
"""Slices that a worker has at a time, so that it never waits for the next one."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(eq=False)
class _Worker:
    """A process, the parent's end of its connection, and the jobs that it has, in order."""

    process: BaseProcess
    connection: Connection
    jobs: deque[Job] = field(default_factory=deque)


class Workers(Pool):
    """Does tasks in this process or, once they are shared, in several others, which end with the context.

    Args:
        count: processes; 1 is this one.
        tasks: by name; those named first are done first.
        on_batch: is told of each batch.

    Attributes:
        shared: whether there are, or will be, others.
    """

    def __init__(self, count: int, tasks: Mapping[str, Task], on_batch: OnBatch | None) -> None:
        # a process of multiprocessing's that may have no children does it all itself
        self._count = 1 if multiprocessing.current_process().daemon else count
        super().__init__(tasks, on_batch)
        self._priorities = {name: n for n, name in enumerate(tasks)}
        self._numbers = numbers()
        self._backlog: list[tuple[int, int, Job]] = []
        self._workers: list[_Worker] = []
        self.shared = False

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()

    def share(self) -> None:
        """From here on leave all to other processes, if there are to be any."""
        self.shared = self._count > 1

    @property
    def busy(self) -> bool:
        """Whether there is enough to do; one process is always busy."""
        unfinished = len(self._backlog) + sum(len(worker.jobs) for worker in self._workers)
        return not self.shared or unfinished >= AT_ONCE * self._count

    @property
    def max_buffers(self) -> int:
        """Buffers that may be under way at a time."""
        return AT_ONCE * self._count

    def submit(self, task: str, *arguments: Any) -> Job:
        """Take a job; it will be done when it is finished at the latest."""
        job = Job(task, arguments)
        if self.shared:
            heappush(self._backlog, (self._priorities[task], next(self._numbers), job))
            self._feed()
        return job

    def finish(self, job: Job) -> list[Any]:
        """What comes out of a job, once it is done.

        Raises:
            Exception: whatever its task has raised.
            ChildProcessError: a worker has ended.
        """
        if not self.shared:
            return self._tasks[job.task](*job.arguments, self._on_batch)
        while not job.done:
            self.hear()
        if job.error:
            raise job.error
        return job.outcomes

    def hear(self, timeout: float | None = None) -> None:
        """Wait until a worker says something, but at most so many seconds."""
        at_work = {worker.connection: worker for worker in self._workers if worker.jobs}
        for connection in wait(list(at_work), timeout):
            worker = at_work[connection]  # type: ignore[index]
            try:
                what, value = worker.connection.recv()
            except (EOFError, OSError):
                raise _ended(worker.process) from None
            if what == "batch":
                if self._on_batch:
                    self._on_batch(value)
                continue
            job = worker.jobs.popleft()
            job.done = True
            if what == "failed":
                job.error = value
            else:
                job.outcomes = value
        self._feed()

    def _feed(self) -> None:
        """Give all workers something to do, as long as there is something."""
        while self._backlog:
            worker = min(self._workers, key=lambda one: len(one.jobs), default=None)
            if worker is None or (worker.jobs and len(self._workers) < self._count):
                worker = self._start()
            if len(worker.jobs) >= AT_ONCE:
                return
            *_, job = heappop(self._backlog)
            try:
                worker.connection.send((job.task, job.arguments))
            except OSError:
                raise _ended(worker.process) from None
            job.arguments = ()
            worker.jobs.append(job)

    def _start(self) -> _Worker:
        context: Any = multiprocessing.get_context(METHOD)  # of which typing knows too little
        ours, theirs = context.Pipe()
        inherited = [*(worker.connection for worker in self._workers), ours] if METHOD == "fork" else []
        process = context.Process(target=_work, args=(self._tasks, theirs, inherited), daemon=True)
        with held_signals(), no_current_folder():
            process.start()
        theirs.close()
        self._workers.append(_Worker(process, ours))
        return self._workers[-1]


def processes(count: int) -> OpenPool:
    """Return what opens a pool of this number of worker processes; 1 is this process."""
    return partial(Workers, count)


def _ended(process: BaseProcess) -> ChildProcessError:
    """What to say of a worker that has ended by itself."""
    process.join()
    code = process.exitcode or 0
    how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
    return ChildProcessError(f"a worker process {how}; if memory is short, fewer workers need less")


@contextmanager
def held_signals() -> Iterator[None]:
    """Keep signals waiting until the context ends: a process that is being forked is not ready for them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_worker(inherited: Sequence[Connection]) -> None:
    """Make this process one that works for its parent, with one CPU thread.

    Ctrl-C reaches all processes of a terminal; what becomes of it is the parent's to decide.

    Args:
        inherited: connections of the parent's, which end with it only if nobody else has them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    for other in inherited:
        other.close()
    torch.set_num_threads(1)
    gc.freeze()  # looking through what the parent has made would copy that memory


def _work(tasks: Mapping[str, Task], connection: Connection, inherited: Sequence[Connection]) -> None:
    """Be a worker: do what comes, until the parent has ended."""
    begin_worker(inherited)
    jobs: SimpleQueue[tuple[str, tuple[Any, ...]]] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, jobs), daemon=True).start()
    while True:
        task, arguments = jobs.get()
        answer: tuple[str, Any]
        try:
            answer = "done", tasks[task](*arguments, lambda pairs: _send(connection, ("batch", pairs)))
        except Exception as error:
            answer = "failed", sendable(error)
        _send(connection, answer)


def sendable(error: Exception) -> Exception:
    """The error, or where it cannot be pickled and read again one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _send(connection: Connection, message: tuple[str, Any]) -> None:
    """Tell the parent, if it is still there."""
    try:
        connection.send(message)
    except OSError:
        os._exit(1)


def _receive(connection: Connection, jobs: SimpleQueue[Any]) -> None:
    """Take jobs as they come, so that the parent never waits; end the process when there is no parent any more."""
    while True:
        try:
            jobs.put(connection.recv())
        except (EOFError, OSError):
            os._exit(1)
