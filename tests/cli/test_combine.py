"""`extract-align combine` from the outside: exact bytes, and every kind of bad input."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

import align
from align.cli import combine
from align.evaluation.dialects import read_two
from tests.cli.conftest import Result, failed
from tests.conftest import ROOT, SHARED

GOLDEN = ROOT / "tests" / "golden" / "symmetrize"
HANSARDS = SHARED / "gold" / "enfr-hansards447" / "lilt-baselines" / "fastalign"

FORWARD = "0-0 1-1 2-1\n\n0-0\n"
REVERSE = "0-0 1-1 1-2\n\n1-1\n"
INTERSECTION = b"0-0 1-1\n\n\n"
UNION = b"0-0 1-1 1-2 2-1\n\n0-0 1-1\n"
BOTH = ("forward", "reverse")


@pytest.fixture
def run(run_main: Callable[..., Result], write: Callable[..., None]) -> Callable[..., Result]:
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
def test_bytes_of_the_methods(run: Callable[..., Result], method: str, expected: bytes) -> None:
    assert run(*BOTH, "--symmetrize", method, "-q") == (0, expected, "")


def test_stderr_says_what_was_done(run: Callable[..., Result]) -> None:
    result = run(*BOTH)
    assert (result.code, result.out) == (0, UNION)
    first, *rest = result.err.splitlines()
    assert first.startswith("extract-align combine: 3 lines, 1 without links, ")
    assert rest == [f"align|combine|grow-diag-final-and|v:{align.__version__}"]


def test_a_message_is_one_line_whatever_a_file_is_called(run: Callable[..., Result]) -> None:
    name = "a\nextract-align combine: error: b"
    failed(run("forward", name), r"a\nextract-align combine: error: b: No such file or directory")


def test_formats(run: Callable[..., Result]) -> None:
    assert run(*BOTH, "-q", "-f", "talp").out == UNION


def test_the_reverse_file_may_have_the_target_first(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(reverse="0-0 1-1 2-1\n\n1-1\n", forward="0-0 1-1 2-1\n\n0-3\n")
    assert run(*BOTH, "-q", "--reverse-swapped").out == b"0-0 1-1 1-2 2-1\n\n0-3 1-1\n"
    assert run(*BOTH, "-q").out == b"0-0 1-1 2-1\n\n0-3 1-1\n"


def test_the_same_links_in_other_forms(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(reverse="\ufeff1-2:0.9\t0-0  1p1 1-1\r\n \n1-1")
    assert run(*BOTH, "-q") == (0, UNION, "")


def test_ways_in_and_out(run: Callable[..., Result], tmp_path: Path) -> None:
    assert run("-q", "forward", "-", stdin=REVERSE).out == UNION
    assert run("-q", "-", "reverse", stdin=FORWARD).out == UNION
    (tmp_path / "packed.gz").write_bytes(gzip.compress(REVERSE.encode()))
    assert run("-q", "forward", "packed.gz", "-o", "out.gz") == (0, b"", "")
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == UNION


def test_empty_files(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(forward="", reverse="")
    assert run(*BOTH, "-q") == (0, b"", "")


def test_lines_are_read_as_they_are_needed() -> None:
    taken = []

    def endless(name: str) -> Iterator[str]:
        while True:
            taken.append(name)
            yield "0-0"

    links = read_two(endless("forward"), endless("reverse"), ("forward", "reverse"))
    assert list(islice(links, 3)) == [({(0, 0)}, {(0, 0)})] * 3
    assert taken == ["forward", "reverse"] * 3


# What is refused: file and line, after the lines before it


@pytest.mark.parametrize(
    ("files", "out", "parts"),
    [
        ({"reverse": "0-0\n"}, b"0-0 1-1 2-1\n", ("forward has 3 lines, reverse has 1",)),
        ({"reverse": REVERSE + "\n"}, UNION, ("forward has 3 lines, reverse has 4",)),
        ({"reverse": "0-0\n0-x\n\n"}, b"0-0 1-1 2-1\n", ("reverse, line 2: '0-x' is not a link such as 0-3",)),
        ({"forward": b"\xff\n"}, b"", ("forward, line 1: not UTF-8",)),
    ],
)
def test_files_that_do_not_fit(
    run: Callable[..., Result],
    write: Callable[..., None],
    tmp_path: Path,
    files: dict[str, bytes | str],
    out: bytes,
    parts: tuple[str, ...],
) -> None:
    write(**files)
    result = run(*BOTH)
    failed(result, *parts)
    assert result.out == out
    failed(run(*BOTH, "-o", "out"), *parts)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["forward", "reverse"]


def test_files_that_are_not_there(run: Callable[..., Result]) -> None:
    for arguments in (("forward", "gone"), ("gone", "reverse")):
        result = run(*arguments)
        failed(result, "extract-align combine: error: gone: No such file or directory")
        assert result.out == b""
    failed(run("forward", "."), ".: Is a directory")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required: FILE"),
        (("-", "-"), "only one of the files can be stdin"),
        ((*BOTH, "-f", "jsonl"), "invalid choice: 'jsonl' (choose from 'pharaoh', 'talp')"),
        ((*BOTH, "--symmetrize", "forward"), "invalid choice: 'forward'"),
        ((*BOTH, "-o", "forward"), "-o would replace the input forward"),
    ],
)
def test_wrong_usage_is_exit_code_2(run: Callable[..., Result], arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, b"")
    assert result.err.endswith("extract-align combine --help lists all options\n")
    assert message.replace("'", "") in result.err.replace("'", "")  # which later Pythons leave out


def test_files_that_do_not_go_together(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(forward=100 * "0-3 1-4 2-5\n", reverse=100 * "3-0 4-1 5-2\n")
    result = run(*BOTH, "-q")
    assert result.code == 0
    assert "0 links in common, and 300 with the sides of the second swapped" in result.err
    write(reverse=100 * "1-4 2-5 3-7\n")
    assert run(*BOTH, "-q").err == ""


# Means


def test_means_of_files(run: Callable[..., Result], write: Callable[..., None]) -> None:
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("forward", "expected two files: forward and reverse links"),
        ("forward reverse forward", "expected two files: forward and reverse links"),
        ("forward --symmetrize mean", "expected two or more files of links"),
        ("forward reverse --symmetrize mean --weights 1", "1 weights for 2 files"),
        (
            "forward reverse --symmetrize mean --weights 1e308,1e308",
            "--weights: expected numbers above 0 with commas between, found '1e308,1e308'",
        ),
        (
            "forward reverse --symmetrize mean --weights 1,0",
            "expected numbers above 0 with commas between, found '1,0'",
        ),
        ("forward reverse --weights 1,2", "--weights requires --symmetrize mean"),
        ("forward reverse --threshold 0.4", "--threshold requires --symmetrize mean"),
        ("forward reverse --reverse-swapped --symmetrize mean", "has no effect with --symmetrize mean"),
    ],
)
def test_wrong_use_of_means(run: Callable[..., Result], arguments: str, message: str) -> None:
    result = run(*arguments.split())
    assert (result.code, result.out) == (2, b"")
    assert message in result.err


def test_means_of_files_of_other_lengths(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(short="0-0\n")
    failed(run(*BOTH, "short", "--symmetrize", "mean"), "short")
