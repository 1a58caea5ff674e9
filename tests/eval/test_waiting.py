"""`eval/run.py benchmark-waiting`: what is run has the environment and the company that its table says."""

from __future__ import annotations

import importlib
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from align.io.process import python
from tests.eval.conftest import Result, read_table

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def waiting(door: Any) -> Any:
    return importlib.import_module("benchmark_waiting")


def test_table(data: Path, command: Callable[..., Result], waiting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "WAYS", (waiting.DEFAULT, waiting.Way(False, "unset", "int8")))
    text = ("-s", data / "gold.de", "-t", data / "gold.en", "-m", data / "models" / "one")
    result = command("benchmark-waiting", *text, "--lines", 40, "--rounds", 1, "--load", 1, "--threads", 2)
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "benchmark_waiting.tsv")
    assert sign.startswith(
        "# python eval/run.py benchmark-waiting -s gold.de -t gold.en --lines 40 --load 1 --rounds 1; "
    )
    assert sign[2:] in result.out
    ways = [("2 processes with a thread each", "passive", "float32"), ("one process with 2 threads", "unset", "int8")]
    assert [(row["what"], row["waiting"], row["dtype"]) for row in rows] == ways * 2
    assert [row["load"] for row in rows] == ["0", "0", "1", "1"]
    assert [float(rows[n]["ratio"]) for n in (0, 2)] == [1, 1]
    assert all(float(row["rate"]) > 0 for row in rows)


def test_busy_processes_end_with_what_they_stand_beside(waiting: Any) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def fail() -> None:
        with waiting.busy(2) as processes:
            started.extend(processes)
            assert [process.poll() for process in processes] == [None, None]
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2


def test_busy_processes_end_with_a_command_that_was_killed(waiting: Any) -> None:
    script = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {waiting.BUSY!r}, '0']).wait())"
    assert subprocess.run(python(script), capture_output=True, text=True, timeout=60, check=True).stdout == "0\n"


@pytest.mark.parametrize("policy", ["passive", "unset", "active"])
def test_the_environment_wins(waiting: Any, policy: str) -> None:
    programs = importlib.import_module("programs")
    expected = {"passive": "passive", "unset": "", "active": "active"}[policy]
    script = "import sys; sys.argv = ['extract-align']; import align.cli, os; "
    script += f"sys.exit(os.environ['OMP_WAIT_POLICY'] != {expected!r})"
    programs.run_python(["-c", script], environment=waiting.POLICIES[policy])
