"""`eval/run.py benchmark-shards`: the same rows in one file and in many, and a table that says what was run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from align.core.types import Pair
from tests.eval.conftest import Result, read_table

pytestmark = pytest.mark.usefixtures("one_thread")


def test_table(door: Any, data: Path, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("benchmark_shards"), "PAUSE", 0.001)
    text = ("-s", data / "gold.de", "-t", data / "gold.en", "-m", data / "models" / "one")
    options = ("--files", 3, "--lines", 40, "--rounds", 1, "--memory-files", 2, 3, 4, "--workers", 2)
    result = command("benchmark-shards", *text, *options)
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "benchmark_shards.tsv")
    assert sign.startswith("# python eval/run.py benchmark-shards -s gold.de -t gold.en --files 3 --lines 40 ")
    assert sign[2:] in result.out
    found = {row["what"]: float(row["value"]) for row in rows}
    assert found["3 files / one file"] == pytest.approx(found["3 files"] / found["one file"], rel=0.2)
    assert [row["unit"] for row in rows] == ["rows/s", "rows/s", "x", "MB", "MB"]
    assert found["peak of the largest worker, 3 files"] > 50


def test_a_short_text_begins_again(door: Any, tmp_path: Path) -> None:
    pairs = [Pair(("das", "haus"), ("the", "house"), 1), Pair((), (), 2), Pair(("ist",), ("is",), 3)]
    importlib.import_module("benchmark_shards").write_files(pairs, 2, 2, tmp_path / "files")
    texts = [path.read_text() for path in sorted((tmp_path / "files").iterdir())]
    assert texts == ["das haus\tthe house\n\t\n", "ist\tis\ndas haus\tthe house\n"]
