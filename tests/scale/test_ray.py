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


def workers() -> list[int]:
    """Return the processes that align a file on this cluster: children of its raylet, which is a child of this one."""
    processes = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):  # it has ended
            parent = status.read_text().rpartition(")")[2].split()[1]
            grandparent = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1]
            if int(grandparent) == os.getpid() and (status.parent / "cmdline").read_bytes().startswith(b"ray::_align"):
                processes.append(int(status.parent.name))
    return processes


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
    part, end = Path(temporary_name(str(folder / "again/large.tsv"))), time.monotonic() + 90
    while not (part.exists() and part.stat().st_size):
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.01)
    killed = workers()
    for worker in killed:
        os.kill(worker, signal.SIGKILL)
    assert killed
    assert not (folder / "again/large.tsv").exists()
    assert "4 of 4 files" in finish(process, 0)
    assert tree(folder / "again") == tree(folder / "expected")


def test_no_cluster_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")
    assert "there is no Ray cluster to work on" in run(folder, 1, "--output", "none", "--engine", "ray")


def test_the_example_prints_its_links(folder: Path) -> None:
    command = [sys.executable, "examples/tables_ray.py"]
    example = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    links = {1: ("0-0 1-1 2-2 3-3", ""), 2: ("", "blank"), 3: ("0-0 1-1 2-3 3-2", "")}
    rows = [{"id": id, "links": text, "status": status} for id, (text, status) in links.items()]
    assert example.stdout == "".join(f"{row}\n" for row in rows), example.stderr
