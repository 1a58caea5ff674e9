"""`extract-align jobs`: the same bytes as file by file, what is finished is left alone, what is wrong is said."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core import stream
from align.jobs.files import InputFile
from align.jobs.local import share_of
from tests.cli.conftest import Result
from tests.scale.jobs import lines, sentences, tree


def test_lines_come_out_as_file_by_file(run: Callable[..., Result]) -> None:
    Path("in/a.tsv").write_bytes(lines(sentences(60, 1)))
    Path("in/b.txt").write_bytes(lines(sentences(30, 2), " ||| "))
    Path("in/c.tsv.gz").write_bytes(gzip.compress(lines(sentences(20, 3))))
    Path("in/d.tsv").write_bytes(b"")
    result = run("jobs", "in/*", "--output", "out", "--workers", "2")
    assert result.code == 0, result.err
    expected = {}
    for name in os.listdir("in"):
        assert run("-q", f"in/{name}", "-o", f"single.{name}").code == 0
        expected[name] = Path(f"single.{name}").read_bytes()
    assert tree("out") == expected


@pytest.mark.parametrize("names", [("de", "en", "n"), ("translation.de", "translation.en", "at.n")])
def test_tables_and_json_have_the_same_links_as_lines(run: Callable[..., Result], names: tuple[str, ...]) -> None:
    pairs = sentences(40, 4)
    Path("in/a.tsv").write_bytes(lines(pairs))
    rows: list[dict[str, Any]] = [{"de": de, "en": en, "n": n} for n, (de, en) in enumerate(pairs)]
    status = ["" if de else "blank" for de, _ in pairs]
    if names[0] != "de":
        rows = [{"translation": {"de": row["de"], "en": row["en"]}, "at": {"n": row["n"]}} for row in rows]
        rows[3]["translation"], status[3] = None, "null"
    pq.write_table(pa.Table.from_pylist(rows), "in/b.parquet", row_group_size=7)
    with pa.CompressedOutputStream("in/c.jsonl.zst", "zstd") as out:
        out.write("".join(json.dumps(row) + "\n" for row in rows).encode())
    assert run("jobs", "in/a.tsv", "--output", "out").code == 0
    named = ("--columns", ",".join(names), "--bad-lines", "blank")
    assert run("jobs", "in/b.parquet", "in/c.jsonl.zst", *named, "--output", "named").code == 0
    expected = Path("out/a.tsv").read_text().splitlines()
    table = pq.read_table("named/b.parquet")
    found = [" ".join(f"{one['source']}-{one['target']}" for one in row) for row in table["links"].to_pylist()]
    assert found == expected
    assert (table["status"].to_pylist(), table[names[2]].to_pylist()) == (status, [*range(40)])
    assert (table.schema.names[0], table.schema.metadata[b"input"]) == (names[2], b"in/b.parquet")
    written = pa.CompressedInputStream("named/c.jsonl.zst", "zstd").read().decode().splitlines()
    records = [json.loads(line) for line in written]
    assert [" ".join(f"{i}-{j}" for i, j in record["links"]) for record in records] == expected
    assert [(record["id"], record["status"]) for record in records] == [*enumerate(status)]


def test_rows_of_much_text_are_written_in_smaller_groups(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that memory is bounded whatever rows hold."""
    pq.write_table(pa.Table.from_pylist([{"de": de, "en": en} for de, en in sentences(300, 1)]), "in/a.parquet")
    job = ("jobs", "-q", "in/*", "--columns", "de,en", "--links", "pharaoh")
    assert run(*job, "--output", "out").code == 0
    monkeypatch.setattr(stream, "BUFFER_BYTES", 20_000)
    assert run(*job, "--output", "small").code == 0
    assert pq.read_table("small/a.parquet").equals(pq.read_table("out/a.parquet"))
    assert [pq.ParquetFile(f"{name}/a.parquet").num_row_groups > 1 for name in ("out", "small")] == [False, True]


