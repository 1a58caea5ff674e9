"""fairseq's programs as child processes that end with this one; what they print is read here, and kept in a log."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from align.core.errors import shorten
from align.io.process import END_WITH_PARENT, module

FULL = 1 << 20  # free bytes below which a disk counts as full


class TrainingError(ValueError):
    """A fairseq program failed; the message has the last line of its log."""


@contextmanager
def lines_of(program: str, arguments: Sequence[object], threads: int, log: Path) -> Iterator[Iterator[str]]:
    """Run one of fairseq's programs and read its lines, which are appended to a log; it ends with the context."""
    environment = {"OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1", "PYTHONSAFEPATH": "1"}
    command = module("align.fairseq_cli", program, *arguments, before=END_WITH_PARENT)
    last = ""
    with (
        log.open("ab", buffering=0) as out,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        ) as process,
    ):
        if out.tell():
            out.write(b"\n")  # the last line may lack its end, if its writer was killed

        def lines() -> Iterator[str]:
            nonlocal last
            for raw in process.stdout or ():
                out.write(raw)
                line = raw.decode("utf-8", "replace")
                last = line.strip() or last
                yield line

        read = lines()
        try:
            yield read
            for _ in read:
                pass
            code = process.wait()
        finally:
            process.terminate()
    if code:
        if shutil.disk_usage(log.parent).free < FULL:
            raise TrainingError(f"{log.parent}: the disk is full; make room, and the same command goes on")
        last = shorten(last, 200)  # fairseq may list all of its architectures
        raise TrainingError(f"fairseq stopped (exit code {code}) with `{last}`; its whole output is in {log}")
