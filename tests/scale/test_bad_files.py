"""`extract-align jobs` where a file or a row cannot be read: said by file and row, and all others done."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Result
from tests.scale.jobs import lines, sentences, strings, tree

GOOD = lines(sentences(400, 1))
NAMED = ("--columns", "de,en")


def zst(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(data)
    return bytes(sink.getvalue())


def table(**columns: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


NONE = pa.array([], pa.string())
WORDS = ["das haus", "wir sehen"]
GZ, XZ, ZST = gzip.compress(GOOD), lzma.compress(GOOD), zst(GOOD)
TABLE = table(de=WORDS * 50, en=WORDS * 50, id=WORDS * 50)
MISCOUNTED = table(de=WORDS, en=["the house", "we see"], id=WORDS).replace(
    b"\x16\x04\x19\x1c",
    b"\x16\x06\x19\x1c",  # in its footer: 2 rows, or rather 3, and a list of one row group
)

DAMAGED = {
    "zero.tsv.gz": (b"", "damaged compressed data"),
    "zero.tsv.xz": (b"", "damaged compressed data"),
    "zero.tsv.zst": (b"", "damaged compressed data"),
    "half.tsv.gz": (GZ[: len(GZ) // 2], "damaged compressed data"),
    "half.tsv.xz": (XZ[: len(XZ) // 2], "damaged compressed data"),
    "half.tsv.zst": (ZST[: len(ZST) // 2], "damaged compressed data"),
    "packed.tsv": (GZ, "the file is compressed data: extract-align reads UTF-8 text"),
    "half.parquet": (TABLE[: len(TABLE) // 2], "no Parquet file"),
    "wrong.parquet": (TABLE[:30] + b"\xff" * 60 + TABLE[90:], "cannot be read"),
    "count.parquet": (MISCOUNTED, "2 rows, where it says 3"),
    "column.parquet": (table(de=WORDS, fr=WORDS, id=WORDS), "no column 'en': the table has 'de', 'fr', 'id'"),
    "type.parquet": (table(de=WORDS, en=[1, 2], id=WORDS), "column 'en' is of type int64, expected strings"),
}
"""What files hold, and why they cannot be read, whatever is said of rows."""


ROWS = {
    "rows.tsv": (b"das haus\tthe house\n", b"one side\n", b"a\tb\tc\n", b"\xff\ta\n"),
    "rows.txt": (b"das haus ||| the house\n", b"one side\n", b"a ||| b ||| c\n", b"\xff ||| a\n"),
    "rows.jsonl": (
        b'{"de": "das haus", "en": "the house"}\n',
        b'{"de": "das haus", "en": null}\n',
        b'{"de": "das haus"}\n',
        b'{"de": "\xff", "en": "a"}\n',
        b'{"de": 1, "en": "a"}\n',
        b'{"de": "das haus", "en": \n',
        b"[1, 2]\n",
    ),
}
"""A row that can be read, and those that cannot."""

REASONS = {
    "rows.tsv": ["wrong fields", "wrong fields", "not UTF-8"],
    "rows.txt": ["wrong fields", "wrong fields", "not UTF-8"],
    "rows.jsonl": ["null", "wrong fields", "not UTF-8", "not text", "not JSON", "wrong fields"],
    "rows.parquet": ["null", "null", "not UTF-8"],
}


def test_files_that_cannot_be_read_are_said_and_the_others_done(run: Callable[..., Result]) -> None:
    for name, (data, _) in DAMAGED.items():
        Path(f"in/{name}").write_bytes(data)
    whole = {
        "good.tsv": GOOD,
        "two.tsv.zst": zst(GOOD[:100]) + zst(GOOD[100:]),  # one behind the other, as pigz, zstd and cat make them
        "two.tsv.gz": gzip.compress(GOOD[:100]) + gzip.compress(GOOD[100:]),
        "none.tsv.gz": gzip.compress(b""),
        "none.parquet": table(de=NONE, en=NONE, id=NONE),
        "ids.parquet": table(de=WORDS, en=WORDS, id=strings([b"a", b"\xff"])),
    }
    for name, data in whole.items():
        Path(f"in/{name}").write_bytes(data)
    failed, done = 0, {}
    for kind, options in (("*.tsv*", ()), ("*.parquet", ("--columns", "de,en,id"))):
        output = f"out{kind[2:]}"
        result = run("jobs", "-q", f"in/{kind}", *options, "--output", output, "--bad-lines", "blank")
        assert result.code == 1
        assert "Traceback" not in result.err
        said = result.err.splitlines()
        for name, (_, why) in DAMAGED.items():
            if name.endswith(".parquet") == bool(options):
                (line,) = [line for line in said if f"error: in/{name}" in line]
                assert why in line
                failed += 1
        done |= tree(output)
        assert len(said) == len([name for name in DAMAGED if name.endswith(".parquet") == bool(options)]) + 1
        assert not list(Path(output).glob("**/*.part"))
    assert failed == len(DAMAGED)
    assert set(done) == set(whole)
    assert gzip.decompress(done["two.tsv.gz"]) == done["good.tsv"]
    assert pa.CompressedInputStream(pa.BufferReader(done["two.tsv.zst"]), "zstd").read() == done["good.tsv"]
    assert gzip.decompress(done["none.tsv.gz"]) == b""
    assert "expected strings: cast it, or name another with --columns" in result.err
    ids = pq.read_table(pa.BufferReader(done["ids.parquet"]))["id"]
    assert ids.cast(pa.binary()).to_pylist() == [b"a", b"\xff"]  # as they are
    empty = pq.read_table(pa.BufferReader(done["none.parquet"]))
    assert (empty.num_rows, empty.schema.names) == (0, ["id", "links", "agreement", "status"])


@pytest.mark.parametrize("name", REASONS)
def test_rows_that_cannot_be_read(run: Callable[..., Result], name: str) -> None:
    if name == "rows.parquet":
        sides = [b"das haus", None, b"das haus", b"das haus", b"das haus"]
        others = [b"the house", b"the house", None, b"\xff", b"the house"]
        Path("in", name).write_bytes(table(de=strings(sides), en=strings(others)))
    else:
        good, *bad = ROWS[name]
        Path("in", name).write_bytes(b"".join([good, *bad, good]))
    options = () if name.endswith((".tsv", ".txt")) else NAMED
    count = len(REASONS[name])
    result = run("jobs", "-q", f"in/{name}", *options, "--output", "stopped")
    assert result.code == 1
    assert f"in/{name}, line 2: " in result.err
    assert "--bad-lines blank" in result.err
    assert tree("stopped") == {}
    result = run("jobs", f"in/{name}", *options, "--output", "kept", "--bad-lines", "blank")
    assert result.code == 0, result.err
    assert f"{count + 2:,} rows, " in result.err
    rejected = [json.loads(line) for line in Path(f"kept/_run/{name}.bad.jsonl").read_text().splitlines()]
    assert [row["reason"] for row in rejected] == REASONS[name]
    assert [row["row"] for row in rejected] == [*range(2, count + 2)]
    assert name != "rows.tsv" or [row["raw"] for row in rejected] == ["one side", "a\tb\tc", "\\xff\ta"]
    data = tree("kept")[name]
    if name.endswith((".tsv", ".txt")):
        first, *between, last = data.split(b"\n")[:-1]
        assert (set(between), first == last != b"") == ({b""}, True)
        return
    if name.endswith(".jsonl"):
        status = [json.loads(line)["status"] for line in data.splitlines()]
    else:
        status = pq.read_table(pa.BufferReader(data))["status"].to_pylist()
    assert status == ["", *REASONS[name], ""]


@pytest.mark.parametrize("columns", ["de,none", "de,en,none"])
def test_a_field_that_no_object_has_is_an_error(run: Callable[..., Result], columns: str) -> None:
    Path("in/a.jsonl").write_bytes(ROWS["rows.jsonl"][0] * 2)
    result = run("jobs", "-q", "in/a.jsonl", "--columns", columns, "--output", "out", "--bad-lines", "blank")
    message = "no row has all of these fields; in the last: no field 'none': the object has 'de', 'en'"
    assert (result.code, f"in/a.jsonl: {message}: name them with --columns\n" in result.err) == (1, True)
    assert tree("out") == {}


def test_files_that_cannot_be_opened(run: Callable[..., Result]) -> None:
    Path("in/folder.tsv").mkdir()
    Path("in/good.tsv").write_bytes(GOOD)
    for name, why in (("in/folder.tsv", "in/folder.tsv: is a folder"), ("in/*.txt", "in/*.txt: no file matches")):
        result = run("jobs", "-q", "in/good.tsv", name, "--output", "out")
        assert (result.code, len(result.err.splitlines()), why in result.err) == (1, 1, True), name
