"""fairseq's programs as child processes that write logs, which are followed here, and that end with this process."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from align.core.errors import shorten
from align.io.process import END_WITH_PARENT, module

FULL = 1 << 20
"""Free bytes below which a disk counts as full."""

PAUSE = 0.2
"""Seconds between two reads of a log."""


class TrainingError(ValueError):
    """A fairseq program failed; the message has the last line of its log."""


@contextmanager
def lines_of(program: str, arguments: Sequence[object], threads: int, log: Path) -> Iterator[Iterator[str]]:
    """Run one of fairseq's programs and read the lines that it adds to its log; it ends with the context.

    Args:
        log: file that its stdout and stderr are appended to.
    """
    environment = {"OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1", "PYTHONSAFEPATH": "1"}
    with log.open("ab") as out:
        start = _end_line(log)
        process = subprocess.Popen(
            module("align.fairseq_cli", program, *arguments, before=END_WITH_PARENT),
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        )
    last = ""

    def lines() -> Iterator[str]:
        nonlocal last
        for line in _follow(process, log, start):
            last = line.strip() or last
            yield line

    try:
        yield lines()
        if code := process.wait():
            if shutil.disk_usage(log.parent).free < FULL:
                raise TrainingError(f"{log.parent}: the disk is full; make room, and the same command goes on")
            last = shorten(last, 200)  # fairseq may list all of its architectures
            raise TrainingError(f"fairseq stopped (exit code {code}) with `{last}`; its whole output is in {log}")
    finally:
        process.terminate()
        process.wait()
        if process.stdin:
            process.stdin.close()


def _end_line(log: Path) -> int:
    """Complete the last line of a log, in case its writer was killed; return the log's size."""
    with log.open("rb+") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - 1, 0))
        if stream.read(1) not in (b"", b"\n"):
            size += stream.write(b"\n")
        return size


def _follow(process: subprocess.Popen[bytes], log: Path, start: int) -> Iterator[str]:
    """Yield whole lines that a process adds to a log, until it ends."""
    with log.open("rb") as stream:
        stream.seek(start)
        line, ended = b"", False
        while not ended:
            ended = process.poll() is not None  # checked before the last read
            while part := stream.readline():
                line += part
                if line.endswith(b"\n"):
                    yield line.decode("utf-8", "replace")
                    line = b""
            if not ended:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(PAUSE)
        if line:
            yield line.decode("utf-8", "replace")
