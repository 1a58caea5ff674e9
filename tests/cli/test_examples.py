"""What the demo shows a newcomer runs, and shows what it promises."""

from __future__ import annotations

import doctest
import subprocess
import sys

from tests.conftest import ROOT


def test_weight_and_norm_side_by_side() -> None:
    command = [sys.executable, "examples/weight_and_norm.py"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert shown.count("attention weight") == 2
    assert "1-4 3-0 3-3 4-1 5-2 6-5      0-3 1-4 3-0 4-1 5-2 6-5" in shown


def test_both_directions_side_by_side() -> None:
    command = [sys.executable, "examples/both_directions.py"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith("de-en (")] == ["both", "both"]


def test_the_readme_counts_as_it_says() -> None:
    blocks = (ROOT / "README.md").read_text(encoding="utf-8").split("```pycon\n")
    (block,) = (block.split("```")[0] for block in blocks if "count_all" in block)
    test = doctest.DocTestParser().get_doctest(block, {}, "README.md", None, None)
    assert doctest.DocTestRunner().run(test) == (0, 5)
