"""Errors that need no model come before one is loaded, and before anything is written."""

from __future__ import annotations

import gzip
import lzma
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from align.cli import baseline, extract, sweep, transfer
from align.core.errors import DataError
from align.io import checks
from align.io.compression import import_zstd
from align.io.reader import in_step
from tests.cli.conftest import Result, failed

zstd = import_zstd()

XML, BIO, SPANS = ("--tags", "xml"), ("--tags", "bio"), ("--tags", "spans")


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*arguments: Any) -> Any:
        pytest.fail("the model is loaded")

    monkeypatch.setattr(extract, "load_aligner", load)
    monkeypatch.setattr(transfer, "load_aligner", load)
    monkeypatch.setattr(sweep, "load_models", load)
    monkeypatch.setattr(baseline, "align", load, raising=False)


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize("program", [extract, sweep, transfer])
def test_files_of_different_lengths(
    program: Any, run_main: Callable[..., Result], write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = XML if program is transfer else ()
    for lines in (10_000, 0):
        monkeypatch.setattr(checks, "FIRST_LINES", lines)
        write(a="a\n" * 30, **{"b.gz": gzip.compress(b"b\n" * 28 + b"b")})
        result = run_main(program.main, *options, "-s", "a", "-t", "b.gz", "-o", "out.tsv")
        failed(result, "a has 30 lines, b.gz has 29: line 30 has no other side")
        assert not Path("out.tsv").exists()


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    ("program", "options", "text", "error"),
    [
        (extract, (), b"a ||| b\na b\n", "x, line 2: no ||| and no TAB"),
        (extract, ("--translate",), b"a\n\xff\n", "x, line 2: not UTF-8"),
        (sweep, (), b"a ||| b\na b\n", "x, line 2: no ||| and no TAB"),
        (transfer, XML, b"<b>a</b> ||| b\n<b>a ||| b\n", "x, line 2: not well-formed XML"),
        (transfer, SPANS, b'{"text": "a", "labels": [], "target": "b"}\n{"text": "a"}\n', "x, line 2: none of labels"),
    ],
)
def test_bad_lines(
    program: Any, options: Sequence[str], text: bytes, error: str, run_main: Callable[..., Result], write: Any
) -> None:
    write(x=text)
    output = ("-o", "out.tsv") if program is sweep else ("-o", "out")
    failed(run_main(program.main, *options, *(("-s",) if "--translate" in options else ()), "x", *output), error)
    assert os.listdir() == ["x"]


@pytest.mark.usefixtures("no_model")
def test_labels_in_columns(run_main: Callable[..., Result], write: Any) -> None:
    write(s="a\tO\n\nb\tX\n", t="a\nb\n")
    failed(run_main(transfer.main, *BIO, "-s", "s", "-t", "t"), "s, line 3: 'X' is not a label")
    write(s="a\tO\n\nb\tO\n", t="a\n")
    failed(run_main(transfer.main, *BIO, "-s", "s", "-t", "t"), "s (sentences) has 2 lines, t has 1")


def test_links_of_another_length(run_main: Callable[..., Result], write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "FIRST_LINES", 0)
    write(s="a\nb\n", t="a\nb\n", l="0-0\n", x="a ||| b\na ||| b\n")
    for files, first in ((("-s", "s", "-t", "t"), "s"), (("x",), "x")):
        result = run_main(transfer.main, *XML, *files, "--links", "l")
        failed(result, f"{first} has 2 lines, l has 1: line 2 has no other side")
        assert not result.out


def test_a_pipe_is_read_once(run_main: Callable[..., Result], write: Any, tmp_path: Path) -> None:
    write(t="a\nb\n", l="0-0\n0-0\n", s="<b>a</b>\n<b>b</b>\n")
    result = run_main(transfer.main, "-q", *XML, "-s", "-", "-t", "t", "--links", "l", stdin="<b>a</b>\n<b>b</b>\n")
    assert (result.code, result.out) == (0, b"<b>a</b>\n<b>b</b>\n")
    assert not checks.are_regular(["t", "/dev/null"])
    assert not checks.are_regular(["-"])
    assert checks.are_regular(["t", "l"])


@pytest.mark.parametrize("text", [b"", b"\n", b"a", b"a\nb", b"a\n\n", b"a\r\n\r"])
def test_lines_are_counted_as_they_are_read(text: bytes, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(text.splitlines(keepends=True)) if b"\r" not in text else 2
    write(x=text, **{"x.gz": gzip.compress(text), "same": b"a\n" * count, "more": b"a\n" * (count + 1)})
    checks.check_lengths(["x", "x.gz", "same"])
    with pytest.raises(DataError, match="has no other side"):
        checks.check_lengths(["x", "more"])
    monkeypatch.setattr(checks, "COUNTED_BYTES", 0)
    checks.check_lengths(["x", "more"])


def test_damaged_files_are_not_counted(write: Any) -> None:
    damaged = {
        "a.gz": gzip.compress(b"a\n" * 9)[:-9], "b.xz": lzma.compress(b"a\n")[:-3], "c.zst": zstd.compress(b"a\n")[:-3],
        "d.gz": b"a\n", "e.xz": b"a\n", "f.zst": b"a\n",
    }  # fmt: skip
    write(**damaged)
    write(e="a\n")
    checks.check_lengths([*damaged, "e"])


def test_the_error_is_that_of_reading(write: Any) -> None:
    write(a="a\n" * 3, b="a\n" * 5)
    for names, texts in ((["a", "b"], ["aaa", "aaaaa"]), (["b", "a"], ["aaaaa", "aaa"])):
        with pytest.raises(DataError) as early:
            checks.check_lengths(names)
        with pytest.raises(DataError) as late:
            list(in_step(texts, names))
        assert str(early.value) == str(late.value)


def test_long_lines_end_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    from align import Pair

    monkeypatch.setattr(checks, "FIRST_BYTES", 1000)
    pairs = iter([Pair(("a" * 600,), (), n) for n in range(1, 9)])
    checks.check_first(pairs)
    assert next(pairs).id == 3
