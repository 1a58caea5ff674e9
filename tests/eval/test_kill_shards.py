"""What `eval/run.py kill-shards` counts: nothing that goes wrong escapes it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")


@pytest.fixture
def kill_shards(door: Any) -> Any:
    return importlib.import_module("kill_shards")


def test_files_that_differ_that_were_written_twice_and_that_are_left(kill_shards: Any, tmp_path: Path) -> None:
    jobs = kill_shards.Killed("local", tmp_path, [], {"0.tsv": b"0-0\n", "1.tsv": b"1-1\n"})
    out, record = tmp_path / "local", tmp_path / "local" / "_run" / "0.tsv.json"
    record.parent.mkdir(parents=True)

    def look(ended: bool) -> dict[str, int]:
        jobs.counts.clear()
        jobs._look(ended)
        return {name: count for name, count in jobs.counts.items() if count}

    (out / "0.tsv").write_bytes(b"0-0\n")
    record.touch()
    assert look(ended=False) == {}
    assert look(ended=False) == {}
    os.utime(record, ns=(0, 0))
    assert look(ended=False) == {"twice": 1}
    (out / "0.tsv").write_bytes(b"0-1\n")
    assert look(ended=False) == {"differences": 1}
    (out / "2.tsv").touch()
    (out / "_run" / "1.tsv.part").touch()
    assert look(ended=True) == {"differences": 2, "left": 2, "jobs": 1}  # 1.tsv is missing
    assert not out.exists()


def test_processes_of_a_program_are_found(kill_shards: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kill_shards, "PATIENCE", 0.0)
    worker = subprocess.Popen([*SLEEP, kill_shards.EXTRACT], start_new_session=True)
    other = subprocess.Popen(SLEEP)
    try:
        assert kill_shards.left_over({worker.pid}) == [worker.pid]
        assert kill_shards.workers(os.getpid()) == [worker.pid]
    finally:
        for process in (worker, other):
            process.kill()
            process.wait()
    assert kill_shards.left_over({worker.pid}) == []
