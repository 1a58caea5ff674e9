"""The door of eval/: its commands, help that does not wait for torch, and how it fails."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.eval.conftest import Result


def test_help_names_every_command_and_loads_no_torch(door: Any) -> None:
    names = tuple(door.COMMANDS)
    script = f"""
import contextlib, runpy, sys
sys.path.insert(0, {str(ROOT / "eval")!r})
for arguments in (["--help"], *([name, "--help"] for name in {names!r})):
    sys.argv = ["run.py", *arguments]
    with contextlib.suppress(SystemExit):
        runpy.run_path({str(ROOT / "eval" / "run.py")!r}, run_name="__main__")
print("loaded:", sorted({{"torch", "fairseq", "scipy"}} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.endswith("loaded: []\n")
    for name in names:
        assert f"\n    {name} " in result.stdout or f"\n    {name}\n" in result.stdout
        assert f"eval/run.py {name} " in result.stdout.replace("\n", " ")


def test_a_command_takes_its_options(door: Any) -> None:
    for name, options in door.COMMANDS.items():
        names = {max(option.names, key=len).strip("-").replace("-", "_") for option in options} | {"output"}
        assert set(inspect.signature(importlib.import_module(door.module_of(name)).run).parameters) == names


def test_data_must_be_named(door: Any, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXTRACT_ALIGN_DATA", raising=False)
    for name in (name for name, options in door.COMMANDS.items() if door.DATA in options):
        positional = [option.names[0] for option in door.COMMANDS[name] if option.names[0].isidentifier()]
        result = command(name, *(("folder",) if "folder" in positional else ()))
        assert (result.code, result.out) == (2, "")
        assert "--data" in result.err


def test_what_is_wrong_with_the_data_is_one_line(command: Callable[..., Result]) -> None:
    result = command("quality", "nowhere", "no-such-model")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("quality: error: ")
    assert result.err.count("\n") == 1
