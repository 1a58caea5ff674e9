"""`extract-align combine` from the outside: exact bytes, and every kind of bad input."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from align.cli import combine
from tests.cli.conftest import Run, Write, failed

FORWARD = "0-0 1-1 2-1\n\n0-0\n"
REVERSE = "0-0 1-1 1-2\n\n1-1\n"
INTERSECTION = b"0-0 1-1\n\n\n"
UNION = b"0-0 1-1 1-2 2-1\n\n0-0 1-1\n"
BOTH = ("forward", "reverse")


@pytest.fixture
def run(run_main: Run, write: Write) -> Run:
    """The command, in a folder with the links of two directions."""
    write(forward=FORWARD, reverse=REVERSE)
    return partial(run_main, combine.main)


# What comes out


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("intersection", INTERSECTION),
        ("union", UNION),
        ("moses-grow-diag", b"0-0 1-1 1-2 2-1\n\n\n"),
        ("lilt-grow-diag-final", b"0-0 1-1\n\n0-0 1-1\n"),
    ],
)
def test_bytes_of_the_methods(run: Run, method: str, expected: bytes) -> None:
    assert run(*BOTH, "--symmetrize", method, "-q") == (0, expected, "")


def test_the_reverse_file_may_have_the_target_first(run: Run, write: Write) -> None:
    write(reverse="0-0 1-1 2-1\n\n1-1\n", forward="0-0 1-1 2-1\n\n0-3\n")
    assert run(*BOTH, "-q", "--reverse-swapped").out == b"0-0 1-1 1-2 2-1\n\n0-3 1-1\n"
    assert run(*BOTH, "-q").out == b"0-0 1-1 2-1\n\n0-3 1-1\n"


def test_the_same_links_in_other_forms(run: Run, write: Write) -> None:
    write(forward='0-0 1-1 2p1\n\n{"links": [[0, 0]]}\n', reverse="\ufeff1-2:0.9\t0-0  1p1 1-1\r\n \n1-1")
    assert run(*BOTH, "-q") == (0, UNION, "")


@pytest.mark.parametrize(
    ("reverse", "reading"),
    [
        ("3-0 5-1", "the sides of the second swapped"),
        ("1-4 2-6", "its indices one lower"),
        ("0-3 1-5", ""),
        ("0-2", ""),
    ],
)
def test_readings_that_agree_on_more(run: Run, write: Write, reverse: str, reading: str) -> None:
    write(forward="0-3 1-5\n" * 20, reverse=f"{reverse}\n" * 20)
    expected = f"warning: forward and reverse have 0 links in common, and 40 with {reading}: " if reading else ""
    assert expected in (err := run(*BOTH).err)
    assert ("in common" in err) == bool(reading)
    write(forward="0-3 1-5\n" * 5, reverse=f"{reverse}\n" * 5)
    assert "in common" not in run(*BOTH).err  # ten links more may be chance


def test_readings_of_files_that_are_averaged(run: Run, write: Write) -> None:
    write(forward="0-3 1-5\n" * 20, reverse="0-3:0.9 1-5\n" * 20, third="3-0:0.8 5-1\n" * 20)
    (warning,) = run("-q", "--symmetrize", "mean", *BOTH, "third").err.splitlines()
    assert "warning: forward and third have 0 links in common, and 40 with the sides of the second swapped: " in warning
    assert "--reverse-swapped" not in warning  # which a mean does not take


# What is refused: file and line, after the lines before it


@pytest.mark.parametrize(
    ("files", "out", "parts"),
    [
        ({"reverse": "0-0\n"}, b"0-0 1-1 2-1\n", ("forward has 3 lines, reverse has 1",)),
        ({"reverse": "0-0\n0-x\n\n"}, b"0-0 1-1 2-1\n", ("reverse, line 2: '0-x' is not a link such as 0-3",)),
        ({"forward": b"\xff\n"}, b"", ("forward, line 1: not UTF-8",)),
    ],
)
def test_files_that_do_not_fit(
    run: Run, write: Write, tmp_path: Path, files: dict[str, bytes | str], out: bytes, parts: tuple[str, ...]
) -> None:
    write(**files)
    result = run(*BOTH)
    failed(result, *parts)
    assert result.out == out
    failed(run(*BOTH, "-o", "out"), *parts)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["forward", "reverse"]


# Means


def test_means_of_files(run: Run, write: Write) -> None:
    write(third='0-0:0.4 1-1:0.9\n\n{"links": [[1, 1]], "scores": [0.8]}\n')
    mean = "-q", "--symmetrize", "mean"
    files = *BOTH, "third"
    assert run(*mean, *files) == (0, b"0-0 1-1\n\n1-1\n", "")
    assert run(*mean, *files, "--print-scores", "--threshold", "0.3").out == (
        b"0-0:0.80 1-1:0.97 1-2:0.33 2-1:0.33\n\n0-0:0.33 1-1:0.60\n"
    )
    assert run(*mean, *files, "--weights", "1,1,8").out == b"0-0 1-1\n\n1-1\n"
    assert run(*mean, *files, "--weights", "8,1,1").out == b"0-0 1-1 2-1\n\n0-0\n"
    assert "\nalign|combine|mean|weights:1,1,1|threshold:0.5|" in run(*mean[1:], *files).err
