"""`extract-align jobs` where names, records or disks are not as they should be."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import pytest

from align.jobs.formats import FORMATS
from align.jobs.formats import Result as Row
from tests import toy
from tests.cli.conftest import Result
from tests.scale.jobs import drive, lines, sentences, tree

JOB = ("jobs", "-q", "in/*.tsv", "--output", "out")


@pytest.fixture
def done(run: Callable[..., Result]) -> dict[str, bytes]:
    """Two files, which have been done; what came of them."""
    for name, count in (("a", 400), ("b", 10)):
        Path(f"in/{name}.tsv").write_bytes(lines(sentences(count, 1)))
    assert run(*JOB).code == 0
    return tree("out")


def test_another_run_in_the_same_folder_is_refused(run: Callable[..., Result], done: dict[str, bytes]) -> None:
    for options, what in (
        (("--links", "pharaoh"), "links: structs → pharaoh"),
        (("--columns", "1,2"), "columns: None → 1,2"),
    ):
        result = run(*JOB, *options)
        assert (result.code, what in result.err) == (1, True)
        assert "restore the settings, or use another folder" in result.err
    shutil.rmtree("toy")
    toy.save_model(Path("toy"), {"decoder_ffn_embed_dim": 32})
    result = run(*JOB)
    assert result.code == 1
    assert "out: its files were made with other settings (settings: fairseq:de-en@" in result.err
    assert tree("out") == done


def test_a_file_is_the_same_under_another_name(run: Callable[..., Result], done: dict[str, bytes]) -> None:
    for pattern in ("./in/*.tsv", f"{os.getcwd()}/in/*.tsv", f"file://{os.getcwd()}/in/*.tsv"):
        result = run("jobs", pattern, "--output", "out")
        assert (result.code, "2 of 2 files (2 before)" in result.err) == (0, True)
    shutil.copytree("in", "other")
    other = run("jobs", "other/*.tsv", "--output", "out")
    assert "other/a.tsv: has changed since out/a.tsv was made" in other.err
    assert tree("out") == done


def test_results_that_are_none_of_a_job_stay(run: Callable[..., Result], done: dict[str, bytes]) -> None:
    Path("mine").mkdir()
    Path("mine/a.tsv").write_text("mine")
    result = run(*JOB[:-1], "mine")
    assert (result.code, "mine/a.tsv: exists already, and no job wrote it" in result.err) == (1, True)
    assert Path("mine/a.tsv").read_text() == "mine"
    shutil.copy("in/b.tsv", "in/new.tsv")
    Path("out/new.tsv").write_text("mine")
    Path("out/_run/new.tsv.lock").touch()  # of a worker that was killed before it began
    result = run(*JOB)
    assert (result.code, "out/new.tsv: exists already, and this job did not write it: move" in result.err) == (1, True)
    assert Path("out/new.tsv").read_text() == "mine"
    Path("out/new.tsv").unlink()
    assert run(*JOB).code == 0


def test_a_file_that_changes_as_it_is_read_is_not_done(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_text, write_text = FORMATS[".tsv"]

    def grow(results: Iterator[Row], out: BinaryIO, links: str, id_field: None, about: Mapping[str, str]) -> None:
        with open(about["input"], "ab") as file:
            file.write(b"das\tthe\n")
        write_text(results, out, links, id_field, about)

    Path("in/a.tsv").write_bytes(lines(sentences(5, 1)))
    monkeypatch.setitem(FORMATS, ".tsv", (read_text, grow))
    result = run(*JOB)
    assert (result.code, "in/a.tsv: changed while it was read; it is not done" in result.err) == (1, True)
    assert (tree("out"), os.path.exists("out/_run/a.tsv.json")) == ({}, False)


def test_a_full_disk_is_said_and_nothing_half_written_stays(
    run: Callable[..., Result], done: dict[str, bytes], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    shutil.rmtree("out")
    limits = resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY)
    assert drive(*JOB, before=lambda: resource.setrlimit(*limits)) == 1
    said = capfdbinary.readouterr().err.decode()
    assert ("cannot write: File too large" in said, "Traceback" in said, tree("out")) == (True, False, {})
    assert not list(Path("out").glob("**/*.part"))
    assert run(*JOB).code == 0
    assert tree("out") == done


def test_names_with_odd_characters(run: Callable[..., Result]) -> None:
    names = {"new\nline.tsv", "-dash.tsv", "per%cent {0}.tsv", "\x1b[2Jescape.tsv", "[a].tsv", "x" * 230 + ".tsv"}
    for name in names:
        Path("in", name).write_bytes(lines(sentences(5, 2)))
    assert run(*JOB).code == 0
    assert {*tree("out")} == names
    for name in names:
        Path("in", name).write_bytes(b"one side\n")
    result = run(*JOB)
    assert (result.code, "Traceback" in result.err, "\x1b" in result.err) == (1, False, False)


def test_no_input_is_replaced_by_its_results(run: Callable[..., Result]) -> None:
    Path("in/a.tsv").write_bytes(b"das\tthe\n")
    os.symlink("in", "link")
    for name, folder in (("in/a.tsv", "in"), ("in/a.tsv", "link"), ("in/../in/a.tsv", "./in/")):
        result = run("jobs", name, "--output", folder)
        assert (result.code, f"-o would replace the input {name}" in result.err) == (2, True)
    assert Path("in/a.tsv").read_bytes() == b"das\tthe\n"


def test_all_that_is_blank_is_read_where_the_model_says(run: Callable[..., Result]) -> None:
    Path("in/a.tsv").write_bytes(b"\t\n" * 3)
    Path("toy/model.toml").write_text('source = "de"\ntarget = "en"\n')  # without layer and head
    result = run(*JOB)
    assert (result.code, tree("out")) == (0, {"a.tsv": b"\n\n\n"})


def test_a_damaged_record_is_named(run: Callable[..., Result], done: dict[str, bytes]) -> None:
    for record in ("run.json", "a.tsv.json"):
        path = Path("out/_run", record)
        whole = path.read_bytes()
        path.write_bytes(whole[:20])
        result = run(*JOB)
        assert (result.code, f"error: out/_run/{record}: " in result.err) == (1, True), result.err
        path.write_bytes(whole)
    assert tree("out") == done
