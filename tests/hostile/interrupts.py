"""Ctrl-C at random moments after the start: how often it is lost, prints a traceback, or leaves something behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.conftest import EXAMPLES, ROOT
from tests.hostile import driver
from tests.hostile.driver import Case, Tried

BIN = Path(sys.executable).parent
COMMANDS = {
    "align": "text -o links",
    "align --resume": "text -o resumed --resume",
    "align to stdout": "text",
    "sweep": "sweep text -o counts.tsv",
    "eval": "eval -g gold gold --samples 100000000",
    "train": "train model -s de -t en --source-lang de --target-lang en --device cpu",
}
ALLOWED = {"model", "resumed.parts", "resumed.run.json"}
"""What is to stay for the next start."""


def prepare(folder: Path) -> None:
    """Text that none of the commands comes to the end of."""
    lines = [line for line in EXAMPLES.read_text(encoding="utf-8").splitlines() if line] * 500
    sides = [[line.split(" ||| ")[n] for line in lines] for n in (0, 1)]
    (folder / "text").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "gold").write_text("0-0 1-1\n" * 1000, encoding="utf-8")
    for name, side in zip(("de", "en"), sides, strict=True):
        (folder / name).write_text("\n".join(f"{line} {n}" for n, line in enumerate(side)) + "\n", encoding="utf-8")


def interrupt(command: str, folder: Path, after: float) -> str:
    """Start a command and send it SIGINT; returns how it ended: "quiet" is as it should be."""
    before = set(os.listdir(folder))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [str(BIN / "extract-align"), *COMMANDS[command].split()],
        cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        try:
            errors = process.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            return "lost"
    if b"Traceback" in errors or b"Exception ignored" in errors:
        ours = b"align/cli" in errors or b"align/training" in errors
        return "traceback" if ours else "traceback of Python's own start"
    if process.returncode == -signal.SIGINT:
        return "quiet, before Python was there"
    if process.returncode != 130:
        return f"exit code {process.returncode}"
    left = set(os.listdir(folder)) - before - ALLOWED
    return f"left {sorted(left)}" if left else "quiet"


def interrupt_case(folder: Path, longest: float = 3.0) -> Case:
    """Return what interrupts a command in a folder within these seconds after its start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would theirs
    prepare(folder)

    def case(rng: random.Random) -> Tried:
        command = rng.choice(list(COMMANDS))
        how = interrupt(command, folder, rng.uniform(0, longest))
        fine = how.startswith("quiet") or how == "traceback of Python's own start"
        return Tried(f"{command}: {how}", "" if fine else f"{command}: {how}")

    return case


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(driver.main("interrupts", interrupt_case(Path(temporary)), 50))
