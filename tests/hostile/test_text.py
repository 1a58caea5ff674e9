"""Anything as text, and as a recipe: a little of what `scripts/fuzz` does for longer, and what it once found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.hostile import fuzz_recipes, fuzz_text

FOUND = sorted((ROOT / "tests" / "hostile" / "found" / "bytes").iterdir())


def test_bytes_are_read_as_the_documentation_says() -> None:
    counts = fuzz_text.read_bytes(5000, 7)
    assert counts["wrong"] == 0
    assert min(counts["read"], counts["refused"]) > 500


@pytest.mark.parametrize("path", FOUND, ids=[path.name for path in FOUND])
def test_bytes_that_are_odd_are_read_alike(path: Path) -> None:
    assert fuzz_text.read(path.read_bytes()) in ("read", "refused")


@pytest.mark.parametrize(
    ("count", "seed", "arguments"),
    [(150, 8, []), (60, 8, ["--reverse-model", "en-de"]), (60, 7, ["--threshold", "none"])],
)
def test_lines_of_anything_come_out_in_order(count: int, seed: int, arguments: list[str], tmp_path: Path) -> None:
    counts = fuzz_text.run(count, seed, arguments, tmp_path)
    assert (counts["lines"], counts["lost"], counts["wrong"]) == (count, 0, 0)
    assert counts["links"] > count / 3


def test_recipes_of_anything_are_read_or_refused(tmp_path: Path) -> None:
    counts = fuzz_recipes.run(1000, 7, float("inf"), tmp_path)
    assert counts["wrong"] == 0
    assert min(counts["read"], counts["refused"]) > 100
