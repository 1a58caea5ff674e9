"""Modules that lie in the current folder, which may be a downloaded one, are not run by any program of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import align
from align.children import python
from align.training.follow import lines_of

HOME = Path(align.__file__).parents[1]
PLANTED = ("random", "torch", "numpy", "tempfile", "fairseq", "tqdm", "__future__", "multiprocessing", "signal")
NAMES = ("extract", "combine", "baseline", "evaluate", "sweep", "transfer", "view")
PROGRAMS = tuple(f"align.cli.{name}" for name in NAMES)
COMMANDS = (
    *("extract-align", "combine-align", "baseline-align", "eval-align", "sweep-align", "transfer-align"),
    "view-align",
)


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder with modules that would leave a file beside them if they were run."""
    folder = tmp_path / "trap"
    folder.mkdir()
    for name in PLANTED:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'RAN')!r}, 'a').write({name!r})\n", encoding="utf-8")
    return folder


def sprung(folder: Path, *command: object) -> str:
    """Which of the modules a command has run, in that folder; it must end well."""
    # measuring coverage imports some of them itself, before the command looks for any
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    environment["PYTHONPATH"] = str(HOME)
    environment.pop("PYTHONSAFEPATH", None)
    result = subprocess.run([*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True)
    ran = (folder / "RAN").read_text(encoding="utf-8") if (folder / "RAN").exists() else ""
    assert ran or result.returncode == 0, result.stderr
    return ran


def test_the_trap_catches_a_python_that_looks_there(trap: Path) -> None:
    assert sprung(trap, sys.executable, "-c", "import random") == "random"


@pytest.mark.parametrize("how", [["-m"], ["-W", "ignore", "-m"]])
@pytest.mark.parametrize("program", [*PROGRAMS, "align.training"])
def test_programs_run_by_their_modules_do_not_look_there(trap: Path, program: str, how: list[str]) -> None:
    assert sprung(trap, sys.executable, *how, program, "--help") == ""


def test_fairseq_does_not_look_there(trap: Path) -> None:
    assert sprung(trap, sys.executable, "-m", "align.fairseq_cli", "preprocess", "--help") == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_do_not_look_there(trap: Path, command: str) -> None:
    installed = shutil.which(command, path=str(Path(sys.executable).parent))
    if installed is None:
        pytest.skip(f"{command} is not installed")
    assert sprung(trap, installed, "--help") == ""


def test_children_do_not_look_there(trap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trap)
    with lines_of("preprocess", ["--help"], 1, tmp_path / "log") as lines:
        assert "usage: " in next(lines)
        list(lines)
    assert not (trap / "RAN").exists()


SPAWNED = {
    "workers": """
from align.aligners import workers
workers.METHOD = "spawn"
started, held_signals = [], workers.held_signals
workers.held_signals = lambda: started.append(1) or held_signals()
from align import load
pairs = [("guten tag " * 4, "good day " * 4)] * 1500
assert len(list(load("de-en", workers=2, device="cpu", buffer=500)(pairs))) == 1500
assert started
""",
    "job": """
import sys
from align.scale import local
local.METHOD = "spawn"
from align.cli.extract import main
sys.argv = ["extract-align", "-q", "--input", "in.tsv", "--output", "out", "--workers", "1"]
sys.exit(main())
""",
}
"""Processes as they are started on macOS, for a GPU, and for files in an object store."""


@pytest.mark.parametrize("kind", SPAWNED)
def test_spawned_workers_do_not_look_there(trap: Path, kind: str) -> None:
    pytest.importorskip("pyarrow")
    (trap / "in.tsv").write_text("guten tag\tgood day\n", encoding="utf-8")
    assert sprung(trap, *python(SPAWNED[kind])) == ""
    assert kind == "workers" or (trap / "out").is_dir()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="scripts/setup makes .venv with Python 3.11 or newer")
def test_the_script_looks_nowhere_but_in_the_repository(trap: Path, tmp_path: Path) -> None:
    """Not even for what Python itself imports before it comes to us, which `-m` alone would find there."""
    (trap / "contextlib.py").write_text((trap / "random.py").read_text(encoding="utf-8"), encoding="utf-8")
    scripts, programs = tmp_path / "root" / "scripts", tmp_path / "root" / ".venv" / "bin"
    scripts.mkdir(parents=True)
    programs.mkdir(parents=True)
    shutil.copy(HOME / "scripts" / "train_model", scripts)
    for path, line in ((scripts / "setup", "exit 0"), (programs / "python", f'exec "{sys.executable}" "$@"')):
        path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        path.chmod(0o755)
    assert sprung(trap, scripts / "train_model", "--help") == ""


def test_the_current_folder_is_looked_in_where_the_package_itself_lies_there() -> None:
    script = "import align.safe_path, sys; print(sys.path[0])"
    run = subprocess.run([sys.executable, "-m", "align.fairseq_plugin"], cwd=HOME, capture_output=True, text=True)
    assert run.stdout.strip() == str(HOME / "align" / "fairseq_plugin" / "user_dir" / "extract_align"), run.stderr
    kept = subprocess.run([sys.executable, "-c", script], cwd=HOME, capture_output=True, text=True)
    assert kept.stdout == "\n"  # the library leaves the module path alone
