"""`examples/to_hugging_face.py`: what it converts, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_program_converts_or_says_why_not(tmp_path: Path) -> None:
    program = [sys.executable, "examples/to_hugging_face.py"]
    subprocess.run([*program, "de-en", tmp_path / "moved"], cwd=ROOT, check=True)
    assert (tmp_path / "moved" / "model.safetensors").exists()
    result = subprocess.run(
        [*program, "de-en", tmp_path / "moved" / "model.toml"], cwd=ROOT, capture_output=True, text=True
    )
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith("examples/to_hugging_face.py: error: ")
