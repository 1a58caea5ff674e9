"""Memory of a job does not depend on how long the rows of a small file are: what is read at a time ends by bytes."""

from __future__ import annotations

import gzip
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from align.core import stream as batching
from tests.cli.conftest import Result
from tests.scale.jobs import drive, tree

pytest.importorskip("pyarrow", reason="needs pyarrow")

LONG, ROWS = 250_000, 2000
ROOM = 350_000_000
"""Bytes that a job may take beyond what its process has already; all rows at once have more."""


def limit_memory() -> None:
    """Let this process have ROOM more bytes of addresses, and smaller buffers."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    batching.BUFFER_BYTES = 1 << 25
    most = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


@pytest.mark.parametrize("line", [b"a" * LONG + b"\tdas\n", b"a" * LONG + b"\n"])
def test_a_small_packed_file_of_long_lines(run: Callable[..., Result], line: bytes) -> None:
    packed = gzip.compress(line * (ROWS // 20), 1)
    with open("in/a.tsv.gz", "wb") as out:
        for _ in range(20):
            out.write(packed)
    job = ("jobs", "-q", "in/a.tsv.gz", "--bad-lines", "blank", "--output", "out", "--workers", 1)
    assert drive(*job, before=limit_memory) == 0
    assert [*tree("out")] == ["a.tsv.gz"]
