"""What damaged files of links may not do; cases that once did it; and whether the judge sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile import fuzz_links
from tests.hostile.fuzz_links import Outcome, execute, judge, replay, run
from tests.hostile.link_cases import Case, load, make

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


def test_there_are_cases_that_were_found() -> None:
    assert len(FOUND) >= 8


def test_a_case_depends_on_its_seed_and_number_and_is_kept_whole(tmp_path: Path) -> None:
    assert make(3, 4) == make(3, 4) != make(3, 5)
    for n in range(50):
        make(3, n).save(tmp_path / "case.json")
        assert load(tmp_path / "case.json") == make(3, n)


CASE = Case("eval-align", ["-g", "./gold", "./hyp", "-f", "json"], {"gold": "0-0\n", "hyp": "0-0\n"})


@pytest.mark.parametrize(
    ("outcome", "part"),
    [
        (Outcome(0, "{}\n", "", 0.1), ""),
        (Outcome(1, "", "eval-align: error: ./gold, line 1: no\n", 0.1), ""),
        (Outcome(-1, "", "Traceback (most recent call last):\nKeyError: 3\n", 0.1), "KeyError"),
        (Outcome(3, "", "", 0.1), "exit code 3"),
        (Outcome(1, "", "eval-align: error: something\n", 0.1), "no line that says"),
        (Outcome(1, "", "", 0.1), "no line that says"),
        (Outcome(0, "{}\n", "", 99.0), "took 99.0 s"),
        (Outcome(0, '"\u202e"\n', "", 0.1), "acts on a terminal"),
        (Outcome(0, "{}\n", "eval-align: warning: \x1b\n", 0.1), "acts on a terminal"),
        (Outcome(1, "", f"eval-align: error: ./gold {'x' * 5000}\n", 0.1), "endless"),
        (Outcome(0, "{\n", "", 0.1), "no JSON"),
    ],
)
def test_the_judge(outcome: Outcome, part: str) -> None:
    assert part in judge(CASE, outcome)
    assert bool(judge(CASE, outcome)) == bool(part)


def test_the_judge_holds_a_case_to_what_it_promises() -> None:
    done = Outcome(0, "0-0\n", "", 0.1)
    combining = Case("combine-align", [], {"a": "0-0\n"}, lines=2, code=0)
    assert "1 lines, not 2" in judge(combining, done)
    assert "exit code 1, not 0" in judge(combining, Outcome(1, "", "combine-align: error: a: no\n", 0.1))
    assert "and not 'that'" in judge(Case("combine-align", [], {}, says="that"), done)


def test_what_fails_is_kept_and_fails_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken() -> int:
        raise ZeroDivisionError("of a test")

    monkeypatch.setattr(fuzz_links, "PROGRAMS", dict.fromkeys(fuzz_links.PROGRAMS, broken))
    said: list[str] = []
    assert run(2, 1, say=said.append, keep=tmp_path / "kept")["failed"] == 2
    kept = sorted((tmp_path / "kept").iterdir())
    assert [path.name for path in kept] == ["seed1-case0.json", "seed1-case1.json"]
    assert all("ZeroDivisionError: of a test" in replay(path) for path in kept)
    monkeypatch.undo()
    assert [replay(path) for path in kept] == ["", ""]


def test_it_stops_in_time_and_leaves_the_process_as_it_was() -> None:
    before = Path.cwd()
    assert run(1000, 1, seconds=0, say=lambda text: None)["cases"] == 0
    execute(CASE)
    assert Path.cwd() == before
