"""The scripts tell what they do without setting anything up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

BARE_PYTHON = Path(sys.base_prefix) / "bin" / "python3"
"""Python without what this package needs."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout without .venv."""
    copy = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "scripts", copy / "scripts")
    shutil.copytree(ROOT / "align", copy / "align", ignore=shutil.ignore_patterns("*.pt", "*.spm", "__pycache__"))
    return copy


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "scripts").iterdir()))
def test_help_comes_without_setting_anything_up(name: str, checkout: Path, tmp_path: Path) -> None:
    if name == "train_model" and sys.version_info < (3, 11):
        pytest.skip("needs tomli on Python 3.10, as scripts/setup needs 3.11")
    before = sorted(checkout.rglob("*"))
    environment = {"PATH": os.environ["PATH"], "PYTHON": str(BARE_PYTHON), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(checkout / "scripts" / name), "--help"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("usage: ")
    assert name in result.stdout.partition("\n")[0]
    assert sorted(checkout.rglob("*")) == before
