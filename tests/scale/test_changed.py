"""`extract-align jobs` where names, records or disks are not as they should be."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import pytest

from align.cli.main import main
from align.io import output
from align.io.output import NamedFile, put_in_place
from align.jobs.files import whole_file
from align.jobs.writers import WRITERS
from align.jobs.writers import Result as Row
from tests import toy
from tests.cli.conftest import Result
from tests.scale.jobs import SHARED, drive, lines, sentences, tree

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
        assert "restore the settings, or take another folder" in result.err
    shutil.rmtree("toy")
    toy.save_model(Path("toy"), {"decoder_ffn_embed_dim": 32})
    result = run(*JOB)
    assert result.code == 1
    assert "out: its files were made with other settings (settings: fairseq:de-en@" in result.err
    assert tree("out") == done


def test_a_calibration_that_was_changed_is_another_run(
    run: Callable[..., Result], run_main: Callable[..., Result]
) -> None:
    Path("in/a.tsv").write_bytes(lines(sentences(10, 1)))
    Path("toy/model.toml").unlink()
    job = ("-q", "in/*.tsv", "--output", "auto", *SHARED, "--source-lang", "de", "--target-lang", "en")
    assert run_main(main, "jobs", *job).code == 0
    Path("toy/model.toml").write_text("[calibration.output]\nnorm = { layer = 1, head = 1 }\n")
    assert "calibration: None → output layer 1, head 1)" in run_main(main, "jobs", *job).err


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_what_is_no_file_in_the_place_of_a_result_stays(
    run: Callable[..., Result], done: dict[str, bytes], make: Callable[[Path], object]
) -> None:
    Path("other").mkdir()
    shutil.copy("in/b.tsv", "in/new.tsv")
    for folder, why in (("out", "this job did not write it"), ("other", "no job wrote it")):
        own = Path(folder, "new.tsv")
        make(own)
        before = own.lstat()
        result = run(*JOB[:-1], folder)
        assert (result.code, f"{folder}/new.tsv: exists already, and {why}" in result.err) == (1, True)
        assert (own.lstat().st_ino, own.lstat().st_mode) == (before.st_ino, before.st_mode)


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


def test_a_failed_attempt_claims_no_output(
    run: Callable[..., Result], done: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: NamedFile, part: str, target: str, mode: int | None) -> None:
        if target.endswith("new.tsv"):
            raise OSError(28, "cannot write: No space left on device", file.shown)
        put_in_place(file, part, target, mode)

    new, own = Path("in/new.tsv"), Path("out/new.tsv")
    for content, why in ((b"one side\n", "in/new.tsv, line 1: no ||| and no TAB"), (b"das\tthe\n", "No space left")):
        new.write_bytes(content)
        with monkeypatch.context() as patch:
            patch.setattr(output, "put_in_place", full)
            result = run(*JOB)
        assert (result.code, why in result.err, own.exists()) == (1, True, False)
        own.write_bytes(b"mine")
        result = run(*JOB)
        assert (result.code, "error: out/new.tsv: " in result.err) == (1, True)
        assert own.read_bytes() == b"mine"
        own.unlink()
    assert run(*JOB).code == 0
    os.unlink("out/_run/new.tsv.json")
    own.write_bytes(b"mine")
    result = run(*JOB)
    assert (result.code, "out/new.tsv: exists already, and this job did not write it: move" in result.err) == (1, True)
    assert own.read_bytes() == b"mine"


def test_a_file_that_changes_as_it_is_read_is_not_done(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text = WRITERS[".tsv"]

    def grow(results: Iterator[Row], out: BinaryIO, links: str, id_field: None, about: Mapping[str, str]) -> None:
        with open(about["input"], "ab") as file:
            file.write(b"das\tthe\n")
        write_text(results, out, links, id_field, about)

    Path("in/a.tsv").write_bytes(lines(sentences(5, 1)))
    monkeypatch.setitem(WRITERS, ".tsv", grow)
    result = run(*JOB)
    assert (result.code, "in/a.tsv: changed while it was read; it is not done" in result.err) == (1, True)
    assert (tree("out"), os.path.exists("out/_run/a.tsv.json")) == ({}, False)


@pytest.mark.parametrize("room", [100, 700])
def test_a_full_disk_is_said_and_nothing_half_written_stays(
    run: Callable[..., Result], done: dict[str, bytes], capfdbinary: pytest.CaptureFixture[bytes], room: int
) -> None:
    shutil.rmtree("out")
    limits = resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY)
    assert drive(*JOB, before=lambda: resource.setrlimit(*limits)) == 1
    said = capfdbinary.readouterr().err.decode()
    assert "cannot write: File too large" in said
    assert "Traceback" not in said
    possible = {} if room == 100 else {"b.tsv": done["b.tsv"]}
    assert tree("out") in ({}, possible)  # the other worker may not be done when the job ends
    assert not list(Path("out").glob("**/*.part"))
    assert run(*JOB).code == 0
    assert tree("out") == done


NAMES = (
    *("new\nline.tsv", "-dash.tsv", "per%cent %s {0}.tsv", "\x1b[2Jescape.tsv", "Ünï.tsv", "[a].tsv", "a*b.tsv"),
    *("$(x) ' \".tsv", ".hidden.tsv", "x" * 230 + ".tsv", " .tsv"),
)


def test_names_with_odd_characters(run: Callable[..., Result]) -> None:
    text = lines(sentences(5, 2))
    for name in NAMES:
        Path("in", name).write_bytes(text)
    assert run(*JOB).code == 0
    assert {*tree("out")} == {*NAMES} - {".hidden.tsv"}
    for name in NAMES:
        assert run("jobs", "-q", f"in/{name}", "--output", "out").code == 0
        Path("in", name).write_bytes(b"one side\n")
    result = run(*JOB)
    assert (result.code, "Traceback" in result.err, "\x1b" in result.err) == (1, False, False)
    assert set(tree("out").values()) == {tree("out")["Ünï.tsv"]}


def test_a_name_that_leaves_no_room_for_a_record_fails_alone(run: Callable[..., Result]) -> None:
    for name in ("y" * 250 + ".tsv", "a.tsv"):
        Path("in", name).write_bytes(lines(sentences(5, 2)))
    result = run(*JOB)
    assert (result.code, "File name too long" in result.err, "1 of 2 files not done" in result.err) == (1, True, True)
    assert {*tree("out")} == {"a.tsv"}


def test_a_file_that_is_named_after_anothers_bad_rows(run: Callable[..., Result]) -> None:
    """Whatever names they have, no two files of a job write to the same."""
    rows = b'{"s": "das haus", "t": "the house"}\n' * 200
    names = ["a.jsonl", "a.jsonl.bad.jsonl", "a.jsonl.bad.jsonl.bad.jsonl", ".a.jsonl"]
    for n, name in enumerate(names):
        Path("in", name).write_bytes(rows + b"bad\n" * (n + 1))
    job = ("jobs", "-q", "in/*", "in/.a.jsonl", "--columns", "s,t", "--bad-lines", "blank")
    result = run(*job, "--output", "out", "--workers", 3)
    assert (result.code, result.err) == (0, "")
    for n, name in enumerate(names):
        assert Path("out", name).read_bytes().count(b"\n") == 201 + n
        assert Path("out/_run", f"{name}.bad.jsonl").read_bytes().count(b"\n") == n + 1
    assert not list(Path("out").glob("**/*.part"))
    places = ("a.jsonl", "a.jsonl.bad.jsonl", "_run/a.jsonl.bad.jsonl", "_run/a.jsonl.json", "_run/run.json")
    Path("other/_run").mkdir(parents=True)
    with ExitStack() as stack:  # at the same time
        for place in places:
            stack.enter_context(whole_file(f"other/{place}")).write(place.encode())
    assert {place: Path("other", place).read_text() for place in places} == {place: place for place in places}


def test_no_input_is_replaced_by_its_results(run: Callable[..., Result]) -> None:
    text = lines(sentences(5, 2))
    Path("in/a.tsv").write_bytes(text)
    os.symlink("in", "link")
    Path("in/links").mkdir()
    for name, folder in (("in/a.tsv", "in"), ("in/a.tsv", "link"), ("link/a.tsv", "in"), ("in/../in/a.tsv", "./in/")):
        result = run("jobs", name, "--output", folder)
        assert (result.code, f"-o would replace the input {name}" in result.err) == (2, True)
    assert run("jobs", "-q", "in/*", "--output", "in/links").code == 0
    assert run("jobs", "-q", "in/*", "--output", "in/links").code == 0
    Path("out/in").mkdir(parents=True)
    os.rename("in/a.tsv", "out/in/a.tsv")
    assert run("jobs", "-q", "out/in/*", "--output", "out").code == 0
    assert {*tree("out")} == {"a.tsv"}
    Path("out/b.tsv").write_bytes(text)
    os.symlink("../out/b.tsv", "in/b.tsv")
    assert run("jobs", "-q", "in/b.tsv", "--output", "out").code == 2
    assert Path("out/b.tsv").read_bytes() == text


@pytest.mark.parametrize("folder", ["file", "file/below", "/proc/none"])
def test_folders_that_cannot_be_made(run: Callable[..., Result], folder: str) -> None:
    Path("file").touch()
    Path("in/a.tsv").write_bytes(lines(sentences(5, 2)))
    result = run("jobs", "-q", "in/a.tsv", "--output", folder)
    assert (result.code, f"{folder}/_run: cannot write: " in result.err) == (1, True)


def test_all_that_is_blank_is_read_where_the_model_says(run: Callable[..., Result]) -> None:
    Path("in/a.tsv").write_bytes(b"\t\n" * 3)
    Path("toy/model.toml").write_text('source = "de"\ntarget = "en"\n')  # without layer and head
    result = run(*JOB)
    assert (result.code, tree("out")) == (0, {"a.tsv": b"\n\n\n"})
