"""Output files and signals: what is refused before the work, what stays when a run ends early, what messages name."""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import resource
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import align.models.load
from align.cli import extract
from align.core.errors import DataError
from align.io import process
from align.io.output import open_output, temporary_name
from tests import toy
from tests.cli.conftest import Run, Write, failed

TEXT = "das haus ||| the house\n"


@pytest.fixture
def run(run_main: Run, write: Write, tmp_path: Path) -> Run:
    """The command with a toy model, in a folder with a text."""
    toy.save_model(tmp_path / "toy")
    write(text=TEXT)
    return partial(run_main, extract.main, "-q", "-m", "toy/checkpoint.pt")


@pytest.fixture
def unloaded(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The same where no model may be loaded: what is wrong must be said before."""

    def load(*arguments: Any, **options: Any) -> None:
        raise AssertionError("the model was loaded first")

    monkeypatch.setattr(align.models.load, "load", load)
    return run


# Said before the model is loaded


def test_what_cannot_be_written_is_said_first(unloaded: Run, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("no/such/links")
    failed(unloaded("text", "-o", "link"), "error: link: cannot write: No such file")
    failed(unloaded("text", "-o", "no/such/links"), "error: no/such/links: cannot write: No such file")
    (tmp_path / "kept").touch(0o444)
    failed(unloaded("text", "-o", "kept"), "error: kept: is read-only: remove it, or write to another file")
    assert sorted(os.listdir(tmp_path)) == ["kept", "link", "text", "toy"]


def test_input_and_output_are_one_file(unloaded: Run, tmp_path: Path) -> None:
    command = f"{sys.executable} -m align -q"
    environment = {**os.environ, "PYTHONPATH": str(Path(align.__file__).parents[1])}
    (tmp_path / "other").hardlink_to(tmp_path / "text")
    for how, message in (
        ("< text -o other", "-o would replace the input on stdin"),
        ("/dev/fd/3 3< text -o text", "-o would replace the input /dev/fd/3"),
        ("text >> text", "stdout is the input file"),
        ("-s text -t - < other >> text", "stdout is the input file"),
    ):
        result = subprocess.run(f"{command} {how}", shell=True, capture_output=True, text=True, env=environment)
        assert result.returncode == 2, how
        assert message in result.stderr, how
        assert (tmp_path / "text").read_text(encoding="utf-8") == TEXT
    assert unloaded("text", "-o", "./other").code == 2


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_errors_of_writing_are(tmp_path: Path, suffix: str) -> None:
    """Files of over 100 kB cannot be written for a moment, which is what a full disk looks like."""
    path = str(tmp_path / f"links{suffix}")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match="cannot write: File too large") as error, open_output(path) as out:
            out.write(os.urandom(1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert error.value.filename == path
    assert os.listdir(tmp_path) == []


# What a killed run leaves, and runs at the same time


def test_two_runs_do_not_mix(tmp_path: Path) -> None:
    path = str(tmp_path / "links")
    with open_output(path) as out:
        out.write(b"of the first")
        with pytest.raises(DataError, match=f"^{path}: another run is already writing this$"), open_output(path):
            pass
    assert (tmp_path / "links").read_bytes() == b"of the first"
    with open_output(path) as out:
        out.write(b"of the next")
    assert (tmp_path / "links").read_bytes() == b"of the next"


# Signals


def test_signals_become_exceptions_and_handlers_come_back() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    for number, code in zip(numbers, (None, 143, 129), strict=True):
        with pytest.raises((KeyboardInterrupt, SystemExit)) as stop, process.stopped_by_signals():
            os.kill(os.getpid(), number)
        assert getattr(stop.value, "code", None) == code
        assert [signal.getsignal(number) for number in numbers] == before


# Names of files that are not complete


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "links").write_bytes(b"old")
    with open_output(str(tmp_path / "links")) as out:
        out.write(b"new")
        out.flush()
        assert (tmp_path / "links").read_bytes() == b"old"
    assert (tmp_path / "links").read_bytes() == b"new"

    def stop() -> None:
        with open_output(str(tmp_path / "links")) as out:
            out.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert (tmp_path / "links").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["links"]


@pytest.mark.parametrize("locks", [True, False])
def test_what_a_killed_run_left_is_used_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: bool) -> None:
    if not locks:
        monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
    (tmp_path / ".links.part").write_bytes(b"mine")  # not a temporary file
    Path(temporary_name(str(tmp_path / "links"))).write_bytes(b"half a line, longer than what comes now")
    with open_output(str(tmp_path / "links")) as out:
        out.write(b"links")
    assert (tmp_path / "links").read_bytes() == b"links"
    assert (tmp_path / ".links.part").read_bytes() == b"mine"
    assert sorted(os.listdir(tmp_path)) == [".links.part", "links"] or not locks


def test_what_is_in_the_way_is_neither_followed_nor_removed(tmp_path: Path) -> None:
    precious, part = tmp_path / "precious", Path(temporary_name(str(tmp_path / "links")))
    precious.write_bytes(b"precious")
    for make in (
        lambda: part.hardlink_to(precious), lambda: part.symlink_to(precious), lambda: os.mkfifo(part), part.mkdir
    ):  # fmt: skip
        make()
        refused = pytest.raises(OSError, match=r"did not create it|symbolic links|Is a directory")
        with refused as error, open_output(str(tmp_path / "links")):
            pass
        assert error.value.filename == str(part)
        assert (precious.read_bytes(), (tmp_path / "links").exists()) == (b"precious", False)
        part.rmdir() if part.is_dir() else part.unlink()


def test_packed_files_are_the_same_bytes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, time in (("a.gz", 1e9), ("b.gz", 2e9)):
        monkeypatch.setattr("time.time", lambda time=time: time)
        with open_output(str(tmp_path / name)) as out:
            out.write(b"links\n" * 1000)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"links\n" * 1000
