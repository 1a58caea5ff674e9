"""Programs of this repository as whole processes, timed, in this tree or in another commit's; and what runs them."""

from __future__ import annotations

import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch

from align.io.reader import open_lines

ROOT = Path(__file__).parent.parent

EXTRACT = "align"

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
"""What of a processor decides how fast products are, in the words of /proc/cpuinfo."""


class Timed(NamedTuple):
    """A process: seconds until its first line came out, until it had ended, and of processor time."""

    first: float
    seconds: float
    cpu: float


def run_python(arguments: Sequence[object], tree: Path = ROOT, environment: Mapping[str, str] | None = None) -> Timed:
    """Run Python on the modules of a tree, with threads as the program itself decides.

    Args:
        arguments: of Python; paths in them are absolute.
        tree: a checkout of this repository, where it runs.
        environment: variables to add.

    Raises:
        ChildProcessError: it failed; says how.
    """
    command = [sys.executable, *map(str, arguments)]
    before, start = _cpu_seconds(), time.perf_counter()
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command,
            cwd=tree,
            env=_environment(tree) | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        assert process.stdout
        process.stdout.readline()
        first = time.perf_counter() - start
        process.stdout.read()
        code = process.wait()
        seconds = time.perf_counter() - start
        errors.seek(0)
        last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
    if code:
        raise ChildProcessError(f"{' '.join(command[1:4])} in {tree.name}: exit code {code}: {last}")
    return Timed(first, seconds, _cpu_seconds() - before)


def run_program(
    name: str, *arguments: object, tree: Path = ROOT, environment: Mapping[str, str] | None = None
) -> Timed:
    """Run a module of a tree as a program; see `run_python`."""
    return run_python(["-m", name, *arguments], tree, environment)


def _environment(tree: Path) -> dict[str, str]:
    """Ours, with the tree's modules first, and nothing that says how OpenMP is to work."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_", "MKL_"))}
    path = filter(None, (str(tree), os.environ.get("PYTHONPATH")))
    return {**kept, "PYTHONPATH": os.pathsep.join(path)}


def _cpu_seconds() -> float:
    """Processor time of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def git(*arguments: object, tree: Path = ROOT) -> str:
    """Return what git prints.

    Raises:
        ValueError: it failed; says how.
    """
    done = subprocess.run(["git", *map(str, arguments)], cwd=tree, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"git {arguments[0]}: {done.stderr.strip().rpartition(chr(10))[2]}")
    return done.stdout.strip()


def revision(tree: Path = ROOT) -> str:
    """Return the commit of a tree, and whether it has changes that are not committed; results are none."""
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!eval/results", tree=tree)
    return git("rev-parse", "--short", "HEAD", tree=tree) + ("+changes" if changed else "")


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Another commit's tree, until the context ends.

    Raises:
        ValueError: there is no such commit, or Python would not take its modules.
    """
    with tempfile.TemporaryDirectory(prefix="align-") as folder:
        tree = Path(folder, "tree")
        git("worktree", "add", "--quiet", "--detach", tree, commit)
        try:
            script = "import align, sys; sys.exit(align.__file__.startswith(sys.argv[1]) - 1)"
            if subprocess.run([sys.executable, "-c", script, tree], cwd=tree, env=_environment(tree)).returncode:
                raise ValueError(f"Python does not take the package of {commit} from {tree}")
            yield tree
        finally:
            git("worktree", "remove", "--force", tree)


def first_lines(source: str, target: str, lines: int, folder: Path) -> tuple[Path, Path]:
    """Write the first lines of both sides to files of a folder."""
    parts = folder / f"source.{lines}", folder / f"target.{lines}"
    for name, path in zip((source, target), parts, strict=True):
        with open_lines(name) as text, path.open("wb") as part:
            part.writelines(islice(text, lines))
    return parts


def read_output(path: Path, lines: int) -> list[str]:
    """Read the lines that a program has written.

    Raises:
        ValueError: not as many as there should be.
    """
    found = path.read_text(encoding="utf-8").split("\n")[:-1]
    if len(found) != lines:
        raise ValueError(f"{path.name} has {len(found):,} lines for {lines:,} pairs")
    return found


def absolute(model: str) -> str:
    """Return a model's path, for programs that run elsewhere; the name of a bundled one stays."""
    return str(Path(model).resolve()) if "/" in model else model


def machine(threads: int) -> str:
    """Return what figures of speed depend on: Python, torch, threads, GPU, and the processor's kinds of arithmetic."""
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, {threads} threads"
    if torch.cuda.is_available():
        versions += f", {torch.cuda.get_device_name()}"
    about = Path("/proc/cpuinfo")
    text = about.read_text(encoding="utf-8") if about.exists() else ""
    vendor, flags = (re.search(rf"^{key}\s*: (.*)$", text, re.MULTILINE) for key in ("vendor_id", "flags"))
    known = [flag for flag in FLAGS if flags and flag in flags[1].split()]
    return " ".join([f"{versions};", vendor[1] if vendor else platform.machine(), *known])
