"""The engine for one machine: worker processes, each with the models, one CPU thread, and a whole file at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, TypeAlias

from align.core.types import TextWarning
from align.io.manifest import Record
from align.io.pool import METHOD, begin_worker, held_signals, sendable
from align.io.process import keep_freed_memory, no_current_folder
from align.jobs.files import InputFile, can_be_forked
from align.jobs.job import Job, align_file, finished

ATTEMPTS = 3
"""How often a file is begun whose worker dies."""

LOOK_EVERY = 0.2
"""Seconds between two looks whether the parent is still there."""


class Going(NamedTuple):
    """How far a file is: rows that are done, and what share of it they are."""

    file: InputFile
    rows: int
    share: float


class Done(NamedTuple):
    """A file is done: now, or before, by an earlier job or by a worker that died before it could say so."""

    file: InputFile
    record: Record
    before: bool


class Failed(NamedTuple):
    """A file is not done, and why."""

    file: InputFile
    error: Exception


Event: TypeAlias = Going | Done | Failed


@dataclass(eq=False)
class _Worker:
    """A process, the parent's end of its connection, and the file that it does."""

    process: BaseProcess
    connection: Connection
    file: InputFile | None = None


def run_local(job: Job, files: Sequence[InputFile], workers: int) -> Generator[Event, None, None]:
    """Do files in worker processes, the largest first; one that dies is replaced, and its file begun again.

    Args:
        job: what is to become of each file.
        files: to do.
        workers: processes.

    Yields:
        For each file how far it is, some times, and in the end that it is done, or why not.
    """
    waiting = deque(sorted(files, key=lambda file: (-file.size, file.place)))
    begun: Counter[str] = Counter()
    team: list[_Worker] = []
    try:
        while waiting or any(worker.file for worker in team):
            _feed(job, waiting, team, workers, begun)
            for worker in _ready(team):
                yield from _hear(worker, waiting, team, begun)
    finally:
        for worker in team:
            worker.process.kill()
        for worker in team:
            worker.process.join()
            worker.connection.close()


def _feed(job: Job, waiting: deque[InputFile], team: list[_Worker], workers: int, begun: Counter[str]) -> None:
    """Give a file to each worker that has none, and begin further workers as long as there are files for them."""
    for worker in team:
        if waiting and worker.file is None:
            _give(worker, waiting.popleft(), begun)
    while waiting and len(team) < workers:
        team.append(_start(job, [worker.connection for worker in team]))
        _give(team[-1], waiting.popleft(), begun)


def _give(worker: _Worker, file: InputFile, begun: Counter[str]) -> None:
    worker.file = file
    begun[file.place] += 1
    with suppress(OSError):  # it has died, which is noticed where it is heard
        worker.connection.send(file)


def _ready(team: Sequence[_Worker]) -> list[_Worker]:
    by_connection: dict[Any, _Worker] = {worker.connection: worker for worker in team if worker.file}
    return [by_connection[connection] for connection in wait(list(by_connection))]


def _hear(worker: _Worker, waiting: deque[InputFile], team: list[_Worker], begun: Counter[str]) -> Iterator[Event]:
    """What a worker says; where it has died, its file waits again, or has failed."""
    file = worker.file
    assert file
    try:
        event: Event = worker.connection.recv()
    except (EOFError, OSError):
        worker.process.join()
        worker.connection.close()
        team.remove(worker)
        if begun[file.place] < ATTEMPTS:
            waiting.appendleft(file)
            yield Going(file, 0, 0.0)
        else:
            yield Failed(file, ChildProcessError(f"{ATTEMPTS} workers have died of it ({_how(worker.process)})"))
        return
    if not isinstance(event, Going):
        worker.file = None
    yield event


def _how(process: BaseProcess) -> str:
    """How a process has ended."""
    code = process.exitcode or 0
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _start(job: Job, others: Sequence[Connection]) -> _Worker:
    on_cpu = all(one.recorder.device == "cpu" for one in job.aligner.directions)
    method = METHOD if on_cpu and can_be_forked() else "spawn"  # nor can a GPU's state
    context: Any = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    inherited = [*others, ours] if method == "fork" else []
    process = context.Process(target=_work, args=(job, theirs, inherited, os.getpid()), daemon=True)
    with held_signals(), no_current_folder():
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _work(job: Job, connection: Connection, inherited: Sequence[Connection], parent: int) -> None:
    """Be a worker: do the files that come, until the parent has ended."""
    begin_worker(inherited)
    keep_freed_memory()  # which is not inherited where the process was spawned
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    warnings.simplefilter("ignore", TextWarning)  # of the text as a whole: that has been said
    while True:
        try:
            file: InputFile = connection.recv()
            connection.send(_do(job, file, connection))
        except (EOFError, OSError):  # there is no parent any more
            os._exit(1)


def _do(job: Job, file: InputFile, connection: Connection) -> Event:
    try:
        if record := finished(job, file):
            return Done(file, record, True)
        return Done(file, align_file(job, file, lambda rows, share: connection.send(Going(file, rows, share))), False)
    except Exception as error:
        return Failed(file, sendable(error))


def _end_with(parent: int) -> None:
    """End this process as soon as it has another parent."""
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY)
    os._exit(1)


def share_of(files: Sequence[InputFile], number: int, count: int) -> list[InputFile]:
    """One part of a job's files, of about as many bytes as any other: dealt out in turn, the largest first.

    Args:
        files: of the job.
        number: of the part, from 1.
        count: of parts.
    """
    return sorted(files, key=lambda file: (-file.size, file.place))[number - 1 :: count]
