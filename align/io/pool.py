"""Run tasks in worker processes, each with the models and one CPU thread."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count as numbers
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any

import torch

from align.core.stream import Job, OpenPool, Pool, Task
from align.io.process import SIGNALS, no_current_folder

METHOD = "fork" if sys.platform == "linux" else "spawn"
"""Start method of processes: a forked one shares the memory of the models, a spawned one loads them again."""


@dataclass(eq=False)
class QueuedJob(Job):
    """A job of the pool."""

    number: int = 0
    attempts: int = 0  # number of workers that have begun it


@dataclass(eq=False)
class _Worker:
    """A process, the parent's end of its connection, and its jobs in order."""

    process: BaseProcess
    connection: Connection
    jobs: deque[QueuedJob] = field(default_factory=deque)


class Workers(Pool):
    """Runs tasks in this process or, after `share`, in worker processes, which end with the context.

    Args:
        tasks: by name, in order of priority.
        at_once: jobs that a worker holds at a time; with two it never waits for the next one.
        attempts: number of workers that may start a job: if one dies, the next one repeats its jobs.
        method: how processes are started; None for `METHOD`.
    """

    def __init__(
        self,
        count: int,
        tasks: Mapping[str, Task],
        on_batch: Callable[[Any], None] | None,
        *,
        at_once: int = 2,
        attempts: int = 1,
        method: str | None = None,
    ) -> None:
        super().__init__(tasks, on_batch)
        self._at_once, self._attempts, self._method = at_once, attempts, method
        self._count = min(count, 60) if sys.platform == "win32" else count  # Windows waits for 63 connections at most
        self._priorities = {name: n for n, name in enumerate(tasks)}
        self._numbers = numbers()
        self._backlog: list[tuple[int, int, QueuedJob]] = []
        self._workers: list[_Worker] = []
        self.shared = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()

    def share(self, least: int = 2) -> None:
        """Run all further jobs in `least` worker processes or more; a daemon, which may have none, runs them itself."""
        self.shared = self._count >= least and not multiprocessing.current_process().daemon

    @property
    def busy(self) -> bool:
        """Tell whether all workers have enough jobs; this process alone is always busy."""
        unfinished = len(self._backlog) + sum(len(worker.jobs) for worker in self._workers)
        return not self.shared or unfinished >= self.max_buffers

    @property
    def max_buffers(self) -> int:
        """The maximum number of jobs that workers have."""
        return self._at_once * self._count

    def submit(self, task: str, *arguments: Any) -> QueuedJob:
        """Queue a job; without worker processes `finish` runs it."""
        job = QueuedJob(task, arguments, number=next(self._numbers))
        if self.shared:
            self._queue(job)
            self._feed()
        return job

    def finish(self, job: Job) -> list[Any]:
        """Wait for a job and return its outcomes."""
        if not self.shared:
            return self._tasks[job.task](*job.arguments, self._on_batch)
        while not job.done:
            self.hear()
        if job.error:
            raise job.error
        return job.outcomes

    def hear(self, timeout: float | None = None) -> list[QueuedJob]:
        """Wait until a worker reports something or the timeout in seconds expires, and return the finished jobs."""
        at_work = {worker.connection: worker for worker in self._workers if worker.jobs}
        finished: list[QueuedJob] = []
        for connection in wait(list(at_work), timeout):
            worker = at_work[connection]  # type: ignore[index]
            try:
                status, value = worker.connection.recv()
            except (EOFError, OSError):
                finished += self._replace(worker)
                continue
            if status == "batch":
                if self._on_batch:
                    self._on_batch(value)
                continue
            job = worker.jobs.popleft()
            job.outcomes, job.error = ([], value) if status == "failed" else (value, None)
            job.done = True
            finished.append(job)
        self._feed()
        return finished

    def _replace(self, worker: _Worker) -> list[QueuedJob]:
        """Remove a worker that has died, queue its jobs again, and return those that have no attempt left."""
        worker.process.join()
        worker.connection.close()
        self._workers.remove(worker)
        code = worker.process.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if self._attempts == 1:
            raise ChildProcessError(f"a worker process was killed ({how}); if memory is short, fewer workers need less")
        failed = []
        for job in worker.jobs:
            if job.attempts < self._attempts:
                self._queue(job)
            else:
                job.error, job.done = ChildProcessError(f"{self._attempts} workers crashed on this file ({how})"), True
                failed.append(job)
        return failed

    def _queue(self, job: QueuedJob) -> None:
        heappush(self._backlog, (self._priorities[job.task], job.number, job))

    def _feed(self) -> None:
        while self._backlog:
            worker = min(self._workers, key=lambda worker: len(worker.jobs), default=None)
            if worker is None or (worker.jobs and len(self._workers) < self._count):
                method = self._method or METHOD
                context: Any = multiprocessing.get_context(method)  # its type lacks Process
                ours, theirs = context.Pipe()
                inherited = [*(worker.connection for worker in self._workers), ours] if method == "fork" else []
                process = context.Process(target=_work, args=(self._tasks, theirs, inherited), daemon=True)
                with held_signals(), no_current_folder():
                    process.start()
                theirs.close()
                worker = _Worker(process, ours)
                self._workers.append(worker)
            if len(worker.jobs) >= self._at_once:
                return
            *_, job = heappop(self._backlog)
            job.attempts += 1
            worker.jobs.append(job)
            with suppress(OSError):  # the worker has died, which `hear` notices
                worker.connection.send((job.task, job.arguments))
            if job.attempts == self._attempts:
                job.arguments = ()


def processes(count: int) -> OpenPool:
    """Return a function that opens a pool of this number of worker processes; 1 is this process."""
    return partial(Workers, count) if count > 1 else Pool


@contextmanager
def held_signals() -> Iterator[None]:
    """Block signals until the context ends: a process that is being forked is not ready for them."""
    before = mask_signals("SIG_BLOCK", SIGNALS)
    try:
        yield
    finally:
        mask_signals("SIG_SETMASK", before)


def mask_signals(how: str, numbers: Iterable[int]) -> Iterable[int]:
    """Change the signals that are blocked, and return the former ones; Windows blocks none."""
    return signal.pthread_sigmask(getattr(signal, how), numbers) if hasattr(signal, "pthread_sigmask") else ()


def _work(tasks: Mapping[str, Task], connection: Connection, inherited: Sequence[Connection]) -> None:
    """Make this process a worker with one CPU thread, and run jobs until the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which the parent handles
    for number in SIGNALS[1:]:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    mask_signals("SIG_UNBLOCK", SIGNALS)
    for other in inherited:
        other.close()
    torch.set_num_threads(1)
    gc.freeze()  # collecting the parent's objects would copy their memory
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
    """Return the error or, if it cannot be pickled and read again, one with its message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _send(connection: Connection, message: tuple[str, Any]) -> None:
    """Send a message to the parent; end the process if the parent has ended."""
    try:
        connection.send(message)
    except OSError:
        os._exit(1)


def _receive(connection: Connection, jobs: SimpleQueue[Any]) -> None:
    """Receive jobs without delay, so that the parent never waits; end the process when the parent has ended."""
    while True:
        try:
            jobs.put(connection.recv())
        except (EOFError, OSError):
            os._exit(1)
