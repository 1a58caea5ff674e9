"""The folder that a finished model is moved to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def refuse_files(folder: Path, names: Iterable[str]) -> None:
    """Refuse a folder that has files of these names."""
    for name in names:
        if os.path.lexists(folder / name):
            raise ValueError(f"{folder / name}: exists and would be replaced; move it, or name another folder")


def is_current(weights: Path, checkpoint: Path) -> bool:
    """Tell whether the weights of a model folder are newer than the last checkpoint of its run."""
    return weights.exists() and weights.stat().st_mtime_ns >= checkpoint.stat().st_mtime_ns


def move_model(draft: Path, folder: Path, last: str) -> None:
    """Move the files of a model to its folder, the one without which it is no model last; the draft is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(draft.iterdir(), key=lambda path: path.name == last):
        path.replace(folder / path.name)
    draft.rmdir()
