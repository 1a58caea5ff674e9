"""Modules that lie in the current folder, which may be a downloaded one, are not run by any program of ours.

tests/cli/test_train_model.py trains in a folder with such modules, and tests/scale/test_ray.py runs jobs there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import align
from align.io.process import python

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


@pytest.mark.parametrize(("program", "how"), [("align", ["-m"]), ("align.cli.main", ["-W", "ignore", "-m"])])
def test_programs_run_by_their_modules_do_not_look_there(small_trap: Path, program: str, how: list[str]) -> None:
    assert sprung(small_trap, sys.executable, *how, program, "--help") == ""


def test_the_installed_program_does_not_look_there(trap: Path) -> None:
    assert sprung(trap, Path(sys.executable).parent / "extract-align", "eval", "--help") == ""


FIGURES = {
    "sweep": "import align.view.plots",
    "points": """
import numpy
from align.analysis.plots import named_points
named_points({"a": numpy.zeros((1, 2))}, {"a": ["b"]}, "")
""",
    "curves": """
import numpy
from align.analysis.plots import curves
curves({"a": numpy.zeros((1, 2))}, "", "", "")
""",
}


@pytest.mark.parametrize("kind", FIGURES)
def test_settings_of_figures_that_lie_there_are_not_read(small_trap: Path, kind: str) -> None:
    """The library matplotlib looks for a matplotlibrc there first of all, and reports what is wrong with one."""
    pytest.importorskip("matplotlib")
    (small_trap / "matplotlibrc").write_text("bad\033[31mkey: 1\n", encoding="utf-8")
    script = f"import os\nfolder = os.getcwd()\n{FIGURES[kind]}\nassert os.getcwd() == folder"
    result = subprocess.run(python(script), cwd=small_trap, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


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
