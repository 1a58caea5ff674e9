"""Memory of a job does not depend on how long the rows of a small file are: what is read at a time ends by bytes."""

from __future__ import annotations

import gzip
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from align.core import stream as batching
from align.jobs import arrow
from tests.cli.conftest import Result
from tests.scale.jobs import drive, tree

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

LONG, ROWS = 250_000, 2000
ROOM = 350_000_000
"""Bytes that a job may take beyond what its process has already; all rows at once have more."""


def repeated(text: str, rows: int = ROWS) -> Any:
    """A column whose rows all have the same text, of which there is one copy."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))


def limit_memory() -> None:
    """Let this process have ROOM more bytes of addresses, and smaller buffers."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    batching.BUFFER_BYTES = arrow.BATCH_BYTES = 1 << 25
    most = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def test_columns_are_unfolded_as_far_as_the_budget_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[list[int]] = []
    unfold = arrow._bytes_of

    def measured(column: Any) -> list[bytes | None]:
        texts = unfold(column)
        sizes.append([len(text or b"") for text in texts])
        return texts

    monkeypatch.setattr(arrow, "_bytes_of", measured)
    huge = pa.array(["x" * (arrow.BATCH_BYTES + 1)] * 3).dictionary_encode()
    short = pa.array(["y", None, "z"])
    source = pa.DictionaryArray.from_arrays(
        pa.array([*[0] * 150, 1, None, 2], pa.int32()), pa.array(["a" * 1_000_000, "b", ""])
    )
    for columns, count in (((source, source), 153), ((huge, short), 3), ((short[:0], short[:0]), 0)):
        sizes.clear()
        rows = arrow.rows_of(columns)
        assert [tuple(text and len(text) for text in row) for row in rows] == [
            tuple(text and len(text) for text in row)
            for row in zip(*(column.cast(pa.binary()).to_pylist() for column in columns), strict=True)
        ]
        batches = [sum(sizes[n]) + sum(sizes[n + 1]) for n in range(0, len(sizes), 2)]
        assert sum(map(len, sizes)) == 2 * count
        assert all(size <= arrow.BATCH_BYTES or len(sizes[2 * n]) == 1 for n, size in enumerate(batches))
        assert len(batches) == max(1, round(sum(batches) / arrow.BATCH_BYTES + 0.4))


def test_a_small_parquet_file_of_long_rows(run: Callable[..., Result]) -> None:
    columns = {"source": repeated("a" * LONG), "target": pa.array(["das"] * ROWS), "id": pa.array(["das"] * ROWS)}
    parquet.write_table(pa.table(columns), "in/a.parquet", compression="zstd", store_schema=False)
    named = (f"--{name}-column={name}" for name in columns)
    job = ("jobs", "-q", "in/a.parquet", *named, "--output", "out", "--workers", 1)
    assert drive(*job, before=limit_memory) == 0
    assert [*tree("out")] == ["a.parquet"]


@pytest.mark.parametrize("line", [b"a" * LONG + b"\tdas\n", b"a" * LONG + b"\n", b'{"s": "", "t": "", "id": "%s"}\n'])
def test_a_small_packed_file_of_long_lines(run: Callable[..., Result], line: bytes) -> None:
    columns: tuple[str, ...] = ()
    name = "in/a.tsv.gz"
    if line.startswith(b"{"):
        line = line.replace(b"%s", b"a" * LONG)
        name, columns = "in/a.jsonl.gz", ("--columns", "s,t,id")
    packed = gzip.compress(line * (ROWS // 20), 1)
    with open(name, "wb") as out:
        for _ in range(20):
            out.write(packed)
    job = ("jobs", "-q", name, *columns, "--bad-lines", "blank", "--output", "out", "--workers", 1)
    assert drive(*job, before=limit_memory) == 0
    assert [*tree("out")] == [Path(name).name]
