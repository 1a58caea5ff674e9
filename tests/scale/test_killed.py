"""Jobs whose processes are killed: a worker is replaced, the same command goes on, and two jobs keep apart."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from align.io import output
from align.io.manifest import Record
from align.io.output import NamedFile, put_in_place
from align.jobs import job, local, locks
from align.jobs.files import InputFile, digest_of
from align.jobs.job import align_file
from align.jobs.records import write_record
from align.jobs.writers import WRITERS, Head, Result
from tests.cli.conftest import Result as Printed
from tests.scale.jobs import drive, lines, sentences, tree

JOB = ("jobs", "in/*.tsv", "--output", "out", "--workers", "2")


@pytest.fixture
def expected(run: Callable[..., Printed]) -> dict[str, bytes]:
    """Four files, of which 1.tsv is the last to be begun, and what comes of them."""
    for n in range(4):
        Path(f"in/{n}.tsv").write_bytes(lines(sentences(30 if n == 1 else 40, n)))
    assert run("jobs", "-q", "in/*.tsv", "--output", "expected").code == 0
    return tree("expected")


def once(name: str) -> bool:
    """Whether this is asked for the first time, by whatever process."""
    try:
        Path(f"once-{name}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def test_a_worker_that_is_killed_is_replaced_and_its_file_done_again(
    run: Callable[..., Printed], expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_the_record(folder: str, name: str, record: Record) -> None:
        if (name == "1.tsv" and once("a")) or (name == "2.tsv" and (once("b") or once("c"))):
            os.kill(os.getpid(), signal.SIGKILL)
        write_record(folder, name, record)

    monkeypatch.setattr(job, "write_record", at_the_record)
    result = run(*JOB)
    assert result.code == 0, result.err
    assert "4 of 4 files; 150 rows, 15 blank" in result.err
    assert tree("out") == expected
    assert not list(Path("out").glob("**/*.part"))


def test_a_file_that_kills_three_workers_is_given_up_and_the_rest_done(
    run: Callable[..., Printed], expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Path("begun")

    def deadly(task: job.Job, file: InputFile, on_rows: job.OnRows | None = None) -> Record:
        if file.name == "2.tsv":
            with begun.open("a") as out:
                out.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return align_file(task, file, on_rows)

    monkeypatch.setattr(local, "align_file", deadly)
    result = run(*JOB, "-q")
    assert result.code == 1
    assert result.err.splitlines() == [
        "extract-align jobs: error: in/2.tsv: 3 workers have died of it (SIGKILL)",
        "extract-align jobs: error: 1 of 4 files not done: 2.tsv",
    ]
    assert begun.read_text() == "xxx"


def nobody_left(folder: str = "out", seconds: float = 5.0) -> bool:
    """Whether all processes of a job end within so long: each of them has inherited its lock."""
    end = time.monotonic() + seconds
    with open(f"{folder}/_run/lock", "rb") as lock:
        while time.monotonic() < end:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.05)
            else:
                return True
    return False


MOMENTS = ("as a file begins", "in the middle", "before the record", "before the output", "behind the output")


def strike(monkeypatch: pytest.MonkeyPatch, moment: str, signal_number: int) -> None:
    """Have a worker send its parent a signal the first time that it comes to a moment of the last file."""

    def struck(name: str) -> None:
        if name == "1.tsv" and once("struck"):
            os.kill(os.getppid(), signal_number)
            time.sleep(1 if signal_number == signal.SIGKILL else 30)  # the worker's end comes sooner

    write_text = WRITERS[".tsv"]

    def at_digest(place: str) -> str:
        struck(Path(place).name if place.startswith("in/") else "")
        return digest_of(place)

    def in_the_middle(results: Iterator[Result], out: BinaryIO, head: Head) -> None:
        def some() -> Iterator[Result]:
            for n, result in enumerate(results):
                if n == 20:
                    out.flush()
                    struck(Path(head.about["input"]).name)
                yield result

        write_text(some(), out, head)

    def at_the_record(folder: str, name: str, record: Record) -> None:
        struck(name)
        write_record(folder, name, record)

    def at_the_output(file: NamedFile, part: str, target: str, mode: int | None) -> None:
        struck(Path(target).name)
        put_in_place(file, part, target, mode)

    def behind_it(task: job.Job, file: InputFile, on_rows: job.OnRows | None = None) -> Record:
        record = align_file(task, file, on_rows)
        struck(file.name)
        return record

    if moment == "in the middle":
        monkeypatch.setitem(WRITERS, ".tsv", in_the_middle)
        return
    module, name, other = {
        "as a file begins": (job, "digest_of", at_digest),
        "before the record": (job, "write_record", at_the_record),
        "before the output": (output, "put_in_place", at_the_output),
        "behind the output": (local, "align_file", behind_it),
    }[moment]
    monkeypatch.setattr(module, name, other)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_job_that_is_killed_goes_on_with_the_same_command(
    run: Callable[..., Printed], expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    strike(monkeypatch, moment, signal.SIGKILL)
    assert drive(*JOB) == -signal.SIGKILL
    assert nobody_left()
    there = tree("out")
    assert there.items() <= expected.items()
    result = run(*JOB)
    assert result.code == 0, result.err
    assert "4 of 4 files" in result.err
    assert tree("out") == expected
    assert not list(Path("out").glob("**/*.part"))
    assert "4 of 4 files (4 before)" in run(*JOB).err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_a_job_at_once_and_lose_the_files_at_work_only(
    run: Callable[..., Printed],
    expected: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    number: int,
    code: int,
) -> None:
    strike(monkeypatch, "in the middle", number)
    begun = time.monotonic()
    assert drive(*JOB, "--workers", "1") == code
    assert time.monotonic() - begun < 20  # the worker would sleep for longer
    assert nobody_left()
    assert len(tree("out")) == 3
    said = capfdbinary.readouterr().err.decode().splitlines()[-1]
    assert said == "extract-align jobs: interrupted after 3 of 4 files; the same command goes on"
    assert "4 of 4 files (3 before)" in run(*JOB).err
    assert tree("out") == expected


def test_a_second_job_in_a_folder_is_told_so(
    run: Callable[..., Printed], expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE", 0.1)
    Path("out/_run").mkdir(parents=True)

    def refused(why: str, *options: str) -> None:
        result = run(*JOB, "-q", *options)
        assert result.code == 1
        assert result.err == f"extract-align jobs: error: out: {why}; wait for it to end, or take another folder\n"

    with locks.running("out", None):
        refused("another job is running there")
        refused("a job that does all files is running there", "--part", "1/2")
    with locks.running("out", (1, 2)):
        refused("another job is running there")
        refused("part 1/2 is running", "--part", "1/2")
        refused("parts of 2 are running there", "--part", "1/3")
        assert run(*JOB, "-q", "--part", "2/2").code == 0
    some = tree("out")
    assert len(some) == 2
    assert run(*JOB, "-q", "--part", "1/2").code == 0
    assert tree("out") == expected
    assert "4 of 4 files (4 before)" in run(*JOB, "--part", "1/1").err


def test_parts_side_by_side_choose_once(run: Callable[..., Printed], expected: dict[str, bytes]) -> None:
    context = multiprocessing.get_context("fork")
    parts = [context.Process(target=drive, args=(*JOB, "--part", f"{n}/3")) for n in (1, 2, 3)]
    for part in parts:
        part.start()
    for part in parts:
        part.join(60)
    assert [part.exitcode for part in parts] == [0, 0, 0]
    assert tree("out") == expected
    assert "4 of 4 files (4 before)" in run(*JOB).err
