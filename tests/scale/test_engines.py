"""The examples with Ray and Spark, as far as these are installed; a page of the documentation runs the others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT

SHOWN = {
    "ray": """\
{'id': 1, 'links': '0-0 1-1 2-2 3-3', 'status': ''}
{'id': 2, 'links': '', 'status': 'blank'}
{'id': 3, 'links': '0-0 1-1 2-3 3-2', 'status': ''}
""",
    "pyspark": """\
Row(id=1, links=['0-0', '1-1', '2-2', '3-3'], status='')
Row(id=2, links=[], status='null')
Row(id=3, links=['0-0', '1-1', '2-3', '3-2'], status='')
""",
}


@pytest.mark.parametrize("engine", SHOWN)
def test_examples_print_their_links(engine: str, tmp_path: Path) -> None:
    if not find_spec(engine) or not find_spec("pyarrow"):
        pytest.skip(f"needs {engine}")
    if engine == "pyspark" and not shutil.which("java"):
        pytest.skip("needs Java")
    environment = os.environ | {
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(
        [sys.executable, f"examples/tables_{engine.removeprefix('py')}.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == SHOWN[engine]
