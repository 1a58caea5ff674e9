"""`eval/run.py screenshots`: pictures of the documentation, and how fast pages open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.eval.conftest import read_table


@pytest.mark.usefixtures("browser")  # or else it is skipped; the command starts one of its own
def test_pictures_and_times(tmp_path: Path) -> None:
    command = [sys.executable, "eval/run.py", "screenshots", "--sentences", "3", "--rounds", "1"]
    subprocess.run([*command, "--pictures", tmp_path / "pictures", "-o", tmp_path], cwd=ROOT, check=True)
    taken = {picture.name: picture.stat().st_size for picture in (tmp_path / "pictures").iterdir()}
    kept = {picture.name: picture.stat().st_size for picture in (ROOT / "docs" / "pictures").iterdir()}
    assert taken.keys() == kept.keys()
    assert all(10_000 < size < 200_000 for size in (*taken.values(), *kept.values()))
    sign, rows = read_table(tmp_path / "view.tsv")
    assert sign.startswith("# python eval/run.py screenshots --sentences 3 --rounds 1; Chromium ")
    assert [row["sentences"] for row in rows] == ["3"]
    assert float(rows[0]["seconds"]) > 0
