"""The notebook in examples/ shows what it would show if it were run today."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.conftest import ROOT

NOTEBOOK = ROOT / "examples" / "alignments.ipynb"


def shown(notebook: Any) -> list[tuple[str, str]]:
    """What stands below its cells, as text; of pictures only that there is one, since scores are the processor's."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [
        ("picture", "") if "text/html" in data else ("text", output.get("text") or data["text/plain"])
        for output in outputs
        for data in [output.get("data", {})]
    ]


def test_the_notebook_shows_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs nbclient")
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient")
    pytest.importorskip("ipykernel", reason="needs ipykernel")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", ""))))
    stored = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(stored)
    run = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(run, timeout=300, kernel_name="python3").execute()
    assert shown(run) == shown(stored), "python -m jupyter execute --inplace examples/alignments.ipynb writes it anew"
    assert [kind for kind, _ in shown(run)] == ["text", "picture", "text", "text", "text"]
