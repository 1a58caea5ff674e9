"""Ctrl-C at random moments after the start: how often it is lost, prints a traceback, or leaves something behind.

python -m tests.hostile.interrupts --count 50 --seed 1
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.conftest import EXAMPLES, ROOT

BIN = Path(sys.executable).parent
COMMANDS: dict[str, list[str]] = {
    "align": ["text", "-o", "links"],
    "align --resume": ["text", "-o", "resumed", "--resume"],
    "align to stdout": ["text"],
    "sweep": ["sweep", "text", "-o", "counts.tsv"],
    "eval": ["eval", "-g", "gold", "gold", "--samples", "100000000"],
    "train": [
        "train",
        "model",
        "-s",
        "de",
        "-t",
        "en",
        "--source-lang",
        "de",
        "--target-lang",
        "en",
        "--device",
        "cpu",
    ],
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
        [str(BIN / "extract-align"), *COMMANDS[command]],
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


def run(
    count: int, seed: int, longest: float, say: Callable[[str], None], commands: Iterable[str] = COMMANDS
) -> Counter[str]:
    """Interrupt each command `count` times, within so many seconds, and count what happened."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would theirs
    numbers = random.Random(seed)
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for command in commands:
            found = Counter(interrupt(command, Path(folder), numbers.uniform(0, longest)) for _ in range(count))
            say(f"{command}: {dict(found)}")
            outcomes += found
    return outcomes


def main() -> None:
    """Print what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=3.0)
    parser.add_argument("--only", choices=tuple(COMMANDS), nargs="+", default=tuple(COMMANDS))
    args = parser.parse_args()
    print("all:", dict(run(args.count, args.seed, args.longest, lambda line: print(line, flush=True), args.only)))


if __name__ == "__main__":
    main()
