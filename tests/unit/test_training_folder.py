"""A finished model in its folder: what was edited stays, what is not this run's is not replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from align.core.errors import DataError
from align.training import folder as model_folder
from align.training.folder import RECORD, move_model


def finish(root: Path, **files: str) -> list[str]:
    draft = root / "run" / "draft"
    draft.mkdir(parents=True)
    for name, content in files.items():
        (draft / name.replace("_", ".")).write_text(content)
    told: list[str] = []
    move_model(draft, root / "model", root / "run", "checkpoint.pt", told.append)
    assert not draft.exists()
    return told


def contents(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (root / "model").iterdir()}


def test_repeated_trainings_replace_their_own_files_only(tmp_path: Path) -> None:
    assert finish(tmp_path, README_md="one", checkpoint_pt="a", de_spm="x") == []
    assert finish(tmp_path, README_md="two", checkpoint_pt="b", de_spm="x") == []
    assert contents(tmp_path) == {"README.md": "two", "checkpoint.pt": "b", "de.spm": "x"}
    (tmp_path / "model" / "README.md").write_text("mine")
    (told,) = finish(tmp_path, README_md="three", checkpoint_pt="c", de_spm="x")
    new = tmp_path / "run" / "README.md"
    assert told == f"{tmp_path / 'model' / 'README.md'} was edited and stays; the new one is {new}"
    assert (contents(tmp_path)["README.md"], new.read_text()) == ("mine", "three")
    (tmp_path / "model" / "de.spm").write_text("mine")
    with pytest.raises(ValueError, match=r"de\.spm: exists and would be replaced; move it"):
        finish(tmp_path, README_md="four", checkpoint_pt="d", de_spm="y")
    assert contents(tmp_path) == {"README.md": "mine", "checkpoint.pt": "c", "de.spm": "mine"}


def test_a_move_that_ends_halfway_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(tmp_path, README_md="one", checkpoint_pt="a")
    write = model_folder._write

    def end(record: Path, written: dict[str, list[str]]) -> None:
        write(record, written)
        (tmp_path / "run" / "draft" / "README.md").replace(tmp_path / "model" / "README.md")
        raise KeyboardInterrupt

    monkeypatch.setattr(model_folder, "_write", end)
    with pytest.raises(KeyboardInterrupt):
        finish(tmp_path, README_md="two", checkpoint_pt="b")
    monkeypatch.undo()
    (tmp_path / "run" / "draft" / "checkpoint.pt").unlink()
    (tmp_path / "run" / "draft").rmdir()
    assert finish(tmp_path, README_md="three", checkpoint_pt="c") == []
    assert contents(tmp_path) == {"README.md": "three", "checkpoint.pt": "c"}


@pytest.mark.parametrize("content", ["", "{", "[]", "5", '{"a": 1}'])
def test_a_damaged_record_is_named(content: str, tmp_path: Path) -> None:
    finish(tmp_path, checkpoint_pt="a")
    (tmp_path / "run" / RECORD).write_text(content)
    with pytest.raises(DataError) as error:
        finish(tmp_path, checkpoint_pt="b")
    assert (error.value.file, error.value.hint) == (str(tmp_path / "run" / RECORD), "remove it")


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "model" / "de.spm").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"de\.spm: exists"):
        finish(tmp_path, checkpoint_pt="a", de_spm="x")
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["de.spm"]
