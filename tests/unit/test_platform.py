"""What programs and the package say on Windows, which lacks modules that they need, and the CPU quotas of Linux."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from align.io.process import cpu_quota

BEGIN = """
import sys
sys.platform = "win32"
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
"""
MESSAGE = "Linux or macOS is needed; on Windows, install and run it in WSL"


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BEGIN + script], capture_output=True, text=True)


def test_every_command_says_in_one_line_what_it_needs() -> None:
    for words in (["--help"], ["score", "x"]):
        result = run(f"from align.cli.main import main; sys.exit(main({words}))")
        assert (result.returncode, result.stdout, result.stderr) == (1, "", f"extract-align: error: {MESSAGE}\n")


def test_the_package_does_too() -> None:
    result = run("import align; print(align.__version__); align.load")
    assert (result.returncode, result.stderr.splitlines()[-1]) == (1, f"ImportError: {MESSAGE}")
    assert result.stdout


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
