"""What damaged files of links may not do; cases that once did it; and whether the judge sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile import fuzz_links
from tests.hostile.fuzz_links import replay, run
from tests.hostile.link_cases import load, make

FOUND = sorted((Path(__file__).parent / "found" / "links").glob("*.json"))


def test_no_damage_does_more_than_end_the_command(tmp_path: Path) -> None:
    said: list[str] = []
    counts = run(300, 7, say=said.append, keep=tmp_path / "kept")
    assert (counts["failed"], said[:-1]) == (0, [])
    assert counts["cases"] == 300
    assert min(counts[f"{program} {code}"] for program in fuzz_links.PROGRAMS for code in (0, 1)) > 20
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_stays_mended(path: Path) -> None:
    assert replay(path) == ""


def test_a_case_depends_on_its_seed_and_number_and_is_kept_whole(tmp_path: Path) -> None:
    assert make(3, 4) == make(3, 4) != make(3, 5)
    for n in range(50):
        make(3, n).save(tmp_path / "case.json")
        assert load(tmp_path / "case.json") == make(3, n)
