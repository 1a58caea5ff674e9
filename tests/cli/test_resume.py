"""`extract-align --resume`: stopped anywhere it goes on to the same bytes, or says why it does not."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import signal
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from align.cli import extract
from align.models.link_scorer import read_scorer
from tests import toy
from tests.cli.conftest import Result, Run, Write, failed, stopped_at
from tests.scale.jobs import sentences

pytestmark = pytest.mark.usefixtures("one_thread", "unchecked")

FORWARD, REVERSE = "toys/de-en/checkpoint.pt", "toys/en-de"


LINES = [f"{source} ||| {target}" if source else "" for source, target in sentences(130, 5)]
LINES[4] = "das ||| "


@pytest.fixture
def run(run_main: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command with a toy model and small buffers, each of them a shard."""
    monkeypatch.setattr(extract, "BUFFERS", 1)
    toy.save_model(tmp_path / "toys" / "de-en", {"max_target_positions": 12})  # translations end there
    toy.save_reverse_model(tmp_path / "toys" / "en-de")
    sides = [[line.split(" ||| ")[side] if " ||| " in line else line for line in LINES] for side in (0, 1)]
    for name, lines in (("text", LINES), ("de", sides[0]), ("en", sides[1])):
        write(**{name: "\n".join(lines) + "\n"})
    (tmp_path / "de.gz").write_bytes(gzip.compress((tmp_path / "de").read_bytes()))
    return partial(run_main, extract.main, "-m", FORWARD, "--buffer", 20, "--device", "cpu")


def stop(run: Run, at: int, *arguments: object) -> Result:
    """Run, and interrupt as a line is to be written."""
    with stopped_at(at, Mock(side_effect=KeyboardInterrupt)):
        result = run("-q", *arguments, "--resume")
    assert result.code == 130
    return result


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("links", ("text", "--print-scores")),
        ("links", ("-s", "de", "-t", "en", "-f", "naacl", "--print-scores")),
        ("links.gz", ("text", "-f", "giza")),
        ("links", ("text", "-f", "tsv", "--bad-lines", "drop")),
        ("links.gz", ("text", "--reverse-model", REVERSE, "--symmetrize", "union", "-f", "jsonl")),
        ("links.zst", ("text", "--words", "characters")),
        ("links.xz", ("-s", "de.gz", "--translate", "--beam", 1, "-f", "jsonl")),
    ],
)
def test_stopped_it_goes_on_to_the_same_bytes(
    run: Run, tmp_path: Path, arguments: tuple[object, ...], name: str
) -> None:
    plain = run(*arguments, "-o", f"plain{name}")
    assert plain.code == 0
    before = set(os.listdir(tmp_path))
    for at in (37, 95, 130):
        stop(run, at, *arguments, "-o", name)
        assert set(os.listdir(tmp_path)) - before == {f"{name}.parts"}
    result = run(*arguments, "-o", name, "--resume")
    assert result.code == 0
    assert f"extract-align: 120 lines are done in {name}.parts\n" in result.err
    results = [name, f"{name}.kept"] if "drop" in arguments else [name]
    for file in results:
        assert (tmp_path / file).read_bytes() == (tmp_path / f"plain{file}").read_bytes()
    assert set(os.listdir(tmp_path)) - before == {*results, f"{name}.run.json"}
    assert run("-q", *arguments, "-o", name, "--resume") == (0, b"", "")
    counts, sign = result.err.splitlines()[-2:]
    assert counts.rpartition(", ")[0] == plain.err.replace("plain", "").splitlines()[-2].rpartition(", ")[0]
    assert sign == plain.err.splitlines()[-1]


@pytest.mark.parametrize("moment", ["at line 95", "before the result is in place", "after it"])
def test_killed_it_goes_on_to_the_same_bytes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    assert run("-q", "text", "-o", "plain").code == 0
    replace = os.replace

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def replace_until(source: str, target: str) -> None:
        if target == "links" and moment == "before the result is in place":
            kill()
        replace(source, target)
        if target == "links":
            kill()

    with monkeypatch.context() as patch, stopped_at(95 if moment == "at line 95" else 0, kill):
        patch.setattr(os, "replace", replace_until)
        context = multiprocessing.get_context("fork")
        process = context.Process(target=run, args=("-q", "text", "-o", "links", "--resume"))
        process.start()
        process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert (tmp_path / "links").exists() == (moment == "after it")
    assert run("-q", "text", "-o", "links", "--resume") == (0, b"", "")
    assert (tmp_path / "links").read_bytes() == (tmp_path / "plain").read_bytes()
    assert not (tmp_path / "links.parts").exists()


