"""A finished model in its folder."""

from __future__ import annotations

import os
from pathlib import Path

from align.training.folder import is_current, move_model


def test_a_model_is_moved_weights_last_and_is_current_until_its_run_goes_on(tmp_path: Path) -> None:
    draft, folder, run = tmp_path / "draft", tmp_path / "model", tmp_path / "checkpoint_last.pt"
    run.touch()
    draft.mkdir()
    (draft / "README.md").write_text("two")
    (draft / "checkpoint.pt").write_text("b")
    weights = folder / "checkpoint.pt"
    assert not is_current(weights, run)
    folder.mkdir()
    (folder / "README.md").write_text("of a move that was killed")
    move_model(draft, folder, "checkpoint.pt")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"README.md": "two", "checkpoint.pt": "b"}
    assert not draft.exists()
    assert is_current(weights, run)
    os.utime(run, ns=(0, weights.stat().st_mtime_ns + 1))
    assert not is_current(weights, run)
