"""The folder that a finished model is moved to: no file of the user's is replaced there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from align.core.errors import DataError, one_line
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
        DataError: the record of what was written is damaged.
    """
    record = run / RECORD
    written = _read(record)
    digests = {path.name: digest_of(path) for path in draft.iterdir()}
    foreign = {
        name
        for name, digest in digests.items()
        if os.path.lexists(folder / name) and _digest(folder / name) not in (digest, *written.get(name, ()))
    }
    refuse_files(folder, sorted(foreign - {*EDITABLE}))
    folder.mkdir(parents=True, exist_ok=True)
    moved = {name: [*written.get(name, ()), digest] for name, digest in digests.items() if name not in foreign}
    _write(record, written | moved)  # before the first is moved: the process may end in between
    for name in sorted(digests, key=lambda name: name == last):
        if name in foreign:
            (draft / name).replace(run / name)
            tell(f"{folder / name} was edited and stays; the new one is {run / name}")
        else:
            (draft / name).replace(folder / name)
    draft.rmdir()
    _write(record, written | {name: [digests[name]] for name in moved})


def _read(record: Path) -> dict[str, list[str]]:
    """Return the digests of the files that may have been moved, by name."""
    try:
        content = load_json(record.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise DataError(f"damaged: {one_line(error)}", file=str(record), hint="remove it") from None
    if not isinstance(content, dict) or not all(isinstance(digests, list) for digests in content.values()):
        raise DataError("damaged: not lists by name", file=str(record), hint="remove it")
    return content


def _write(record: Path, written: dict[str, list[str]]) -> None:
    with open_output(str(record)) as out:
        out.write(dump_json(written))


def _digest(path: Path) -> str:
    return digest_of(path) if path.is_file() else "no file"
