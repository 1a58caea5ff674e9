"""`python -m tests.freeze --old DIR [--new DIR] [--only GROUP,…] [--case PART] [--out FOLDER]`."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.freeze import cases, inputs
from tests.freeze.compare import compare, new_arguments

DRIVER = Path(__file__).with_name("driver.py")
SECONDS = 300.0
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "PYTHONSAFEPATH": "1", "SOURCE_DATE_EPOCH": "0",
    "HF_HUB_OFFLINE": "1", "COLUMNS": "80", "PYTHONHASHSEED": "0", "PYTHONUTF8": "1",
}  # fmt: skip


def digest(paths: Sequence[Path]) -> str:
    """Return a digest of the contents of files."""
    found = hashlib.sha256()
    for path in paths:
        found.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def files_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]


class Side:
    """A tree, the process that runs cases with it, and its earlier results."""

    def __init__(self, tree: Path, out: Path, name: str, version: str) -> None:
        self.tree, self.folder = tree.resolve(), out / name
        self.results = out / "results" / f"{digest(files_in(self.tree / 'align'))}-{version}"
        self.results.mkdir(parents=True, exist_ok=True)
        self.environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(self.tree)}
        self.inputs = out / "inputs"
        self.process: Any = None

    def run(self, words: list[str], keep: bool) -> dict[str, Any]:
        """Return the result of a case, an earlier one if it is to be kept and there is one."""
        operations = digest([DRIVER]) if any(word[:1] == "@" for word in words) else ""
        key = hashlib.sha256(json.dumps([operations, *words]).encode()).hexdigest()
        path = self.results / f"{key[:24]}.json.gz"
        if keep and path.exists():
            return dict(json.loads(gzip.decompress(path.read_bytes())))
        if self.process is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, str(DRIVER), str(self.folder), str(self.inputs), str(SECONDS)]
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self.process = subprocess.Popen(command, cwd=self.folder, env=self.environment, **pipes)
            if self.process.stdout.readline() != "ready\n":
                raise SystemExit(f"the cases cannot be run with {self.tree}")
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        result: dict[str, Any] = json.loads(self.process.stdout.readline())
        path.write_bytes(gzip.compress(json.dumps({"words": words, **result}).encode(), 1))
        return result

    def measure(self, words: list[str]) -> tuple[float, float]:
        """Run a command as a process of its own; return its seconds and the most memory it had, in MiB."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "align", *(str(self.inputs / w[3:]) if w[:3] == "in/" else w for w in words)]
        began = time.monotonic()
        streams: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment, **streams)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return time.monotonic() - began, usage.ru_maxrss / 1024

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def judge(name: str, old: dict[str, Any], new: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return what differs, and what is wrong with the case itself; and what is near."""
    found, near = compare(old, new)
    for side, result in (("old", old), ("new", new)):
        if 70 in result["codes"] or -9 in result["codes"]:
            found.append(f"fails in the {side} tree, or takes too long: {result['err'][-300:]!r}")
        if ": the same False" in result["out"]:
            found.append(f"the {side} tree's killed runs have other bytes in the end: {result['out']!r}")
        if name.startswith("kills/") and "killed\n" not in result["err"]:
            found.append(f"no run of the {side} tree was killed")
    return found, near


def compare_speed(sides: Sequence[Side], times: int = 3) -> None:
    """Print the seconds and the memory of commands with both trees, by turns, and their ratios."""
    for name, words in cases.SPEED.items():
        measured: list[list[tuple[float, float]]] = [[], []]
        for _ in range(times):
            for side, found in zip(sides, measured, strict=True):
                found.append(side.measure(words if side is sides[0] else new_arguments(words)))
        seconds, memory = ([statistics.median(x[n] for x in found) for found in measured] for n in (0, 1))
        print(
            f"speed/{name}: old {seconds[0]:.2f} s, {memory[0]:.0f} MiB; new {seconds[1]:.2f} s, {memory[1]:.0f} MiB; "
            f"new/old {seconds[1] / seconds[0]:.2f} of the time, {memory[1] / memory[0]:.2f} of the memory",
            flush=True,
        )


def main() -> int:
    """Run the cases with both trees and print what differs; return 1 if anything does."""
    parser = argparse.ArgumentParser(prog="python -m tests.freeze", description=__doc__)
    parser.add_argument("--old", type=Path, required=True, help="source tree to compare with")
    parser.add_argument("--new", type=Path, default=ROOT, help="source tree (default: this one)")
    parser.add_argument("--only", default="", help=f"groups, with commas between: {', '.join(cases.GROUPS)}, speed")
    parser.add_argument("--case", default="", help="only cases with this in their names")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "freeze", help="inputs and results")
    parser.add_argument("--near", action="store_true", help="list numbers that differ in their last digit, too")
    options = parser.parse_args()
    groups = options.only.split(",") if options.only else [*cases.GROUPS, "speed"]
    if unknown := {*groups} - {*cases.GROUPS, "speed"}:
        parser.error(f"no group {', '.join(sorted(unknown))}")
    out = options.out.resolve()
    inputs.build(out / "inputs")
    version = digest(files_in(out / "inputs"))
    sides = [Side(getattr(options, name), out, name, version) for name in ("old", "new")]
    chosen = {
        f"{group}/{name}": words
        for group in groups
        if group in cases.GROUPS
        for name, words in cases.GROUPS[group](out / "inputs").items()
        if options.case in f"{group}/{name}"
    }
    if options.case and not chosen:
        parser.error(f"no case {options.case}")
    count = {"differ": 0, "differ in the last digit of numbers only": 0}
    with ThreadPoolExecutor(2) as pool:
        try:
            for name, words in chosen.items():
                old = pool.submit(sides[0].run, words, True)
                new = pool.submit(sides[1].run, new_arguments(words), False)
                found, near = judge(name, old.result(), new.result())
                count["differ"] += bool(found)
                count["differ in the last digit of numbers only"] += bool(near and not found)
                for line in [*found, *(f"near: {line}" for line in near if options.near)]:
                    print(f"{name}: {line}", flush=True)
        finally:
            for side in sides:
                side.close()
    if "speed" in groups and not options.case:
        compare_speed(sides)
    print(f"{len(chosen)} cases, of which", ", ".join(f"{number} {what}" for what, number in count.items()))
    return int(count["differ"] > 0)


if __name__ == "__main__":
    sys.exit(main())
