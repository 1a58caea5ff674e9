"""Run external programs on numbered text, as all statistical aligners need it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TextIO

Files = tuple[Path, Path]
"""Source and target text, or links of the forward and of the reverse direction: one line per pair."""


class Job(NamedTuple):
    """The task of a tool: train on a text, then align `test` with the trained model, or else the text itself."""

    folder: Path
    text: Files
    test: Files | None
    threads: int


Command = Sequence[str | Path]


def run_program(tool: str, command: Command, job: Job, output: Path | None = None) -> str:
    """Run a program in the job's folder, with its stdout written to a file or discarded; return its stderr."""
    return run_side_by_side(tool, [command], job, [output])[0]


def run_side_by_side(
    tool: str, commands: Sequence[Command], job: Job, outputs: Sequence[Path | None] | None = None
) -> list[str]:
    """Run programs as `run_program` does, all at once if the job has a thread for each, or else one after another."""
    together = len(commands) if job.threads >= len(commands) else 1
    environment = os.environ | {"OMP_NUM_THREADS": str(job.threads // together), "TMPDIR": str(job.folder)}
    runs = list(zip(commands, outputs or [None] * len(commands), strict=True))
    messages = []
    for first in range(0, len(runs), together):
        with ExitStack() as stack:
            programs = []
            for command, output in runs[first : first + together]:
                errors = stack.enter_context(tempfile.TemporaryFile(dir=job.folder))
                stream = stack.enter_context(open(output or os.devnull, "wb"))
                program = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=stream, stderr=errors, cwd=job.folder, env=environment
                )
                stack.callback(program.wait)
                stack.callback(program.kill)  # before it is waited for
                programs.append((program, errors))
            for program, errors in programs:
                code = program.wait()
                errors.seek(0)
                messages.append(errors.read().decode(errors="replace").strip())
                if code:
                    how = f"exit code {code}" if code > 0 else f"signal {-code}: memory may have run out"
                    raise ValueError(f"{tool} failed ({how}):\n" + "\n".join(messages[-1].splitlines()[-5:]))
    return messages


def open_text(path: str | Path, mode: str = "r") -> TextIO:
    """Open a text as programs read and write it on every system: UTF-8, lines that end with LF."""
    return open(path, mode, encoding="utf-8", newline="\n")  # type: ignore[return-value]


def find_program(name: str) -> str | None:
    """Return the path of a program, None if it is not on PATH; what is not absolute there names the current folder."""
    folders = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    path = shutil.which(name, path=os.pathsep.join(folders))
    return path if path and os.path.isabs(path) else None  # on Windows it looks into the current folder, too
