"""A little of what `scripts/fuzz` does for longer, and what it once found."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES
from tests.hostile import (
    fuzz_links,
    fuzz_markup,
    fuzz_text,
)
from tests.hostile.driver import Case, search
from tests.hostile.link_cases import load

FOUND = Path(__file__).parent / "found"


@pytest.mark.parametrize(
    ("case", "count", "kinds"),
    [
        (fuzz_text.try_bytes, 5000, ("read", "refused")),
        (fuzz_links.try_links, 300, [f"{program} {code}" for program in fuzz_links.PROGRAMS for code in (0, 1)]),
        (fuzz_markup.try_tagging, 500, ("taggings",)),
    ],
)
def test_nothing_goes_wrong(case: Case, count: int, kinds: tuple[str, ...]) -> None:
    counts = search(case, count)
    assert counts["wrong"] == 0
    assert min(counts[kind] for kind in kinds) > count / 20


@pytest.mark.parametrize("path", sorted(FOUND.glob("bytes/*")), ids=lambda path: path.name)
def test_bytes_that_were_found_are_read_alike(path: Path) -> None:
    assert fuzz_text.read(path.read_bytes()) in ("read", "refused")


@pytest.mark.parametrize("path", sorted(FOUND.glob("links/*")), ids=lambda path: path.stem)
def test_links_that_were_found_stay_mended(path: Path) -> None:
    assert fuzz_links.try_case(load(path)).wrong == ""


@pytest.mark.parametrize(
    ("count", "seed", "arguments"),
    [(150, 8, []), (60, 8, ["--reverse-model", "en-de"]), (60, 7, ["--threshold", "none"])],
)
def test_lines_of_anything_come_out_in_order(count: int, seed: int, arguments: list[str]) -> None:
    counts = fuzz_text.run(count, seed, arguments)
    assert (counts["lines"], counts["wrong"]) == (count, 0)
    assert counts["links"] > count / 3


def test_a_run_that_is_killed_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    """Kill it at once and after each of the first shards; then let it end."""
    lines = [line for line in EXAMPLES.read_text(encoding="utf-8").splitlines() if line] * 10
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = ["align", "-q", "--threads", "1", "--device", "cpu", "--buffer", "8", "text", "-o"]
    subprocess.run([sys.executable, "-m", *command, "whole"], cwd=tmp_path, check=True)
    for shards in range(3):
        with subprocess.Popen([sys.executable, "-m", *command, "links", "--resume"], cwd=tmp_path) as process:
            while process.poll() is None and not (tmp_path / f"links.parts/{shards:05}.json").exists() and shards:
                time.sleep(0.002)
            process.kill()
    subprocess.run([sys.executable, "-m", *command, "links", "--resume"], cwd=tmp_path, check=True)
    assert (tmp_path / "links").read_bytes() == (tmp_path / "whole").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"text", "whole", "links", "links.run.json"}
