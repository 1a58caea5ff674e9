"""`--engine ray`, on a real Ray cluster of this machine: the same bytes as local, also when a worker is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from align.io.output import temporary_name
from tests import toy
from tests.cli.test_current_folder import SOME, plant
from tests.conftest import ROOT
from tests.scale.jobs import SHARED, lines, sentences, tree

ray = pytest.importorskip("ray", reason="needs ray[data]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a toy model, three files, and modules that no program may run; a cluster of two CPUs."""
    folder = plant(tmp_path_factory.mktemp("ray") / "trap", SOME)
    toy.save_model(folder / "toy")
    toy.store_cells(folder / "toy", ("de", "en"))
    (folder / "in").mkdir()
    for n, rows in enumerate((90, 20, 30)):
        (folder / f"in/{n}.tsv").write_bytes(lines(sentences(rows, n)))
    named = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    options = {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False, "logging_level": "CRITICAL"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in named.items():
            patch.setenv(name, value)
        context = ray.init("local", object_store_memory=100_000_000, **options)
        patch.setenv("RAY_ADDRESS", context.address_info["gcs_address"])
        yield folder
        ray.shutdown()
    assert not (folder / "RAN").exists()


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a job in the folder."""
    command = [sys.executable, "-m", "align", "jobs", *SHARED, "--workers", "2", "in/*.tsv", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str], code: int) -> str:
    """Wait for a job; return its messages."""
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (code, ""), err
    return err


def run(folder: Path, code: int, *arguments: str) -> str:
    """Run a job in the folder; return its messages."""
    return finish(start(folder, *arguments), code)


def descendants(process: int) -> list[int]:
    """Return the processes that a process has started, and those that these have started."""
    found = [process]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):  # it has ended
                found += map(int, children.read_text().split())
    return found[1:]


def kill(process: int, name: bytes) -> int:
    """Kill the descendants of a process whose command has a name; return their number."""
    killed = 0
    for number in descendants(process):
        with suppress(OSError):
            if name in Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")[0]:
                os.kill(number, signal.SIGKILL)
                killed += 1
    return killed


def wait_for_part(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a job is in the middle of a large file."""
    part, end = Path(temporary_name(str(folder / "large.tsv"))), time.monotonic() + 90
    while not (part.exists() and part.stat().st_size):
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.01)


def test_a_cluster_makes_the_same_bytes_and_goes_on_after_a_bad_file(folder: Path) -> None:
    run(folder, 0, "--output", "local")
    (folder / "bad.tsv").write_bytes(b"no columns\n")
    said = run(folder, 1, "bad.tsv", "--output", "out", "--engine", "ray")
    assert "bad.tsv, line 1: no ||| and no TAB" in said
    assert "1 of 4 files not done: bad.tsv" in said
    assert tree(folder / "out") == tree(folder / "local")
    (folder / "bad.tsv").write_bytes(b"a\tb\n")
    assert "4 of 4 files (3 before); 1 row," in run(folder, 0, "bad.tsv", "--output", "out")


def test_a_worker_that_is_killed_is_replaced_and_its_file_done_again(folder: Path) -> None:
    (folder / "large.tsv").write_bytes(lines(sentences(6000, 0)))
    run(folder, 0, "large.tsv", "--output", "expected")
    process = start(folder, "large.tsv", "--output", "again", "--engine", "ray")
    wait_for_part(folder / "again", process)
    assert kill(os.getpid(), b"ray::_align")
    assert not (folder / "again/large.tsv").exists()
    assert "4 of 4 files" in finish(process, 0)
    assert tree(folder / "again") == tree(folder / "expected")


def test_a_cluster_that_ends_in_the_middle_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "large.tsv").write_bytes(lines(sentences(6000, 0)))
    monkeypatch.setenv("RAY_ADDRESS", "local")
    process = start(folder, "large.tsv", "--output", "ended", "--engine", "ray")
    wait_for_part(folder / "ended", process)
    assert kill(process.pid, b"raylet")
    _, said = process.communicate(timeout=120)
    assert process.returncode
    assert "jobs: error: ended by Ray, or by a signal; the same command goes on" in said or "Ray has stopped" in said
    assert "4 of 4 files" in run(folder, 0, "large.tsv", "--output", "ended")


def test_no_cluster_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")
    assert "there is no Ray cluster to work on" in run(folder, 1, "--output", "none", "--engine", "ray")


def test_the_example_prints_its_links(folder: Path) -> None:
    command = [sys.executable, "examples/tables_ray.py"]
    example = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    links = {1: ("0-0 1-1 2-2 3-3", ""), 2: ("", "blank"), 3: ("0-0 1-1 2-3 3-2", "")}
    rows = [{"id": id, "links": text, "status": status} for id, (text, status) in links.items()]
    assert example.stdout == "".join(f"{row}\n" for row in rows), example.stderr
