"""Commands in this process: what they print, and how they fail."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from align.cli.extract import Extraction
from align.core.types import Alignment
from align.io import checks


class Result(NamedTuple):
    code: int
    out: bytes
    err: str


Run = Callable[..., Result]
"""Runs a command with arguments."""

Write = Callable[..., None]
"""Writes files, named by keyword."""


@pytest.fixture
def run_main(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Calls a command's `main` with arguments and stdin."""

    def call(main: Callable[[], int], *arguments: object, stdin: bytes | str = b"") -> Result:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["command", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        capfdbinary.readouterr()
        try:
            code = main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Result(code, out, err.decode())

    return call


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Write:
    """Writes files into an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)

    def put(**files: bytes | str) -> None:
        for name, text in files.items():
            (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)

    return put


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves bad lines to be found where they stand, after the lines before them are aligned."""
    monkeypatch.setattr(checks, "FIRST_LINES", 0)


@contextmanager
def stopped_at(number: int, stop: Callable[[], object]) -> Iterator[None]:
    """Calls `stop`, which raises or kills, as the alignment of a line is to be written."""
    write = Extraction.write

    def write_until(self: Extraction, alignment: Alignment) -> str:
        if alignment.pair.id == number:
            stop()
        return write(self, alignment)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Extraction, "write", write_until)
        yield


def printed(result: Result, *lines: str, err: str = "") -> None:
    """These lines on stdout, exit code 0."""
    assert (result.code, result.err) == (0, err)
    assert result.out.decode() == "\n".join(lines) + "\n"


def failed(result: Result, *parts: str) -> None:
    """Exit code 1, one line on stderr with these parts, no traceback."""
    assert result.code == 1
    errors = [line for line in result.err.splitlines() if ": error: " in line]
    assert len(errors) == 1
    assert "Traceback" not in result.err
    for part in parts:
        assert part in errors[0]
