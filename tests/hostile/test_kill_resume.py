"""One run that is killed and gone on with, on every way to run the tests; many with `tests.hostile.kill_resume`."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.kill_resume import CASES, run


def test_killed_it_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    said: list[str] = []
    case = CASES[0]._replace(lines=300)
    (outcome,) = run(1, 3, tmp_path, said.append, [case])
    assert outcome.same
    assert outcome.left == []
    assert outcome.kills == len(outcome.saved) > 0
    assert len(said) == 1
