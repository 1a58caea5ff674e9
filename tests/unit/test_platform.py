"""The CPU quotas of Linux, the announced end of a process, and the bytes of a clone on Windows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from align.io.process import cpu_quota
from tests.conftest import ROOT

END = """
import os
from align.io.process import announced_end
with announced_end("it has ended"):
    if {at_once}:
        os._exit(3)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs sh; only jobs on Ray announce their end")
@pytest.mark.parametrize("at_once", [True, False])
def test_an_end_at_once_is_announced(at_once: bool) -> None:
    result = subprocess.run([sys.executable, "-c", END.format(at_once=at_once)], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == ((3, "it has ended\n") if at_once else (0, ""))


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "5000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, None),
        ({}, None),
    ],
)
def test_cores_that_a_quota_allows(files: dict[str, str], cores: int | None, tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="latin-1")
    assert cpu_quota(tmp_path) == cores


@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="needs git and a clone")
def test_a_clone_on_windows_has_the_same_bytes(tmp_path: Path) -> None:
    """Git for Windows would write CRLF at the ends of lines, on which fingerprints and results depend."""

    def git(*arguments: str, folder: Path = ROOT) -> list[str]:
        return subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.split()

    folders = ("align/models/bundled", "examples", "scripts", "tests/golden")
    names = git("ls-files", *folders)
    as_windows = ("-c", "core.autocrlf=true", "-c", "core.eol=crlf")
    git(*as_windows, "checkout-index", f"--prefix={tmp_path}/", *names)
    written = git("hash-object", "--no-filters", *(str(tmp_path / name) for name in names))
    assert written == git("ls-files", "--format=%(objectname)", *folders)
