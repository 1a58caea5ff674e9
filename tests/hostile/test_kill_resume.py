"""One run that is killed and goes on; `scripts/fuzz kill-resume` does many."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.driver import search
from tests.hostile.kill_resume import CASES, kill_case


def test_killed_it_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    counts = search(kill_case(tmp_path, [CASES[0]._replace(lines=300)]), 1, 3)
    assert counts["wrong"] == 0
    assert sum(counts.values()) == 1
