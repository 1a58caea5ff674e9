"""Kills trainings at random moments, starts them again, and compares the models with one that nobody killed.

Now and then the whole process group is killed, else only the program itself, so that fairseq has to notice. What
may differ between two models are the speeds in training.tsv and README.md.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from align.io.process import module
from tests.conftest import example_pairs
from tests.hostile import driver
from tests.hostile.driver import Case, Tried
from tests.training_recipe import steady_recipe

SELECTIONS = ("best", "average")
UPDATES = 120
LONG = " ".join(map(str, range(1000, 1110)))
ARGUMENTS = (
    *("model", "-s", "../text.de", "-t", "../text.en", "--source-lang", "de", "--target-lang", "en"),
    *("--recipe", "tiny.toml", "--threads", "1", "--device", "cpu"),
)
GONE = 60.0
"""Seconds within which a child must notice that its parent is dead."""


class Kill(NamedTuple):
    """One kill and its result."""

    during: str
    """What the program had said last."""
    gone: float
    """Seconds from the kill to the end of the last of its processes."""
    differing: list[str]
    """The files of the finished model that differ from those of an uninterrupted run."""


def write_text(folder: Path) -> None:
    """Write the examples as text.de and text.en, with what bitexts have: a blank side, a pair twice, a long one."""
    pairs = [(" ".join(pair.source), " ".join(pair.target)) for pair in example_pairs() if not pair.blank]
    pairs[1:1] = [pairs[0], ("leer", ""), (LONG, LONG)]
    for language, side in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
        (folder / f"text.{language}").write_text("".join(line + "\n" for line in side), encoding="utf-8")


def start(folder: Path, select: str, updates: int) -> subprocess.Popen[bytes]:
    """Begin or go on with a training in FOLDER/model, as the leader of a process group of its own."""
    folder.mkdir(exist_ok=True)
    recipe = steady_recipe(updates, select, interval=max(3, updates // 12) | 1)
    (folder / "tiny.toml").write_text(recipe, encoding="utf-8")
    with (folder / "said").open("a", encoding="utf-8") as said:
        command = module("align", "train", *ARGUMENTS)
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, cwd=folder, start_new_session=True)


def finish(folder: Path, select: str, updates: int) -> None:
    """Start a training until it ends.

    Raises:
        ValueError: it failed.
    """
    if code := start(folder, select, updates).wait():
        raise ValueError(f"{folder}: exit code {code}: {last_line(folder)}")


def last_line(folder: Path) -> str:
    """What the program has said last."""
    said = folder / "said"
    return said.read_text(encoding="utf-8").strip().rpartition("\n")[2] if said.is_file() else ""


def kill(process: subprocess.Popen[bytes], whom: str, how: signal.Signals = signal.SIGKILL) -> float:
    """Kill a training, or only its program, and wait until all processes that it has started have ended.

    Returns:
        Seconds that it took.

    Raises:
        ValueError: one of its processes lives on.
    """
    begun = time.monotonic()
    (os.killpg if whom == "group" else os.kill)(process.pid, how)
    process.wait()
    while time.monotonic() - begun < GONE:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return time.monotonic() - begun
        time.sleep(0.01)
    raise ValueError(f"process group {process.pid} lives on {GONE:.0f} s after its leader was killed")


def model_of(folder: Path) -> dict[str, bytes]:
    """The files of a finished model without the speeds in them."""
    files = {path.name: path.read_bytes() for path in (folder / "model").iterdir() if path.is_file()}
    del files[".lock"]
    files["training.tsv"] = re.sub(rb"\t[0-9]*\n", b"\t\n", files["training.tsv"])
    files["README.md"] = re.sub(rb", median [0-9,]+ target pieces/s", b"", files["README.md"])
    return files


def attack(
    folder: Path, whole: dict[str, bytes], select: str, whom: str, updates: int, moment: Callable[[], bool]
) -> Kill | None:
    """Start a training, kill it once at the moment, finish it, and compare; None if it ended before the moment came.

    Args:
        folder: to work in; the text lies next to it.
        whole: the files of an uninterrupted run.
        select: which checkpoints the recipe takes.
        whom: "parent" or "group".
        updates: to train for.
        moment: asked repeatedly whether it is time to kill it.
    """
    process = start(folder, select, updates)
    while process.poll() is None and not moment():
        time.sleep(0.002)
    during = last_line(folder).removeprefix("extract-align train: ").partition(" of ")[0] or "starting"
    if process.poll() is not None:
        return None
    gone = kill(process, whom)
    finish(folder, select, updates)
    files = model_of(folder)
    return Kill(
        during, gone, sorted(name for name in files.keys() | whole.keys() if files.get(name) != whole.get(name))
    )


def training_case(folder: Path) -> Case:
    """Return what kills a training below a folder, at a moment drawn evenly from the time that a whole one takes."""
    write_text(folder)
    known: dict[str, tuple[dict[str, bytes], float]] = {}

    def case(rng: random.Random) -> Tried:
        select, whom = rng.choice(SELECTIONS), rng.choice(("parent", "parent", "parent", "group"))
        if select not in known:
            begun = time.monotonic()
            finish(folder / select, select, UPDATES)
            known[select] = model_of(folder / select), time.monotonic() - begun
        whole, seconds = known[select]
        shutil.rmtree(folder / "run", ignore_errors=True)
        when = time.monotonic() + rng.uniform(0, seconds)
        result = attack(folder / "run", whole, select, whom, UPDATES, lambda: time.monotonic() >= when)
        if result is None:
            return Tried("ended before")
        wrong = f"{select}, {whom} killed during {result.during}: {result.differing}" if result.differing else ""
        return Tried(f"{whom} killed", wrong)

    return case


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(driver.main("kill-training", training_case(Path(temporary)), 20))
