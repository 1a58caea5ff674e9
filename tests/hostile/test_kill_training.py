"""One kill of `tests.hostile.kill_training`, at a fixed point; the program itself does many at random ones."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.hostile.kill_training import as_rows, attack, finish, model_of, write_text

UPDATES = 40


def said(folder: Path) -> str:
    """All that the program has said so far."""
    path = folder / "said"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def test_a_training_whose_parent_is_killed_ends_and_gives_the_same_model_when_started_again(tmp_path: Path) -> None:
    write_text(tmp_path)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(whole, "best", UPDATES)
    ignore = shutil.ignore_patterns("seed*")  # prepared already: this kill is for the training
    shutil.copytree(whole / "model" / "work", killed / "model" / "work", ignore=ignore)
    found = attack(killed, model_of(whole), "best", "parent", UPDATES, lambda: "update 3: validation" in said(killed))
    assert found is not None
    assert found.during.startswith("update ")
    assert found.differing == ()
    assert found.gone < 30  # or else fairseq trained on by itself
    assert "going on from" in said(killed)
    assert as_rows([found])[1].endswith("\tidentical")
    log = (killed / "model" / "work" / "seed1" / "log").read_text(encoding="utf-8")
    assert log.count("done training") == 1
