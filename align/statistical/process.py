"""Running other programs on numbered text: what the statistical aligners have in common."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

Files = tuple[Path, Path]
"""Source and target text, or links of the forward and of the reverse direction: a line for a pair."""


class Job(NamedTuple):
    """What a tool has to do: train on a text, then align `test` with what it learned, or else the text itself.

    The links of the first `skip` lines of the text are not needed.
    """

    folder: Path
    text: Files
    test: Files | None
    skip: int
    threads: int


def run_program(tool: str, command: Sequence[str | Path], job: Job, output: Path | None = None) -> str:
    """Run a program in the job's folder, with its stdout written to a file or thrown away.

    Args:
        tool: what to call it in errors.
        command: the program and its arguments.
        job: gives the folder and the number of threads.
        output: gets its stdout; None for none.

    Returns:
        What it wrote to stderr.

    Raises:
        ValueError: the program failed; says how, with the last lines of its stderr.
    """
    log = job.folder / "stderr"
    environment = os.environ | {"OMP_NUM_THREADS": str(job.threads), "TMPDIR": str(job.folder)}
    with open(log, "wb") as errors, open(output or os.devnull, "wb") as stream:
        code = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=errors, cwd=job.folder, env=environment
        ).returncode
    messages = log.read_text(encoding="utf-8", errors="replace")
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}: memory may have run out"
        raise ValueError(f"{tool} failed ({how}):\n" + "\n".join(messages.strip().splitlines()[-5:]))
    return messages


def find_program(name: str) -> str | None:
    """The absolute path of a program, which will run in another folder; None if it is not on PATH."""
    path = shutil.which(name)
    return path and os.path.abspath(path)
