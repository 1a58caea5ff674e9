"""Lines that are none, columns, and several files: a line out for each line in, each where it belongs."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from align.cli import extract
from tests import toy
from tests.cli.conftest import Result, failed

pytestmark = pytest.mark.usefixtures("one_thread", "unchecked")

GOOD = b"das haus ||| the house\n"
LINKS = b"0-0 1-1\n"
MODEL = (
    "-m",
    "toy/checkpoint.pt",
    "--layer",
    1,
    "--head",
    1,
    "--position",
    "input",
    "--null",
    "none",
    "--device",
    "cpu",
)
BLANK = ("--bad-lines", "blank")

BAD = [
    (b"no separator", "no ||| and no TAB between source and target", "wrong fields"),
    (b"das ||| the ||| 0.9", "expected two fields between |||; got 3", "wrong fields"),
    (b"das\tthe", "expected ||| between source and target, as in the lines before; got TAB", "wrong fields"),
    (b"das ||| a\tthe", "both ||| and TAB, of which one has to be the separator", "wrong fields"),
    (b"gr\xfc\xdfe ||| x", "not UTF-8 (byte 0xfc at position 3)", "not UTF-8"),
    (b"das " * 40 + b"||| the", "too long", "too long"),
]


@pytest.fixture
def run(run_main: Callable[..., Result], write: Callable[..., None], tmp_path: Path) -> Callable[..., Result]:
    """The command with a toy model that has room for 40 pieces a side, in an empty folder."""
    toy.save_model(tmp_path / "toy")
    return partial(run_main, extract.main, *MODEL)


def links(run: Callable[..., Result], *lines: bytes) -> list[bytes]:
    """What comes out for good lines, one by one."""
    return run("-q", stdin=b"".join(lines)).out.splitlines(keepends=True)


# Bad lines


@pytest.mark.parametrize(("line", "why", "reason"), BAD[3:])
def test_a_bad_line_is_a_blank_one(
    run: Callable[..., Result], write: Callable[..., None], line: bytes, why: str, reason: str
) -> None:
    write(text=GOOD + line + b"\n\n" + GOOD)
    one, two = links(run, GOOD, GOOD)
    stopped = run("text")
    failed(stopped, "text, line 2: ", "--bad-lines blank")
    assert ("`tr '\\t' ' '` makes it a space" in stopped.err) == why.startswith("a TAB")
    assert stopped.out == one
    result = run("-q", "text", *BLANK)
    assert (result.code, result.out) == (0, one + b"\n\n" + two)
    records = [json.loads(record) for record in run("-q", "text", *BLANK, "-f", "jsonl").out.splitlines()]
    found = [(record["id"], record.get("skipped")) for record in records]
    assert found == [(1, None), (2, reason), (3, None), (4, None)]
    assert run("-q", "text", *BLANK, "-f", "giza").out.count(b"\n") == 12


def test_all_of_them_are_counted_and_listed(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(text=GOOD + b"".join(line + b"\n" for line, *_ in BAD) + GOOD)
    result = run("text", *BLANK, "-o", "links.gz", "--bad-lines-file", "bad.tsv.gz", "--buffer", 2)
    assert "8 lines, 0 blank, 6 bad (1 not UTF-8, 1 too long, 4 wrong fields), " in result.err
    assert gzip.decompress(Path("links.gz").read_bytes()).count(b"\n") == 8
    listed = gzip.decompress(Path("bad.tsv.gz").read_bytes()).decode()
    assert listed == "".join(f"text\t{number}\t{why}\n" for number, (_, why, _) in enumerate(BAD, 2))


def test_two_files_stay_in_step(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(de=b"das haus\n\xff\nund\ndas\n", en=b"the house\nhouse\n\xfe\xff\nthe\n")
    failed(run("-s", "de", "-t", "en"), "de, line 2: not UTF-8", "iconv", "--bad-lines blank")
    result = run("-q", "-s", "de", "-t", "en", *BLANK, "--bad-lines-file", "bad", "-f", "jsonl")
    records = [json.loads(record) for record in result.out.splitlines()]
    assert [(record["source"], record["target"]) for record in records] == [
        (["das", "haus"], ["the", "house"]), ([], ["house"]), (["und"], []), (["das"], ["the"]),
    ]  # fmt: skip
    assert Path("bad").read_text(encoding="utf-8") == (
        "de\t2\tnot UTF-8 (byte 0xff at position 1)\nen\t3\tnot UTF-8 (byte 0xfe at position 1)\n"
    )


def test_translations(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(de=b"das haus\n\xff\n" + b"das " * 40 + b"\nund\n")
    result = run("de", "--translate", "--beam", 1, *BLANK, "--bad-lines-file", "bad")
    lines = result.out.split(b"\n")
    assert [bool(line) for line in lines] == [True, False, False, True, False]
    assert "4 lines, 0 blank, 2 bad (1 not UTF-8, 1 too long), " in result.err
    assert Path("bad").read_bytes() == b"de\t2\tnot UTF-8 (byte 0xff at position 1)\nde\t3\ttoo long\n"


def test_a_coprocess_survives(tmp_path: Path) -> None:
    """Each line is answered before the next is sent, through pipes."""
    model = toy.save_model(tmp_path)
    command = [sys.executable, "-m", "align", "-q", *map(str, MODEL[2:]), "-m", str(model), "--buffer", "1"]
    with subprocess.Popen([*command, *BLANK], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        for line in [GOOD, *(line + b"\n" for line, *_ in BAD), GOOD]:
            process.stdin.write(line)
            process.stdin.flush()
            assert (process.stdout.readline() == b"\n") == (line != GOOD)
        process.stdin.close()
        assert process.wait(60) == 0


# Bad lines and --resume


def test_a_run_that_goes_on_lists_the_same(
    run: Callable[..., Result], write: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(extract, "BUFFERS", 1)
    lines = [GOOD if n % 4 else BAD[n // 4 % 6][0] + b"\n" for n in range(40)]
    write(text=b"".join(lines))
    some: tuple[object, ...] = ("text", *BLANK, "--buffer", 3)
    assert run(*some, "-o", "plain", "--bad-lines-file", "plain.bad").code == 0
    before = set(os.listdir())
    some = (*some, "-o", "links", "--resume", "--bad-lines-file", "bad.tsv")
    real = extract.Results.write
    for at in (14, 33):

        def stopped(self: extract.Results, alignment: object, at: int = at) -> str:
            if alignment.pair.id == at:  # type: ignore[attr-defined]
                raise KeyboardInterrupt
            return real(self, alignment)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(extract.Results, "write", stopped)
            result = run("-q", *some)
        saved = (at - 1) // 3 * 3
        message = (
            rf"extract-align: interrupted after \d+ lines; {saved} of them are kept \(3 at a time\); the same .* on\n"
        )
        assert result.code == 130
        assert re.fullmatch(message, result.err)
        assert set(os.listdir()) - before == {"links.parts"}
    result = run(*some)
    assert f"extract-align: {saved} lines are done in links.parts\n" in result.err
    assert "40 lines, 0 blank, 10 bad (1 not UTF-8, 1 too long, 8 wrong fields), " in result.err
    assert set(os.listdir()) - before == {"links", "links.run.json", "bad.tsv"}
    assert Path("links").read_bytes() == Path("plain").read_bytes()
    assert Path("bad.tsv").read_bytes() == Path("plain.bad").read_bytes()
    assert run("-q", *some) == (0, b"", "")
    os.unlink("bad.tsv")
    failed(run("-q", *some), "links: exists, but bad.tsv is missing: ")
    failed(run("-q", *some[:-2]), "links: was made with other settings (bad-lines-file: bad.tsv → None")


# Columns


def test_columns(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(text=b"0.9\tdas haus\tthe house\turl\n\n\t\t\n0.8\tund\n0.7\tund\tand\n")
    one, two = links(run, GOOD, b"und ||| and\n")
    stopped = run("text", "--columns", "2,3")
    failed(stopped, "text, line 4: no column 3: cut at TAB the line has 2", "--bad-lines blank")
    assert stopped.out == one + b"\n\n"
    assert run("-q", "text", "--columns", "2,3", *BLANK).out == one + b"\n\n\n" + two
    swapped = json.loads(run("-q", "text", "--columns", "3,2", *BLANK, "-f", "jsonl").out.splitlines()[0])
    assert (swapped["source"], swapped["target"]) == (["the", "house"], ["das", "haus"])
    bars = run("-q", "--columns", "1,2", "-f", "jsonl", stdin=b"das ||| haus\tthe house\n").out
    assert json.loads(bars)["source"] == ["das", "|||", "haus"]
    translated = run("-q", "text", "--columns", "2", "--translate", "--beam", 1, "-f", "jsonl").out.splitlines()
    assert [json.loads(line)["source"] for line in translated] == [["das", "haus"], [], [], ["und"], ["und"]]


# Several files


def test_several_files_are_one_text(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(a=GOOD * 2, b=b"", **{"c.gz": gzip.compress(b"\xef\xbb\xbfund ||| and\nbad\n" + GOOD)})
    stopped = run("a", "b", "c.gz")
    failed(stopped, "c.gz, line 2: no ||| and no TAB")
    assert stopped.err.splitlines()[-1] == "extract-align: stopped after 3 lines; the results of these are written"
    result = run("-q", "a", "b", "c.gz", *BLANK, "--bad-lines-file", "bad", "-f", "jsonl")
    assert [json.loads(line)["id"] for line in result.out.splitlines()] == [1, 2, 3, 4, 5]
    assert Path("bad").read_bytes() == b"c.gz\t2\tno ||| and no TAB between source and target\n"
    write(c=b"und ||| and\n" + b"das " * 40 + b"||| the\n")
    failed(run("-q", "a", "c"), "c, line 2: source has 41 pieces")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "--bad-lines-file", "x"), "--bad-lines-file requires --bad-lines blank"),
        (("a", *BLANK, "--bad-lines-file", "-"), "--bad-lines-file needs a file of its own"),
        (("a", *BLANK, "-o", "x", "--bad-lines-file", "./x"), "--bad-lines-file needs a file of its own"),
        (("a", *BLANK, "--bad-lines-file", "a"), "--bad-lines-file would replace the input a"),
        (("a", "--columns", "0,1"), "expected two column numbers such as 2,3; got '0,1'"),
        (("a", "--columns", "2"), "--columns takes two numbers: source,target"),
        (("a", "--columns", "2,2"), "--columns takes two columns: source and target cannot be the same"),
        (("a", "--columns", "1,2", "--translate"), "--columns takes one number with --translate"),
        (("-s", "a", "-t", "b", "--columns", "1,2"), "--columns requires FILE, not -s and -t"),
        (("a", "-", "-"), "only one of the files can be stdin"),
        (("a", "-s", "b", "-t", "c"), "either FILEs of both sides, or -s and -t"),
        (("a", "-o", "x/"), "-o x/ is a folder: `extract-align jobs FILE … -o x/` writes a file for each FILE"),
    ],
)
def test_wrong_usage(
    run: Callable[..., Result], write: Callable[..., None], arguments: tuple[str, ...], message: str
) -> None:
    write(a=GOOD)
    result = run(*arguments)
    assert (result.code, result.out) == (2, b"")
    assert message in result.err