def test_only_a_shard_with_a_marker_is_finished(run: Run, tmp_path: Path) -> None:
    run("-q", "text", "-o", "plain")
    stop(run, 95, "text", "-o", "links")
    parts = tmp_path / "links.parts"
    os.unlink(parts / "00004.json")
    (parts / "00004").write_bytes(b"half a li")
    assert "60 lines are done in links.parts" in run("text", "-o", "links", "--resume").err
    assert (tmp_path / "links").read_bytes() == (tmp_path / "plain").read_bytes()
    stop(run, 15, "text", "-o", "next")  # before the first shard was finished
    assert not (tmp_path / "next.parts").exists()


# What is of another run


@pytest.mark.parametrize("finished", [False, True])
def test_another_run_is_refused_and_nothing_is_lost(run: Run, write: Write, tmp_path: Path, finished: bool) -> None:
    made = "links" if finished else "links.parts"
    if finished:
        assert run("-q", "text", "-o", "links", "--resume").code == 0
    else:
        stop(run, 95, "text", "-o", "links")
    again = ("-q", "text", "-o", "links", "--resume")
    advice = f": restore the settings, or remove {made} to start again"
    for options, change in (
        (("--print-scores",), "scores: False → True"),
        (("--layer", 1), "layer:auto → layer:1"),
        (("--scorer", "none"), f"settings: scorer:{read_scorer().digest} → none"),
        (("--buffer", 10), "buffer: 20 → 10"),
        (("-f", "jsonl"), "format: pharaoh → jsonl"),
        (("--bad-lines", "blank", "--bad-lines-file", "bad"), "bad-lines-file: None → bad"),
    ):
        failed(run(*again, *options), f"error: {made}: was made with other settings (", change, advice)
    calibration = tmp_path / "toys" / "de-en" / "model.toml"
    calibration.write_text("[calibration.input]\nnorm = { layer = 2, head = 1 }\n", encoding="utf-8")
    failed(run(*again), "calibration: None → input layer 2, head 1)")
    calibration.unlink()
    before = (tmp_path / "text").read_bytes()
    about = os.stat("text")
    write(text=before + b"\n")
    failed(run(*again), "(input text: ", " bytes, changed at ", advice)
    write(text=before)
    failed(run(*again), "(input text: ", " bytes, changed at ", advice)  # the time differs
    os.utime("text", ns=(about.st_atime_ns, about.st_mtime_ns))
    assert run(*again).code == 0
    assert (tmp_path / "links").read_bytes() == run("-q", "text").out


def test_what_is_missing_is_named(run: Run, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    failed(
        run("-s", "de", "-t", "no-such-file", "-o", "links", "--resume"),
        "error: no-such-file: No such file or directory",
    )
    result = run("-", "-o", "links", "--resume", stdin="")
    assert (result.code, "which can be read again, not stdin or a pipe" in result.err) == (2, True)
    assert sorted(tmp_path.iterdir()) == before


def test_files_of_others_are_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "links").write_bytes(b"other")
    failed(run("-q", "text", "-o", "links", "--resume"), "error: links: exists, but has no record of its run")
    assert (tmp_path / "links").read_bytes() == b"other"
    os.unlink("links")
    (tmp_path / "links.parts").write_bytes(b"other")
    failed(run("-q", "text", "-o", "links", "--resume"), "links.parts: File exists")
    os.unlink("links.parts")
    assert run("-q", "text", "-o", "links", "--resume").code == 0
    (tmp_path / "links.run.json").write_bytes(b"[1]")
    failed(run("-q", "text", "-o", "links", "--resume"), "links.run.json: is not a record of extract-align: remove it")


def test_its_own_files_are_no_input_and_no_list(run: Run) -> None:
    stop(run, 37, "text", "-o", "links")
    for own, arguments in (
        ("links.parts/00001", ("links.parts/00001",)),
        ("./links.run.json", ("text", "--bad-lines", "blank", "--bad-lines-file", "./links.run.json")),
    ):
        result = run("-q", *arguments, "-o", "links", "--resume")
        assert (result.code, f"this run writes {own} itself: name another file\n" in result.err) == (2, True)
    result = run("-q", "text", "-o", "links", "--bad-lines", "drop", "--bad-lines-file", "links.kept")
    assert (result.code, "this run writes links.kept itself: name another file\n" in result.err) == (2, True)
