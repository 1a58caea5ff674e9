"""Lines that are none, columns, and several files: a line out for each line in, each where it belongs."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path

import pytest

from align.cli import extract
from tests import toy
from tests.cli.conftest import Run, Write, failed

pytestmark = pytest.mark.usefixtures("one_thread", "unchecked")

GOOD = b"das haus ||| the house\n"
LINKS = b"0-0 1-1\n"
READ = ("--layer", 1, "--head", 1, "--position", "input", "--null", "none", "--scorer", "none")
MODEL = ("-m", "toy/checkpoint.pt", *READ, "--device", "cpu")
BLANK = ("--bad-lines", "blank")

BAD = [
    (b"no separator", "no ||| and no TAB between source and target", "wrong fields"),
    (b"das ||| the ||| 0.9", "expected two fields between |||; got 3", "wrong fields"),
    (b"das\tthe", "expected ||| between source and target, as in the lines before; got TAB", "wrong fields"),
    (b"das ||| a\tthe", "both ||| and TAB, but only one can be the separator", "wrong fields"),
    (b"gr\xfc\xdfe ||| x", "not UTF-8 (byte 0xfc at position 3)", "not UTF-8"),
    (b"das " * 40 + b"||| the", "too long", "too long"),
]


@pytest.fixture
def run(run_main: Run, write: Write, tmp_path: Path) -> Run:
    """The command with a toy model that has room for 40 pieces a side, in an empty folder."""
    toy.save_model(tmp_path / "toy")
    return partial(run_main, extract.main, *MODEL)


def links(run: Run, *lines: bytes) -> list[bytes]:
    """What comes out for good lines, one by one."""
    return run("-q", stdin=b"".join(lines)).out.splitlines(keepends=True)


@pytest.mark.parametrize(("line", "_", "reason"), BAD[3:])
def test_a_bad_line_is_a_blank_one(run: Run, write: Write, line: bytes, _: str, reason: str) -> None:
    write(text=GOOD + line + b"\n\n" + GOOD)
    one, two = links(run, GOOD, GOOD)
    stopped = run("text")
    failed(stopped, "text, line 2: ", "--bad-lines blank")
    assert stopped.out == one
    result = run("-q", "text", *BLANK)
    assert (result.code, result.out) == (0, one + b"\n\n" + two)
    records = [json.loads(record) for record in run("-q", "text", *BLANK, "-f", "jsonl").out.splitlines()]
    found = [(record["id"], record.get("skipped")) for record in records]
    assert found == [(1, None), (2, reason), (3, None), (4, None)]
    assert run("-q", "text", *BLANK, "-f", "giza").out.count(b"\n") == 12


def test_all_of_them_are_counted_and_listed(run: Run, write: Write) -> None:
    write(text=GOOD + b"".join(line + b"\n" for line, *_ in BAD) + GOOD)
    result = run("text", *BLANK, "-o", "links.gz", "--bad-lines-file", "bad.tsv.gz", "--buffer", 2)
    assert "8 lines, 0 blank, 6 bad (1 not UTF-8, 1 too long, 4 wrong fields), " in result.err
    assert gzip.decompress(Path("links.gz").read_bytes()).count(b"\n") == 8
    listed = gzip.decompress(Path("bad.tsv.gz").read_bytes()).decode()
    assert listed == "".join(f"text\t{number}\t{why}\n" for number, (_, why, _) in enumerate(BAD, 2))


def test_two_files_stay_in_step(run: Run, write: Write) -> None:
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


def test_columns(run: Run, write: Write) -> None:
    write(text=b"0.9\tdas haus\tthe house\turl\n\n\t\t\n0.8\tund\n0.7\tund\tand\n")
    one, two = links(run, GOOD, b"und ||| and\n")
    stopped = run("text", "--columns", "2,3")
    failed(stopped, "text, line 4: no column 3: the line has 2, separated by TABs", "--bad-lines blank")
    assert stopped.out == one + b"\n\n"
    assert run("-q", "text", "--columns", "2,3", *BLANK).out == one + b"\n\n\n" + two
    swapped = json.loads(run("-q", "text", "--columns", "3,2", *BLANK, "-f", "jsonl").out.splitlines()[0])
    assert (swapped["source"], swapped["target"]) == (["the", "house"], ["das", "haus"])
    bars = run("-q", "--columns", "1,2", "-f", "jsonl", stdin=b"das ||| haus\tthe house\n").out
    assert json.loads(bars)["source"] == ["das", "|||", "haus"]
    translated = run("-q", "text", "--columns", "2", "--translate", "--beam", 1, "-f", "jsonl").out.splitlines()
    assert [json.loads(line)["source"] for line in translated] == [["das", "haus"], [], [], ["und"], ["und"]]


def test_several_files_are_one_text(run: Run, write: Write) -> None:
    write(a=GOOD * 2, b=b"", **{"c.gz": gzip.compress(b"\xef\xbb\xbfund ||| and\nbad\n" + GOOD)})
    stopped = run("a", "b", "c.gz")
    failed(stopped, "c.gz, line 2: no ||| and no TAB")
    assert stopped.err.splitlines()[-1] == "extract-align: stopped after 3 lines; all results are written"
    result = run("-q", "a", "b", "c.gz", *BLANK, "--bad-lines-file", "bad", "-f", "jsonl")
    assert [json.loads(line)["id"] for line in result.out.splitlines()] == [1, 2, 3, 4, 5]
    assert Path("bad").read_bytes() == b"c.gz\t2\tno ||| and no TAB between source and target\n"
    write(c=b"und ||| and\n" + b"das " * 40 + b"||| the\n")
    failed(run("-q", "a", "c"), "c, line 2: source has 41 pieces")


def test_kept_lines_are_counted_and_numbered_through_all_files(run: Run, write: Write) -> None:
    write(a=GOOD + b"bad\n", b=b"\n" + GOOD + b"das ||| \n")
    result = run("a", "b", "--bad-lines", "drop", "-o", "links.gz", "--bad-lines-file", "bad", "-f", "tsv")
    assert "5 lines, 2 blank, 1 bad (1 wrong fields), 2 kept (links.gz.kept), " in result.err
    assert gzip.decompress(Path("links.gz").read_bytes()) == b"das haus\tthe house\t0-0 1-1\n" * 2
    assert Path("links.gz.kept").read_bytes() == b"1\n4\n"
    assert Path("bad").read_bytes() == b"a\t2\tno ||| and no TAB between source and target\n"
    unlisted = run("-q", "a", "b", "--bad-lines", "drop", "-o", "links")
    assert (
        unlisted.err == "extract-align: warning: 1 unreadable line dropped; the first: a, line 2: " + BAD[0][1] + "\n"
    )


def test_dropped_lines_need_a_file_beside_which_kept_ones_are_listed(run: Run, write: Write) -> None:
    write(a=GOOD)
    for where, why in (((), "requires -o FILE"), (("-o", "-"), "requires -o FILE"), (("-o", "/dev/null"), "needs an")):
        result = run("a", "--bad-lines", "drop", *where)
        assert (result.code, f"--bad-lines drop {why}" in result.err) == (2, True)
    assert run("-q", "a", "-o", "links", "--resume").code == 0
    failed(run("-q", "a", "-o", "links", "--resume", "--bad-lines", "drop"), "bad lines: blank or refused → dropped")
