"""`examples/to_hugging_face.py`: what it converts, and what it refuses."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from align import ModelError
from align.models.fairseq.checkpoint import load_checkpoint
from align.models.folder import BUNDLED
from examples.to_hugging_face import convert
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_model_that_cannot_be_converted_leaves_no_folder(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(BUNDLED / "de-en", model)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(FileExistsError):
        convert("de-en", tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        convert("de-en", tmp_path / "file" / "x")
    with pytest.raises(ModelError, match="no such"):
        convert(str(tmp_path / "nothing"), tmp_path / "out")
    state = load_checkpoint(model / "checkpoint.pt")
    damages: list[tuple[str, torch.Tensor | None, str]] = [
        ("encoder.layers.0.fc1.weight", None, "encoder.layers.0.fc1.weight"),
        ("decoder.embed_tokens.weight", torch.tensor(1.0), "not this model's dictionary"),
    ]
    for name, weight, message in damages:
        weights = {**state["model"], name: weight}
        weights = {key: value for key, value in weights.items() if value is not None}
        torch.save({**state, "model": weights}, model / "checkpoint.pt")
        with pytest.raises(ValueError, match=message):
            convert(str(model), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_program_converts_or_says_why_not(tmp_path: Path) -> None:
    program = [sys.executable, "examples/to_hugging_face.py"]
    subprocess.run([*program, "de-en", tmp_path / "moved"], cwd=ROOT, check=True)
    assert (tmp_path / "moved" / "model.safetensors").exists()
    result = subprocess.run(
        [*program, "de-en", tmp_path / "moved" / "model.toml"], cwd=ROOT, capture_output=True, text=True
    )
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith("examples/to_hugging_face.py: error: ")
