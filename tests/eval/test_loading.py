"""`eval/run.py benchmark-loading`: folders of published shapes, made small, and what loading them takes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.eval.conftest import Result, read_table


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs Linux's /proc")
def test_table(data: Path, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("benchmark_loading")
    small = {"layers": 2, "heads": 2, "width": 16, "hidden": 24}
    monkeypatch.setattr(module, "SHAPES", {name: shape._replace(**small) for name, shape in module.SHAPES.items()})
    options = ("--shapes", "opus-mt", "nllb-600M", "--dtypes", "bfloat16", "--rounds", 1, "--pieces", 1200)
    result = command("benchmark-loading", *options)
    assert result.code == 0, result.err
    sign, rows = read_table(data / "results" / "benchmark_loading.tsv")
    assert sign.startswith(
        "# python eval/run.py benchmark-loading --shapes opus-mt nllb-600M --dtypes bfloat16 --rounds 1"
    )
    assert [(row["model"], row["file"]) for row in rows] == [
        (name, file) for name in ("opus-mt", "nllb-600M") for file in module.FILES
    ]
    assert all(0 < float(row["cpu_seconds"]) < 60 and 0 < float(row["peak_mb"]) < 1000 for row in rows)
    budget = 1.3 * 2 * 1e6 * float(rows[0]["millions_of_parameters"]) + 1e9
    assert float(rows[0]["percent_of_budget"]) == pytest.approx(100e6 * float(rows[0]["peak_mb"]) / budget, abs=1)


def test_an_unknown_shape_is_named(data: Path, command: Callable[..., Result]) -> None:
    result = command("benchmark-loading", "--shapes", "huge")
    assert (result.code, result.out) == (1, "")
    assert "shapes are opus-mt, nllb-600M, nllb-3.3B; not 'huge'" in result.err
