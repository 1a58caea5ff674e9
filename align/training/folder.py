"""The folder that a finished model is moved to: no file of the user's is replaced there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from align.io.manifest import digest_of, dump_json, load_json
from align.io.output import open_output

EDITABLE = ("README.md", "model.toml", "training.tsv")
"""Files of a model that may be edited, and then stay as they are."""

RECORD = "written.json"
"""Digests of the files that were moved last, by name; in the folder of the run."""


def refuse_files(folder: Path, names: Iterable[str]) -> None:
    """Refuse a folder that has files of these names.

    Raises:
        ValueError: names one of them.
    """
    for name in names:
        if os.path.lexists(folder / name):
            raise ValueError(f"{folder / name}: exists and would be replaced; move it, or name another folder")


def move_model(draft: Path, folder: Path, run: Path, last: str, tell: Callable[[str], None]) -> None:
    """Move the files of a model to its folder.

    Args:
        draft: has the files, and is removed.
        folder: gets them.
        run: gets the new versions of files that were edited in the folder, which stay as they are.
        last: the file without which the folder is no model.

    Raises:
        ValueError: a file that is not meant to be edited has been replaced, or was not written by this run.
    """
    record = run / RECORD
    written: dict[str, Any] = load_json(record.read_bytes()) if record.is_file() else {}
    digests = {path.name: digest_of(path) for path in draft.iterdir()}
    foreign = [
        name
        for name, digest in digests.items()
        if os.path.lexists(folder / name) and _digest(folder / name) not in (digest, written.get(name))
    ]
    refuse_files(folder, (name for name in foreign if name not in EDITABLE))
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(digests, key=lambda name: name == last):
        if name in foreign:
            (draft / name).replace(run / name)
            tell(f"{folder / name} was edited and stays; the new one is {run / name}")
        else:
            (draft / name).replace(folder / name)
            written[name] = digests[name]
    draft.rmdir()
    with open_output(str(record)) as out:
        out.write(dump_json(written))


def _digest(path: Path) -> str | None:
    return digest_of(path) if path.is_file() else None
