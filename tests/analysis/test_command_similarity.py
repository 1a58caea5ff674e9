"""`extract-align analyse similarity`: exact signature, all heads, figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from align.analysis.commands.program import main
from tests.cli.conftest import Result, failed
from tests.conftest import ROOT

pytest.importorskip("sklearn")

TEXT = str(ROOT / "examples" / "de-en.txt")


def test_tables_of_the_bundled_model(run_main: Callable[..., Result], tmp_path: Path) -> None:
    arguments = ("similarity", "-q", "-f", "json", TEXT, "--parts", "encoder", "--plots", str(tmp_path / "s"))
    result = run_main(main, *arguments)
    found = json.loads(result.out)
    assert (result.code, result.err) == (0, "")
    assert found["signature"].startswith("analysis|similarity|fairseq:de-en@f9bf75b|n:20|seed:1|v:")
    assert len(found["heads"]) == 2 * 3 * 4
    (row,) = (row for row in found["heads"] if (row["part"], row["measure"], row["head"]) == ("encoder", "a", "2-3"))
    assert (row["nearest"], row["distance"]) == ("3-3", pytest.approx(0.416, abs=0.002))
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["s.encoder.norm.png", "s.encoder.weight.png"]


def test_heads_are_left_out_of_narrow_text(run_main: Callable[..., Result]) -> None:
    result = run_main(main, "similarity", "-q", TEXT, "--parts", "encoder")
    lines = result.out.decode().splitlines()
    assert lines[0] == "part     layer  measure  within the layer  to other layers"
    assert len(lines) == 2 + 6 + 2 + 1
    assert max(map(len, lines)) <= 102
    assert result.out == run_main(main, "similarity", "-q", TEXT, "--parts", "encoder").out


def test_nothing_to_read(run_main: Callable[..., Result]) -> None:
    failed(run_main(main, "similarity", "-q", "-s", "-", stdin="\n\n"), "no line that the model can read")
