"""`--engine ray`, on a real Ray cluster of this machine: the same bytes as local, whoever is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from align.io.output import temporary_name
from tests import toy
from tests.cli.test_current_folder import SOME, plant
from tests.conftest import ROOT
from tests.scale.jobs import SHARED, lines, sentences, tree

ray = pytest.importorskip("ray", reason="needs ray[data]")

JOB = ("extract-align", "jobs", *SHARED, "--workers", "2", "in/*.tsv")
LOCAL = ("--output", "out")
"""More options of the same job without Ray, which goes on where Ray stopped."""

PART = temporary_name("out/0.tsv")
"""The output of the largest file while it is written."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """A cluster of two CPUs; the environment of the programs that are to find it."""
    pythonpath = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in pythonpath.items():
            patch.setenv(name, value)
        context = ray.init(
            "local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="CRITICAL",
            object_store_memory=100_000_000,
        )
        yield {**os.environ, "RAY_ADDRESS": context.address_info["gcs_address"]}
        ray.shutdown()


@pytest.fixture(scope="module")
def made(cluster: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a toy model, three files of which one is large, and what the local engine makes of them.

    It also has modules that no program may run.
    """
    folder = plant(tmp_path_factory.mktemp("ray") / "trap", SOME)
    toy.save_model(folder / "toy")
    toy.store_cells(folder / "toy", ("de", "en"))
    (folder / "in").mkdir()
    for n, rows in enumerate((9000, 20, 30)):
        (folder / f"in/{n}.tsv").write_bytes(lines(sentences(rows, n)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert finish(start("--output", "local")) == 0
    return folder


@pytest.fixture
def job(cluster: dict[str, str], made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """More options of a job on that cluster, in that folder."""
    monkeypatch.chdir(made)
    monkeypatch.setenv("RAY_ADDRESS", cluster["RAY_ADDRESS"])
    yield [*LOCAL, "--engine", "ray"]
    assert not Path("RAN").exists()
    shutil.rmtree("out", ignore_errors=True)


def start(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "align", *JOB[1:], *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes], *said: str) -> int:
    """Its exit code; fails unless it has said this, and nothing on stdout."""
    out, err = process.communicate(timeout=120)
    assert out == b""
    assert all(what in err.decode() for what in said), err.decode()
    return process.returncode


def when_writing() -> None:
    """Wait until the large file is under way."""
    part, end = Path(PART), time.monotonic() + 180
    while not (part.exists() and part.stat().st_size):
        assert time.monotonic() < end
        time.sleep(0.01)


def workers() -> list[int]:
    """Workers of this cluster that align a file, who are children of ours."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            grandparent = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
            line = (status.parent / "cmdline").read_bytes().decode()
        except (OSError, IndexError):  # it has ended
            continue
        if grandparent == os.getpid() and line.startswith("ray::_align"):
            found.append(int(status.parent.name))
    return found


def test_a_cluster_makes_the_same_bytes_and_goes_on_after_a_bad_file(job: list[str]) -> None:
    Path("bad.tsv").write_bytes(b"no columns\n")
    job += ["bad.tsv"]
    assert finish(start(*job), "bad.tsv, line 1: no ||| and no TAB", "1 of 4 files not done: bad.tsv") == 1
    assert tree("out") == tree("local")
    Path("bad.tsv").write_bytes(b"a\tb\n")
    assert finish(start(*LOCAL, "bad.tsv"), "4 of 4 files (3 before); 1 row,") == 0


def test_a_worker_that_is_killed_is_replaced_and_its_file_done_again(job: list[str]) -> None:
    process = start(*job)
    when_writing()
    killed = workers()
    for worker in killed:
        os.kill(worker, signal.SIGKILL)
    assert killed
    assert finish(process, "3 of 3 files") == 0  # "(1 before)" where a worker died between a file's end and its report
    assert tree("out") == tree("local")


def test_no_cluster_is_an_error(job: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")
    assert finish(start(*job), "there is no Ray cluster to work on") == 1


def test_the_example_prints_its_links(job: list[str]) -> None:
    command = [sys.executable, "examples/tables_ray.py"]
    example = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (
        example.stdout
        == """\
{'id': 1, 'links': '0-0 1-1 2-2 3-3', 'status': ''}
{'id': 2, 'links': '', 'status': 'blank'}
{'id': 3, 'links': '0-0 1-1 2-3 3-2', 'status': ''}
"""
    ), example.stderr
