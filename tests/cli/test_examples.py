"""What the demo shows a newcomer runs, and shows what it promises."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import ROOT


def test_weight_and_norm_side_by_side() -> None:
    command = [sys.executable, "examples/weight_and_norm.py"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert shown.count("attention weight") == 2
    assert "wrong: the = meine           wrong: none" in shown


def test_both_directions_side_by_side() -> None:
    command = [sys.executable, "examples/both_directions.py"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith("de-en (")] == ["both", "both"]
