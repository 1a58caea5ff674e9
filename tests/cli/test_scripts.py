"""The scripts tell what they do without setting anything up; README is held to what it shows."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

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


SHELL = [path for path in sorted((ROOT / "scripts").iterdir()) if path.read_bytes().startswith(b"#!/usr/bin/env bash")]


README = """
## Install

```console
$ export \\
    WORD=Haus
```

```console
$ exit 1
```

## First links

```console
$ echo "$WORD 0-0"  # in place of extract-align
Haus 0-0
extract-align: 1 line
align|m|v:0
```

## From Python

```pycon
>>> import os
>>> os.environ["WORD"], object()
('Haus', <object ...>)
```
"""


def check_install(readme: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`scripts/check_install` on a checkout that has a README only."""
    loader = SourceFileLoader("check_install", str(ROOT / "scripts" / "check_install"))
    spec = spec_from_loader(loader.name, loader)
    assert spec
    module: Any = module_from_spec(spec)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", folder / "checkout")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("checkout", "empty"):
        (folder / name).mkdir()
    (folder / "checkout" / "README.md").write_text(readme, encoding="utf-8")
    module.check(folder / "empty")


def test_what_readme_shows_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_install(README, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\nHaus 0-0", "\nHaus 0-1", "README.md shows\nHaus 0-1\nbut this comes out:\nHaus 0-0\n"),
        ("WORD=Haus", "WORD=Haus; false", "the last command above ends with exit code 1"),
        ("('Haus'", "('Hut'", "the last command above ends with exit code 1\n(.*\n)*Expected:\n +\\('Hut'"),
        ("## Install", "## Set up", "README.md has no section 'Install'"),
        ("```pycon", "```python", "README.md has no pycon block where one was looked for"),
    ],
)
def test_what_does_not_come_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check_install(README.replace(old, new), tmp_path, monkeypatch)
