"""The notebook in examples/ shows what it would show if it were run today."""

from __future__ import annotations

import importlib.util
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


class Shell:
    """Records what a notebook would run."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, str]] = []

    def run_line_magic(self, name: str, line: str) -> None:
        self.commands.append((name, line))


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
    assert [kind for kind, _ in shown(run)] == ["picture", "text", "text", "text"]


@pytest.mark.parametrize(("spec", "commands"), [("somewhere", []), (None, [("pip", "install -q extract-align")])])
def test_the_package_is_installed_where_it_is_missing(
    spec: object, commands: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs nbclient")
    transform = pytest.importorskip("IPython.core.inputtransformer2", reason="needs ipykernel").TransformerManager()
    first = next(cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "align" else None)
    shell = Shell()
    exec(transform.transform_cell(first.source), {"get_ipython": lambda: shell})
    assert shell.commands == commands
