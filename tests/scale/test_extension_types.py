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

from align.jobs.readers import EXTENSION_TYPES
from tests.conftest import ROOT

pytest.importorskip("ray.data", reason="needs ray[data]")

OPEN = """
import sys, ray.data, pyarrow.parquet as pq
from align.jobs.files import InputFile
from align.jobs.readers import Columns, table_head
if sys.argv[2] == "ours":
    print(table_head(InputFile(sys.argv[1], 0, 0), Columns("de", "en", "id")))
else:
    print(pq.ParquetFile(sys.argv[1]).schema_arrow)
"""


class Payload:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.mark), "w")


@pytest.mark.parametrize(
    ("name", "who"), [*((name, "ours") for name in EXTENSION_TYPES), ("ray.data.arrow_tensor_v2", "arrow's")]
)
def test_no_metadata_is_unpickled(tmp_path: Path, name: str, who: str) -> None:
    mark, file = tmp_path / "mark", tmp_path / "a.parquet"
    payload = pickle.dumps(Payload(mark))
    metadata = {"ARROW:extension:name": name.encode(), "ARROW:extension:metadata": payload}
    field = pa.field("id", pa.list_(pa.int64()), metadata=metadata)
    schema = pa.schema([("de", pa.string()), ("en", pa.string()), field])
    pq.write_table(pa.table([["das"], ["the"], [[1]]], schema=schema), file)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_DATA_AUTOLOAD_CLOUDPICKLE_TENSOR_METADATA": "1"}
    command = [sys.executable, "-c", OPEN, str(file), who]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    if who == "ours":
        assert "list<" in result.stdout, result.stderr
        assert not mark.exists()
    else:
        assert mark.exists()  # which shows that the file is dangerous, and that the test can fail
