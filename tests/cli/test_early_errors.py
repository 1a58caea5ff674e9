"""Errors that need no model come before one is loaded, and before anything is written."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from align.cli import extract, sweep, transfer
from align.io import checks
from tests.cli.conftest import Run, Write, failed

XML = ("--tags", "xml")


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*arguments: Any) -> Any:
        pytest.fail("the model is loaded")

    monkeypatch.setattr(extract, "load_aligner", load)
    monkeypatch.setattr(transfer, "load_aligner", load)
    monkeypatch.setattr(sweep, "load_models", load)


@pytest.mark.parametrize("program", [extract, sweep, transfer])
def test_files_of_different_lengths(program: Any, run_main: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    options = XML if program is transfer else ()
    for lines in (10_000, 0):
        monkeypatch.setattr(checks, "FIRST_LINES", lines)
        write(a="a\n" * 30, **{"b.gz": gzip.compress(b"b\n" * 28 + b"b")})
        result = run_main(program.main, *options, "-s", "a", "-t", "b.gz", "-o", "out.tsv")
        failed(result, "a has 30 lines, b.gz has 29: line 30 has no counterpart")
        assert not Path("out.tsv").exists()


@pytest.mark.parametrize(
    ("program", "options", "text", "error"),
    [
        (extract, (), b"a ||| b\na b\n", "x, line 2: no ||| and no TAB"),
        (sweep, (), b"a ||| b\na b\n", "x, line 2: no ||| and no TAB"),
        (transfer, XML, b"<b>a</b> ||| b\n<b>a ||| b\n", "x, line 2: not well-formed XML"),
    ],
)
def test_bad_lines(program: Any, options: Sequence[str], text: bytes, error: str, run_main: Run, write: Any) -> None:
    write(x=text)
    failed(run_main(program.main, *options, "x", "-o", "out.tsv"), error)
    assert os.listdir() == ["x"]
