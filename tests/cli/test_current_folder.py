"""Modules that lie in the current folder, which may be a downloaded one, are not run by any program of ours.

tests/cli/test_train_model.py trains in a folder with such modules, and tests/scale/test_ray.py runs jobs there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

import align
from align.io.process import python
from align.training.follow import lines_of

HOME = Path(align.__file__).parents[1]
ABSENT = ("orjson", "uvloop", "uvicorn_worker", "intel_extension_for_pytorch", "torch_npu", "wandb", "usercustomize")
"""Modules that libraries import where they are installed, and that are not."""

SOME = ("random", "torch", "numpy", "tempfile", "fairseq", "tqdm", "__future__", "multiprocessing", "signal")
ALL = {
    *(name for name in sys.stdlib_module_names if not name.startswith("_")),
    *(name for name in packages_distributions() if name.isidentifier()),
    *("align", "__future__", "sitecustomize", *ABSENT),
}
PACKAGES = ("align", "torch", "fairseq", "multiprocessing", "ray")
"""Those that are planted as packages, which Python prefers to modules."""


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder with some text and modules that would leave a file beside them if they were run."""
    return plant(tmp_path / "trap", ALL)


@pytest.fixture
def small_trap(tmp_path: Path) -> Path:
    """The same, without modules that Python itself imports for `-m`."""
    return plant(tmp_path / "trap", SOME)


def plant(folder: Path, names: Iterable[str]) -> Path:
    folder.mkdir()
    for name in names:
        path = folder / f"{name}.py"
        if name in PACKAGES:
            (folder / name).mkdir()
            path = folder / name / "__init__.py"
        path.write_text(f"open({str(folder / 'RAN')!r}, 'a').write({name!r})\n", encoding="utf-8")
    (folder / "in.tsv").write_text("guten tag heute\tgood day today\n" * 600, encoding="utf-8")
    (folder / "few.txt").write_text("guten tag heute\n" * 6, encoding="utf-8")
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


@pytest.mark.parametrize(("program", "how"), [("align", ["-m"]), ("align.cli.main", ["-W", "ignore", "-m"])])
def test_programs_run_by_their_modules_do_not_look_there(small_trap: Path, program: str, how: list[str]) -> None:
    assert sprung(small_trap, sys.executable, *how, program, "--help") == ""


def test_fairseq_does_not_look_there(small_trap: Path) -> None:
    assert sprung(small_trap, sys.executable, "-m", "align.fairseq_cli", "preprocess", "--help") == ""


def test_the_installed_program_does_not_look_there(trap: Path) -> None:
    assert sprung(trap, Path(sys.executable).parent / "extract-align", "eval", "--help") == ""


def test_children_do_not_look_there(trap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trap)
    with lines_of("preprocess", ["--help"], 1, tmp_path / "log") as lines:
        assert "usage: " in next(lines)
        list(lines)
    assert not (trap / "RAN").exists()


SPAWNED = {
    "workers": """
from align.io import pool as workers
workers.METHOD = "spawn"
started, held_signals = [], workers.held_signals
workers.held_signals = lambda: started.append(1) or held_signals()
from align import load
pairs = [("guten tag " * 4, "good day " * 4)] * 600
assert len(list(load("de-en", workers=2, device="cpu", buffer=500)(pairs))) == 600
assert started
""",
    "progress": """
import multiprocessing, sys
multiprocessing.set_start_method("spawn")
sys.argv = ["extract-align", "-q", "in.tsv", "-o", "out"]
from align.cli.main import main, start
start()
from tqdm import tqdm
tqdm(total=1).close()  # which makes a lock, and so begins a process
sys.exit(main())
""",
    "job": """
import sys
from align.io import pool
pool.METHOD = "spawn"
from align.cli.main import main
sys.argv = ["extract-align", "jobs", "-q", "in.tsv", "--output", "out", "--workers", "1"]
sys.exit(main())
""",
}
"""Processes as they are started on macOS, for a GPU, and for files in an object store."""


@pytest.mark.parametrize("kind", SPAWNED)
def test_spawned_workers_do_not_look_there(trap: Path, kind: str) -> None:
    pytest.importorskip("pyarrow")
    assert sprung(trap, *python(SPAWNED[kind])) == ""
    assert kind == "workers" or (trap / "out").exists()


JOB = ("jobs", "in.tsv", "--output", "out")
WAYS: dict[str, tuple[str, ...]] = {
    "workers": ("extract-align", "-q", "in.tsv", "--workers", "2", "--buffer", "500", "-o", "links"),
    "translation": ("extract-align", "-q", "few.txt", "--translate", "--beam", "1", "-o", "links"),
    "job": ("extract-align", *JOB, "--workers", "2"),
    "fast_align": ("extract-align", "baseline", "fast_align", "in.tsv", "-o", "links"),
    "eflomal": ("extract-align", "baseline", "eflomal", "in.tsv", "-o", "links"),
    "sweep": ("extract-align", "sweep", "in.tsv", "-o", "counts.tsv"),
}
"""Every way in which a command begins processes, or imports what --help does not."""

NEEDED = {"fast_align": "systran_align", "eflomal": "eflomal", "job": "pyarrow"}


@pytest.mark.parametrize("way", WAYS)
def test_whatever_a_command_begins_does_not_look_there(trap: Path, way: str) -> None:
    if way in NEEDED and not find_spec(NEEDED[way]):
        pytest.skip(f"needs {NEEDED[way]}")
    name, *arguments = WAYS[way]
    command = Path(sys.executable).parent / name
    if not command.exists():
        pytest.skip(f"{name} is not installed")
    assert sprung(trap, command, *arguments) == ""


def test_a_service_does_not_look_there(trap: Path) -> None:
    pytest.importorskip("fastapi", reason="needs the extra [serve]")
    import httpx

    environment = {**os.environ, "PYTHONPATH": str(HOME)}
    environment.pop("PYTHONSAFEPATH", None)
    command = [str(Path(sys.executable).parent / "extract-align"), "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=trap, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            address = next(match[1] for line in process.stderr if (match := re.search(r": (http://\S+)$", line)))
            for path in ("align", "transfer"):
                pairs = [{"source": "guten tag", "target": "good day"}]
                assert httpx.post(f"{address}/{path}", json={"pairs": pairs}, timeout=60).status_code == 200
        finally:
            process.terminate()
    assert not (trap / "RAN").exists()


def test_the_current_folder_is_looked_in_where_the_package_itself_lies_there() -> None:
    script = "import align.io.safe_path, sys; print(sys.path[0])"
    run = subprocess.run([sys.executable, "-m", "align.training.plugin"], cwd=HOME, capture_output=True, text=True)
    assert run.stdout.strip() == str(HOME / "align" / "training" / "plugin" / "user_dir" / "extract_align"), run.stderr
    kept = subprocess.run([sys.executable, "-c", script], cwd=HOME, capture_output=True, text=True)
    assert kept.stdout == "\n"  # the library leaves the module path alone
