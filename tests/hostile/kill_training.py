"""Kills trainings at random moments, starts them again, and compares the models with one that nobody killed.

    python -m tests.hostile.kill_training --count 20 --seed 1

Every fourth time the whole process group is killed, else only the program itself, so that fairseq has to notice. What
may differ between two models are the speeds in training.tsv and README.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from align import __version__
from align.io.process import module
from tests.conftest import example_pairs
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


@dataclass(frozen=True)
class Kill:
    """One kill and its result.

    Attributes:
        select: which checkpoints the recipe takes.
        whom: "parent" or "group".
        after: seconds from the start to the kill.
        during: what the program had said last.
        gone: seconds from the kill to the end of the last of its processes.
        differing: the files of the finished model that differ from those of an uninterrupted run.
    """

    select: str
    whom: str
    after: float
    during: str
    gone: float
    differing: tuple[str, ...]

    @property
    def identical(self) -> bool:
        """Whether the finished model is that of an uninterrupted run, byte for byte."""
        return not self.differing


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


def kill(process: subprocess.Popen[bytes], whom: str) -> float:
    """Kill a training and wait until all processes that it has started have ended.

    Returns:
        Seconds that it took.

    Raises:
        ValueError: one of its processes lives on.
    """
    begun = time.monotonic()
    (os.killpg if whom == "group" else os.kill)(process.pid, signal.SIGKILL)
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
        folder: to work in; the text is beside it.
        whole: the files of an uninterrupted run.
        select: see `Kill`.
        whom: see `Kill`.
        updates: to train for.
        moment: asked repeatedly whether it is time to kill it.
    """
    begun = time.monotonic()
    process = start(folder, select, updates)
    while process.poll() is None and not moment():
        time.sleep(0.002)
    after = time.monotonic() - begun
    during = last_line(folder).removeprefix("extract-align train: ").partition(" of ")[0] or "starting"
    if process.poll() is not None:
        return None
    gone = kill(process, whom)
    finish(folder, select, updates)
    files = model_of(folder)
    names = sorted(name for name in files.keys() | whole.keys() if files.get(name) != whole.get(name))
    return Kill(select, whom, after, during, gone, tuple(names))


def _is_past(moment: float) -> bool:
    return time.monotonic() >= moment


def run(count: int, seed: int, folder: Path, say: Callable[[str], None], updates: int = UPDATES) -> list[Kill]:
    """Kill trainings, each once, at moments drawn evenly from the time that a whole one takes.

    Args:
        count: number of kills.
        seed: of what is drawn.
        folder: to work in; must be there.
        say: called with every result.
        updates: of each training.
    """
    draw = random.Random(seed)
    say(f"{count} kills, seed {seed}")
    write_text(folder)
    whole: dict[str, dict[str, bytes]] = {}
    seconds: dict[str, float] = {}
    kills: list[Kill] = []
    while (done := len(kills)) < count:
        select, whom = SELECTIONS[done % len(SELECTIONS)], "group" if done % 4 == 3 else "parent"
        if select not in whole:
            begun = time.monotonic()
            finish(folder / select, select, updates)
            whole[select], seconds[select] = model_of(folder / select), time.monotonic() - begun
            say(f"uninterrupted, {select}: {seconds[select]:.1f} s")
        shutil.rmtree(folder / "run", ignore_errors=True)
        when = time.monotonic() + draw.uniform(0, seconds[select])
        is_time = partial(_is_past, when)
        result = attack(folder / "run", whole[select], select, whom, updates, is_time)
        if result is None:
            say("it had ended before: drawn again")
            continue
        kills.append(result)
        outcome = "identical" if result.identical else f"DIFFERS in {', '.join(result.differing)}"
        say(f"{done + 1}: {select}, {whom} killed after {result.after:.1f} s ({result.during}): {outcome}")
    return kills


def as_rows(kills: Sequence[Kill]) -> list[str]:
    """The kills as lines of TSV, with a header."""
    rows = ["kill\tselect\tkilled\tafter_s\tduring\tall_gone_s\tmodel"]
    for number, k in enumerate(kills, 1):
        model = "identical" if k.identical else f"differs: {', '.join(k.differing)}"
        rows.append(f"{number}\t{k.select}\t{k.whom}\t{k.after:.1f}\t{k.during}\t{k.gone:.2f}\t{model}")
    return rows


def main() -> int:
    """Run, and write the results; exit code 1 where a model differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("-o", "--output", type=Path, help="write the rows there too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kills = run(args.count, args.seed, Path(folder), lambda message: print(message, flush=True), args.updates)
    command = f"python -m tests.hostile.kill_training --count {args.count} --seed {args.seed} --updates {args.updates}"
    versions = f"v:{__version__}; Python {platform.python_version()}, torch {torch.__version__}"
    if args.output:
        args.output.write_text("\n".join([f"# {command}; {versions}", *as_rows(kills)]) + "\n", encoding="utf-8")
    lost = sum(not kill.identical for kill in kills)
    print(f"{len(kills)} kills, {len(kills) - lost} models identical with an uninterrupted run's, {lost} not")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
