"""Run a job on a Ray cluster: Ray Data hands files to actors, each with the models and one CPU or GPU, one at a time.

A file's output does not depend on the actor or on earlier attempts, so that Ray may repeat lost work.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import time
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from errno import EBUSY
from typing import Any, TextIO

import torch

from align.core.errors import one_line
from align.core.types import TextWarning
from align.io.manifest import Record
from align.io.pool import SIGNALS, sendable
from align.io.process import keep_freed_memory
from align.jobs.files import InputFile
from align.jobs.job import Job, align_file, finished
from align.jobs.local import ATTEMPTS, Done, Event, Failed
from align.jobs.locks import PATIENCE

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # these two are read when Ray is imported
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")

with warnings.catch_warnings():  # Ray shows its own deprecations in spite of the program's filters
    import pyarrow as pa
    import ray
    from ray.data import ActorPoolStrategy, DataContext


def run_ray(job: Job, files: Sequence[InputFile], workers: int | None) -> Generator[Event, None, None]:
    """Align files in actors of a Ray cluster, the largest first; work lost with an actor or a node is repeated.

    The cluster is the one that this process is connected to, else the one of `RAY_ADDRESS`, else one that was started
    on this machine with `ray start`, else a new one on this machine, which ends with the job.

    Args:
        job: what to do with each file; its model is in the same folder on all machines.
        files: files to align.
        workers: number of actors; None for one per CPU of the cluster, or one per GPU if the model is on one.

    Yields:
        For each file that it is done, or why not.

    Raises:
        ChildProcessError: there is no such cluster, or it has ended.
    """
    on_cpu = all(direction.recorder.device == "cpu" for direction in job.aligner.directions)
    waiting = {file.place: file for file in sorted(files, key=lambda file: (-file.size, file.place))}
    if not waiting:
        return
    with _cluster():
        try:
            available = int(ray.cluster_resources().get("CPU" if on_cpu else "GPU", 1))
            size = max(1, min(workers or available, len(files)))
            for place, outcome in _outcomes(job, list(waiting), size, on_cpu):
                file = waiting.pop(place)
                yield Failed(file, outcome) if isinstance(outcome, Exception) else Done(file, *outcome)
        except Exception as error:  # most are a RayError, but not all
            raise ChildProcessError(f"Ray has stopped: {one_line(error) or type(error).__name__}") from None
        for file in waiting.values():
            yield Failed(file, ChildProcessError(f"{ATTEMPTS} workers have died of it"))


def _outcomes(job: Job, places: Sequence[str], size: int, on_cpu: bool) -> Iterator[tuple[str, Any]]:
    """Yield the result of each file as it finishes; files that no actor survives are left out."""
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.max_errored_blocks = -1  # a file without an outcome is named at the end
    files = ray.data.from_items([{"place": place} for place in places], override_num_blocks=len(places))
    outcomes = files.map_batches(
        FileAligner,
        batch_size=1,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=1),
        fn_constructor_args=(job, os.getcwd()),
        num_cpus=1 if on_cpu else None,
        num_gpus=None if on_cpu else 1,
        max_restarts=-1,
        max_task_retries=ATTEMPTS - 1,
    )
    for row in outcomes.iter_rows():
        yield row["place"], pickle.loads(row["outcome"])


class FileAligner:
    """An actor that aligns files.

    Args:
        job: what to do with each file.
        folder: current folder for relative file names, if this machine has it.
    """

    def __init__(self, job: Job, folder: str) -> None:
        with suppress(OSError):
            os.chdir(folder)
        keep_freed_memory()
        torch.set_num_threads(1)
        warnings.simplefilter("ignore", TextWarning)  # the parent has shown the warnings of the text as a whole
        self._job = job

    def __call__(self, batch: Any) -> Any:
        """Return a row per file: its place, and pickled its record and whether it was finished before, or an error."""
        places = batch["place"].to_pylist()
        return pa.table({"place": places, "outcome": [pickle.dumps(self._do(place)) for place in places]})

    def _do(self, place: str) -> tuple[Record, bool] | Exception:
        file, end = InputFile(place, 0, 0), time.monotonic() + PATIENCE
        while True:
            try:
                if record := finished(self._job, file):
                    return record, True
                return align_file(self._job, file), False
            except OSError as error:
                if error.errno != EBUSY or time.monotonic() > end:
                    return sendable(error)
                time.sleep(0.2)  # an actor of a killed job holds the lock, and will notice in a moment
            except Exception as error:
                return sendable(error)


@contextmanager
def _cluster() -> Iterator[None]:
    """Connect to a cluster, or start one on this machine; Ray's messages stay in its log files."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # Ray prints the deaths of workers there
        if ray.is_initialized():
            yield
            return
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        try:
            with _beginning(nowhere):
                ray.init(include_dashboard=False, logging_level=logging.CRITICAL, log_to_driver=False)
        except Exception as error:  # Ray has no separate class for a node that does not start within half a minute
            raise ChildProcessError(f"there is no Ray cluster to work on: {one_line(error)}") from None
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)  # in place of Ray's own
            yield
        finally:
            with suppress(Exception):  # the cluster may have ended
                ray.shutdown()


@contextmanager
def _beginning(nowhere: TextIO) -> Iterator[None]:
    """Silence stderr and change the current folder while Ray starts.

    Ray's own code writes to stderr that it will write nothing there, and has its workers search for modules in the
    current folder before all others, where anything may lie.
    """
    folder, stderr = os.getcwd(), os.dup(2)
    os.chdir(os.path.dirname(os.__file__))
    os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.chdir(folder)
