"""Jobs whose processes are killed: a worker is replaced, the same command goes on, and two jobs keep apart."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from align.jobs import job, local
from align.jobs.files import InputFile, write_record
from align.jobs.formats import FORMATS, Result
from align.jobs.job import align_file
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
    def at_the_marker(place: str, marker: Any) -> None:
        name = Path(place).name if "rows" in marker else ""
        if (name == "1.tsv.json" and once("a")) or (name == "2.tsv.json" and (once("b") or once("c"))):
            os.kill(os.getpid(), signal.SIGKILL)
        write_record(place, marker)

    monkeypatch.setattr(job, "write_record", at_the_marker)
    result = run(*JOB)
    assert result.code == 0, result.err
    assert "4 of 4 files; 150 rows, 15 blank" in result.err
    assert tree("out") == expected
    assert not list(Path("out").glob("**/*.part"))


def test_a_file_that_kills_three_workers_is_given_up_and_the_rest_done(
    run: Callable[..., Printed], expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Path("begun")

    def deadly(task: job.Job, file: InputFile, on_rows: job.OnRows | None = None) -> Any:
        if file.name == "2.tsv":
            with begun.open("a") as out:
                out.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return align_file(task, file, on_rows)

    monkeypatch.setattr(local, "align_file", deadly)
    result = run(*JOB, "-q")
    assert result.code == 1
    assert result.err.splitlines() == [
        "extract-align jobs: error: in/2.tsv: 3 workers crashed on this file (SIGKILL)",
        "extract-align jobs: error: 1 of 4 files not done: 2.tsv",
    ]
    assert begun.read_text() == "xxx"


MOMENTS = ("in the middle", "before the marker")


def strike(monkeypatch: pytest.MonkeyPatch, moment: str, signal_number: int) -> None:
    """Have a worker send its parent a signal the first time that it comes to a moment of the last file."""

    def struck(name: str) -> None:
        if name == "1.tsv" and once("struck"):
            os.kill(os.getppid(), signal_number)
            time.sleep(1 if signal_number == signal.SIGKILL else 30)  # the worker's end comes sooner

    read_text, write_text = FORMATS[".tsv"]

    def in_the_middle(
        results: Iterator[Result], out: BinaryIO, links: str, id_field: None, about: Mapping[str, str]
    ) -> None:
        def some() -> Iterator[Result]:
            for n, result in enumerate(results):
                if n == 20:
                    out.flush()
                    struck(Path(about["input"]).name)
                yield result

        write_text(some(), out, links, id_field, about)

    def at_the_marker(place: str, marker: Any) -> None:
        if "rows" in marker:
            struck(Path(place).name.removesuffix(".json"))
        write_record(place, marker)

    if moment == "in the middle":
        monkeypatch.setitem(FORMATS, ".tsv", (read_text, in_the_middle))
    else:
        monkeypatch.setattr(job, "write_record", at_the_marker)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_job_that_is_killed_goes_on_with_the_same_command(
    run: Callable[..., Printed], expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    strike(monkeypatch, moment, signal.SIGKILL)
    assert drive(*JOB) == -signal.SIGKILL
    there = tree("out")
    assert there.items() <= expected.items()
    result = run(*JOB)
    assert result.code == 0, result.err
    assert "4 of 4 files" in result.err
    assert tree("out") == expected
    assert not list(Path("out").glob("**/*.part"))
    assert "4 of 4 files (4 before)" in run(*JOB).err


def test_signals_end_a_job_at_once_and_lose_the_files_at_work_only(
    run: Callable[..., Printed],
    expected: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    strike(monkeypatch, "in the middle", signal.SIGTERM)
    begun = time.monotonic()
    assert drive(*JOB, "--workers", "1") == 143
    assert time.monotonic() - begun < 20  # the worker would sleep for longer
    assert len(tree("out")) == 3
    said = capfdbinary.readouterr().err.decode().splitlines()[-1]
    assert said == "extract-align jobs: interrupted after 3 of 4 files; the same command goes on"
    assert "4 of 4 files (3 before)" in run(*JOB).err
    assert tree("out") == expected


def test_a_file_that_another_run_does_is_left_to_it(
    run: Callable[..., Printed], expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "PATIENCE", 0.1)
    Path("out/_run").mkdir(parents=True)
    with job.claimed("out", "1.tsv"):
        result = run(*JOB, "-q")
        assert result.code == 1
        assert result.err.startswith("extract-align jobs: error: out/1.tsv: another run is already writing this\n")
        assert "1 of 4 files not done: 1.tsv" in result.err
    assert "4 of 4 files (3 before)" in run(*JOB, "--part", "1/1").err
    assert tree("out") == expected
    assert {path.suffix for path in Path("out/_run").iterdir()} == {".json"}


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
