"""`extract-align` from the outside: exact bytes, exit codes, and every kind of bad input."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import json
import lzma
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

import align
from align.cli import common, extract
from align.cli.loading import read_request
from align.io.compression import import_zstd
from tests.cli.conftest import Run
from tests.conftest import EXAMPLES, ROOT
from tests.golden_files import assert_same_but_for_rounding

GOLDEN = ROOT / "tests" / "golden"
MODEL, TEXT = ("-m", GOLDEN / "models" / "de-en", "--scorer", "none"), GOLDEN / "text"
"""The model and the text of golden files; links come from soft scores, which no training changes."""

LINKS = (GOLDEN / "toy.pharaoh").read_bytes()
COMMAND = [sys.executable, "-m", "align"]


@pytest.fixture
def run(run_main: Run) -> Run:
    """The command in this process, which spares importing torch again."""
    return partial(run_main, extract.main)


# What comes out


@pytest.mark.parametrize(
    ("golden", "arguments", "unit"),
    [
        ("toy.pharaoh", (), None),
        ("toy.scores", ("--print-scores",), "0.01"),
        ("toy.jsonl", ("-f", "jsonl"), "0.0001"),
        ("toy.offsets", ("-f", "offsets"), None),
        (
            "toy.weight-output",
            ("--head", "all", "--threshold", "none", "--score", "weight", "--position", "output", "--layer", "2"),
            None,
        ),
        ("toy.null-none", ("--null", "none"), None),
        ("toy.null-mask", ("--position", "input", "--head", "all", "--threshold", "none", "--null", "mask"), None),
        ("toy.two-way", ("--reverse-model", GOLDEN / "models" / "back"), None),
    ],
)
def test_a_toy_model_gives_these_bytes(run: Run, golden: str, arguments: tuple[object, ...], unit: str | None) -> None:
    result = run(*MODEL, TEXT, *arguments)
    assert result.code == 0
    assert_same_but_for_rounding(result.out, (GOLDEN / golden).read_bytes(), unit)


def test_the_bundled_models_align(run: Run) -> None:
    lines = run("-q", EXAMPLES).out.splitlines()
    assert len(lines) == 21
    assert lines[1] == b"0-0 1-1 2-2 3-3 4-5 5-4 6-6 7-7 8-8 9-9"
    assert run("-q", EXAMPLES, "--reverse-model", "en-de").out.splitlines()[1] == lines[1]


def test_all_ways_in_are_one(run: Run, tmp_path: Path) -> None:
    text = TEXT.read_bytes()

    def links(*arguments: object, stdin: bytes = b"") -> bytes:
        return run("-q", *MODEL, *arguments, stdin=stdin).out

    assert links(stdin=text) == LINKS
    assert links("-", stdin=text.replace(b" ||| ", b"\t")) == LINKS
    assert links(stdin=text.replace(b"\n", b"\r\n")) == LINKS
    assert links(stdin=b"\xef\xbb\xbf" + text) == LINKS
    assert links(stdin=text.removesuffix(b"\n")) == LINKS
    for name, pack in (("text.gz", gzip.compress), ("text.xz", lzma.compress), ("text.zst", import_zstd().compress)):
        (tmp_path / name).write_bytes(pack(text))
        assert links(tmp_path / name) == LINKS
    sides = [[line.split(b" ||| ")[n] if line else b"" for line in text.splitlines()] for n in (0, 1)]
    for name, side in zip(("de", "en"), sides, strict=True):
        (tmp_path / name).write_bytes(b"\n".join(side) + b"\n")
    assert links("-s", tmp_path / "de", "-t", tmp_path / "en") == LINKS
    assert links("-s", tmp_path / "de", "-t", "-", stdin=b"\n".join(sides[1])) == LINKS


def test_stderr_says_what_was_done(run: Run) -> None:
    lines = run(EXAMPLES, "--threads", 2, "--device", "cpu").err.splitlines()
    text = r"de \(lower case, moses tokens, sentencepiece pieces\), en .*"
    model = rf"fairseq:de-en-fast@\w+ on cpu \(2 threads\); text: {text}"
    default = "no -m given, so de-en-fast, German to English: "
    assert re.fullmatch(f"extract-align: {default}{model}", lines[0])
    named = run(EXAMPLES, "-m", "de-en-fast", "--threads", 2, "--device", "cpu").err.splitlines()
    assert lines[0].replace(default, "") == named[0]
    assert lines[1] == "extract-align: layer 1, head 1 (the model's own calibration)"
    assert lines[2].startswith("extract-align: 21 lines, 1 blank, 0 bad, ")
    assert lines[3].startswith("align|fairseq:de-en-fast@")
    read = r"\|norm\|layer:auto\(1\)\|head:auto\(1\)\|input\|sum/mean\|null:eos\|threshold:0.5\|scorer:[0-9a-f]{7}"
    assert re.search(rf"{read}\|v:{re.escape(align.__version__)}$", lines[3])
    assert run(EXAMPLES, "-q").err == ""


@pytest.mark.parametrize(
    ("arguments", "expected", "reason"),
    [
        ((), "de-en-fast", ""),
        (("--reverse-model", "en-de"), "de-en", "--reverse-model en-de"),
        (("--layer", "2"), "de-en", "options that say where attention is read"),
        (("--translate",), "de-en", "--translate"),
        (("-m", "en-de"), "en-de", ""),
        (("--source-lang", "en", "--target-lang", "de"), "en-de-fast", ""),
        (("--reverse-model", "de-en-fast"), "en-de-fast", "--reverse-model de-en-fast"),
        (("--source-lang", "eng", "--target-lang", "de-AT"), "en-de-fast", ""),
    ],
)
def test_the_default_model_can_do_what_is_asked(arguments: tuple[str, ...], expected: str, reason: str) -> None:
    parser = extract.build_parser()
    args = parser.parse_command([*arguments, str(EXAMPLES)])
    request = read_request(parser, args, "stop")
    assert (request.name, request.reason) == (expected, reason)


def test_a_bar_on_a_terminal() -> None:
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))  # tqdm shows nothing where it is 0 wide
    with subprocess.Popen([*COMMAND, *MODEL, TEXT], stdout=subprocess.PIPE, stderr=terminal) as process:
        out, _ = process.communicate()
    os.close(terminal)
    seen = b""
    with contextlib.suppress(OSError):  # the end of a pseudo-terminal
        while block := os.read(main, 4096):
            seen += block
    os.close(main)
    assert out == LINKS
    assert b"\rextract-align: choosing layer and head" in seen
    assert re.search(r"\r *\d+%\|[^|]+\| \d+ lines?, [\d,]+ lines/s, 0:00:\d\d left", seen.decode())
    assert b"20 lines, 1 blank" in seen


def test_progress_without_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(common, "REPORT_EVERY", 0.0)
    lines = b"das haus ||| the house\n" * 150
    (tmp_path / "text.gz").write_bytes(gzip.compress(lines))
    arguments = ("--layer", 1, "--head", 1, "--batch-tokens", 100, "--buffer", 100)
    progress = r"\nextract-align: %d lines%s, [\d,]+ lines/s%s\n"
    told = run(*arguments, stdin=lines).err  # after each batch, of a buffer of which nothing is written yet
    assert [bool(re.search(progress % (n, "", ""), told)) for n in (33, 34, 133)] == [True, False, True]
    told = run(*arguments, tmp_path / "text.gz").err
    assert re.search(progress % (133, r" \(88%\)", ", 0:00:0. left"), told)


# Odd input that is fine: a line out for each line in, indices of the user's own words


ODD = {
    "": (0, 0),
    "   ||| ": (0, 0),
    "haus ||| ": (1, 0),
    "ein 😀 👩‍👩‍👧 haus ||| a 😀 👩‍👩‍👧 house": (4, 4),
    "das\u00a0alte\u2028haus steht da ||| the\u0085old house\u2029 is there": (3, 4),
    "漢字 ქართული ||| 漢字 word": (2, 2),
    "a\x00b \x07 \x1b[31m haus ||| \x08 house \x7f": (4, 3),
    "</s> <pad> <unk> haus ||| </s> <s> house": (4, 3),
    "haus\u00ad \u200b ||| \ufeff house": (2, 2),
}
"""Lines, and the number of words of their sides."""


def test_odd_lines_keep_their_place(run: Run) -> None:
    lines = [line for odd in ODD for line in (odd, "das haus ||| the house")]
    result = run("-q", "-f", "jsonl", stdin="".join(f"{line}\n" for line in lines))
    assert result.code == 0
    records = [json.loads(record) for record in result.out.decode().split("\n")[:-1]]
    assert [record["links"] for record in records[1::2]] == [[[0, 0], [1, 1]]] * len(ODD)
    for record, words in zip(records[::2], ODD.values(), strict=True):
        assert (len(record["source"]), len(record["target"])) == words
        assert all(i < words[0] and j < words[1] for i, j in record["links"])


# What is said besides


def test_swapped_sides_are_warned_about(run: Run) -> None:
    swapped = [
        " ||| ".join(reversed(line.split(" ||| "))) for line in EXAMPLES.read_text(encoding="utf-8").splitlines()
    ]
    result = run("-q", stdin="\n".join(swapped))
    assert result.code == 0
    assert "extract-align: warning: the text takes " in result.err
    assert "check the order of the sides" in result.err


def test_out_of_memory_says_what_helps(capsys: pytest.CaptureFixture[str]) -> None:
    errors = MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: ..."), RuntimeError("a bug")
    job = Mock(side_effect=errors)
    assert (common.run("x", job), common.run("x", job, "this helps")) == (1, 1)
    assert capsys.readouterr().err == "x: error: out of memory\nx: error: out of memory; this helps\n"
    with pytest.raises(RuntimeError, match="a bug"):
        common.run("x", job)


# A process of its own


def test_help_and_version_answer_without_torch() -> None:
    check = "import sys; sys.argv = ['extract-align', *{}]\nfrom align.cli.main import main\n"
    check += "try: main()\nfinally: assert not {{'torch', 'fairseq', '{}'}} & set(sys.modules)"
    for words, module, expected in (
        (["--help"], "numpy", "examples:"),
        (["--version"], "numpy", f"extract-align {align.__version__}"),
        (["eval", "-h"], "scipy", "--gold FILE"),
        (["combine", "-h"], "numpy", "--symmetrize"),
        (["view", "-h"], "pandas", "--gold FILE"),
    ):
        command = [sys.executable, "-c", check.format(words, module)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        assert expected in result.stdout
        assert result.stderr == ""
