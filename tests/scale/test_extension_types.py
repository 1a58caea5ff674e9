"""No Parquet file makes Ray's extension types unpickle what it holds."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from align.jobs.formats import EXTENSION_TYPES
from tests.conftest import ROOT

pytest.importorskip("ray.data", reason="needs ray[data]")

OPEN = """
import sys, ray.data, pyarrow.parquet as pq
from align.jobs.files import InputFile
from align.jobs.formats import Columns, open_rows
for file in sys.argv[2:]:
    if sys.argv[1] == "ours":
        with open_rows(InputFile(file, 0), Columns("de", "en", "id"), False) as (rows, pairs):
            print(rows.id_field, len(list(pairs)))
    else:
        print(pq.ParquetFile(file).schema_arrow)
"""


class Payload:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.mark), "w")


def test_no_metadata_is_unpickled(tmp_path: Path) -> None:
    files = []
    for name in EXTENSION_TYPES:
        payload = pickle.dumps(Payload(tmp_path / f"{name}.mark"))
        metadata = {"ARROW:extension:name": name.encode(), "ARROW:extension:metadata": payload}
        field = pa.field("id", pa.list_(pa.int64()), metadata=metadata)
        schema = pa.schema([("de", pa.string()), ("en", pa.string()), field])
        files.append(tmp_path / f"{name}.parquet")
        pq.write_table(pa.table([["das"], ["the"], [[1]]], schema=schema), files[-1])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_DATA_AUTOLOAD_CLOUDPICKLE_TENSOR_METADATA": "1"}

    def read(reader: str, *files: Path) -> str:
        command = [sys.executable, "-c", OPEN, reader, *map(str, files)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        return done.stdout or done.stderr

    assert read("ours", *files).count("list<") >= len(files)
    assert not [*tmp_path.glob("*.mark")]
    read("arrow's", tmp_path / "ray.data.arrow_tensor_v2.parquet")
    assert [*tmp_path.glob("*.mark")]  # the files are dangerous, so the test can fail