def test_a_remote_store_has_the_same_bytes_and_goes_on(run: Callable[..., Result], tmp_path: Path) -> None:
    """`local://` is read by fsspec as any store is, without locks, and with workers that are spawned."""
    for n in range(2):
        Path(f"in/{n}.tsv.gz").write_bytes(gzip.compress(lines(sentences(10, n))))
    assert run("jobs", "-q", "in/*", "--output", "out").code == 0
    job = ("jobs", f"local://{tmp_path}/in/*", "--output", f"local://{tmp_path}/remote", "--workers", 1)
    result = run(*job)
    assert result.code == 0, result.err
    assert {name: gzip.decompress(data) for name, data in tree("remote").items()} == {
        name: gzip.decompress(data) for name, data in tree("out").items()
    }
    assert "2 of 2 files (2 before)" in run(*job).err
    Path("remote/_run/1.tsv.gz.json").write_text('{"input": []}')  # killed before the marker was complete
    assert "2 of 2 files (1 before)" in run(*job).err
    for place, why in (
        (f"local://{tmp_path}/none.tsv", "none.tsv: cannot be read: No such file"),
        (f"local://{tmp_path}/none/*.tsv", "none/*.tsv: no file matches"),
        ("s3://key:secret@bucket/a.tsv", "s3://…/a.tsv: the URI contains a key, which the job's records would keep"),
        ("nothing://bucket/a.tsv", "nothing://bucket/a.tsv: cannot be opened: Protocol not known"),
    ):
        result = run("jobs", "-q", place, "--output", "out")
        assert (result.code, why in result.err, "secret" in result.err) == (1, True, False), result.err


IDS = {
    "late": pa.array([2**30, -(2**30)], pa.date32()),
    "fine": pa.array([1, 2], pa.time64("ns")),
    "far": pa.array([1, 2], pa.timestamp("us", "Mars/Olympus")),
    "words": pa.array(["a", "b"]).dictionary_encode(),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())),
}
"""Columns, of some of which Python has no values, or not all of them."""


def test_ids_of_tables_come_out_as_they_are(run: Callable[..., Result]) -> None:
    for name, ids in IDS.items():
        table = pa.table({"de": ["das haus"] * 2, "en": ["the house"] * 2, "id": ids})
        pq.write_table(table, f"in/{name}.parquet")
    named = ("--columns", "de,en,id")
    assert run("jobs", "-q", "in/*.parquet", *named, "--output", "out").code == 0
    for name, ids in IDS.items():
        assert pq.read_table(f"out/{name}.parquet")["id"].combine_chunks().equals(ids), name
    for id in ("NaN", "[1e999]"):
        Path("in/a.jsonl").write_text(f'{{"de": "das haus", "en": "the house", "id": {id}}}\n')
        result = run("jobs", "-q", "in/a.jsonl", *named, "--output", "out")
        assert (result.code, "'id' has a number that is NaN or infinite" in result.err) == (1, True), id
    assert run("jobs", "-q", "in/a.jsonl", *named, "--output", "out", "--bad-lines", "blank").code == 0
    assert json.loads(Path("out/a.jsonl").read_text())["id"] is None


def test_what_is_finished_is_left_alone_and_what_has_changed_is_refused(run: Callable[..., Result]) -> None:
    for n in range(3):
        Path(f"in/{n}.tsv").write_bytes(lines(sentences(10, n)))
    job = ("jobs", "in/*.tsv", "--output", "out")
    assert run(*job).code == 0
    times = {path: path.stat().st_mtime_ns for path in Path("out").glob("**/*.*")}
    result = run(*job)
    assert (result.code, "3 of 3 files (3 before)" in result.err) == (0, True)
    assert times == {path: path.stat().st_mtime_ns for path in Path("out").glob("**/*.*")}
    Path("in/1.tsv").write_bytes(lines(sentences(10, 9)))
    result = run(*job, "-q")
    assert result.code == 1
    assert "in/1.tsv: has changed since out/1.tsv was made: remove out/1.tsv to have it done again" in result.err
    assert "1 of 3 files not done: 1.tsv" in result.err
    os.unlink("out/1.tsv")
    assert "3 of 3 files (2 before)" in run(*job).err
    result = run(*job, "-q", "--threshold", "0.3")
    assert "out: its files were made with other settings (settings: threshold:0.5 → threshold:0.3)" in result.err
    os.utime("in/2.tsv", (1, 1))  # of the same size
    assert "in/2.tsv: has changed since out/2.tsv was made" in run(*job, "-q").err


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 12))
def test_each_file_is_in_exactly_one_part(sizes: list[int], count: int) -> None:
    files = [InputFile(f"in/{n}.tsv", size) for n, size in enumerate(sizes)]
    parts = [share_of(files, number, count) for number in range(1, count + 1)]
    assert sorted(file for part in parts for file in part) == sorted(files)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
