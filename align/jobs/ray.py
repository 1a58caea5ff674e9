"""Run a job on a Ray cluster, which schedules its files: a task aligns one file, as a worker process does here.

A file's output does not depend on the task or on earlier attempts, so that Ray may repeat lost work.
"""

from __future__ import annotations

import logging
import os
import signal
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

import torch

from align.core.errors import one_line
from align.io.pool import sendable
from align.io.process import SIGNALS, another_folder
from align.jobs.files import InputFile
from align.jobs.job import Job
from align.jobs.local import ATTEMPTS, Outcome, align_in_worker, largest_first

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # these two are read when Ray is imported
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")

with warnings.catch_warnings():  # Ray shows its own deprecations in spite of the program's filters
    import ray


def run_ray(
    job: Job, files: Sequence[InputFile], workers: int | None
) -> Generator[tuple[InputFile, Outcome], None, None]:
    """Align files on a Ray cluster, the largest first; work lost with a worker or a node is repeated.

    The cluster is the one that this process is connected to, else the one of `RAY_ADDRESS`, else one that was started
    on this machine with `ray start`, else a new one on this machine, which ends with the job.

    Args:
        job: what to do with each file; its model is in the same folder on all machines.
        files: files to align.
        workers: files that are done at a time; None for one per CPU of the cluster, or one per GPU if the model is on
            one.
    """
    left = largest_first(files)[::-1]
    with _cluster():
        try:
            task: Any = ray.remote(_align).options(
                num_cpus=1 if job.on_cpu else 0, num_gpus=0 if job.on_cpu else 1, max_retries=ATTEMPTS - 1
            )
            size = workers or int(ray.cluster_resources().get("CPU" if job.on_cpu else "GPU", 1))
            shared, folder = ray.put(job), os.getcwd()
            running: dict[Any, InputFile] = {}
            while left or running:
                while left and len(running) < size:
                    file = left.pop()
                    running[task.remote(shared, file, folder)] = file
                done, _ = ray.wait(list(running))
                file = running.pop(done[0])
                try:
                    outcome = ray.get(done[0])
                except ray.exceptions.WorkerCrashedError:
                    outcome = ChildProcessError(f"{ATTEMPTS} workers crashed on this file")
                yield file, outcome
        except Exception as error:  # most are a RayError, but not all
            raise ChildProcessError(f"Ray has stopped: {one_line(error) or type(error).__name__}") from None


def _align(job: Job, file: InputFile, folder: str) -> Any:
    """Align a file in a worker of Ray; return what `align_file` does, or its error."""
    with suppress(OSError):  # relative names, if this machine has the folder
        os.chdir(folder)
    torch.set_num_threads(1)
    try:
        return align_in_worker(job, file)
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
        # Ray's own code writes to stderr that it will write nothing there, and has its workers search for modules in
        # the current folder before all others, where anything may lie.
        stderr = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            with another_folder():
                ray.init(include_dashboard=False, logging_level=logging.CRITICAL, log_to_driver=False)
        except Exception as error:  # Ray has no separate class for a node that does not start within half a minute
            raise ChildProcessError(f"there is no Ray cluster to work on: {one_line(error)}") from None
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)  # in place of Ray's own
            yield
        finally:
            with suppress(Exception):  # the cluster may have ended
                ray.shutdown()
