"""Programs in this process, as in tests/cli, and jobs with a toy model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from align.cli import main
from align.models import text_check
from tests import toy
from tests.cli.conftest import Result
from tests.cli.conftest import run_main as run_main
from tests.scale.jobs import command


@pytest.fixture
def run(run_main: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs extract-align with a toy model, whose weights are random, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(text_check, "_inconsistent", lambda *of_text: iter(()))
    toy.save_model(tmp_path / "toy")
    toy.store_cells(tmp_path / "toy", ("de", "en"))
    (tmp_path / "in").mkdir()
    return lambda *arguments: run_main(main.main, *command(*arguments))
