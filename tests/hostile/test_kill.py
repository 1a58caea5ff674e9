"""Processes that are killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import EXAMPLES


def test_a_run_that_is_killed_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    """Kill it at once and after each of the first shards; then let it end."""
    lines = [line for line in EXAMPLES.read_text(encoding="utf-8").splitlines() if line] * 10
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = ["align", "-q", "--threads", "1", "--device", "cpu", "--buffer", "8", "text", "-o"]
    subprocess.run([sys.executable, "-m", *command, "whole"], cwd=tmp_path, check=True)
    for shards in range(3):
        with subprocess.Popen([sys.executable, "-m", *command, "links", "--resume"], cwd=tmp_path) as process:
            while process.poll() is None and not (tmp_path / f"links.parts/{shards:05}.json").exists() and shards:
                time.sleep(0.002)
            process.kill()
    subprocess.run([sys.executable, "-m", *command, "links", "--resume"], cwd=tmp_path, check=True)
    assert (tmp_path / "links").read_bytes() == (tmp_path / "whole").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"text", "whole", "links", "links.run.json"}
