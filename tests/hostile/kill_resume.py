"""`extract-align --resume` after kill -9 at random moments: the same bytes as without a stop, and nothing left over."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from align.io.shards import BUFFERS
from tests.conftest import EXAMPLES, ROOT, SHARED
from tests.hostile import driver
from tests.hostile.driver import Tried

COMMAND = [sys.executable, "-m", "align", "-q", "--resume", "--threads", "1", "--device", "cpu"]


class Case(NamedTuple):
    """A way to run the command: how many lines, what comes out."""

    name: str
    lines: int
    buffer: int
    options: tuple[str, ...]
    output: str = "links"


CASES = [
    Case("one direction", 1500, 16, ("text",)),
    Case("two directions, scores", 1000, 16, ("text", "--reverse-model", "en-de", "--print-scores")),
    Case("translate", 200, 8, ("-s", "de", "--translate", "--beam", "1"), "links.gz"),
    Case("jsonl, both positions, gz", 1000, 60, ("-s", "de", "-t", "en", "-f", "jsonl", "--position", "both"), "x.gz"),
    Case("naacl, xz", 1500, 16, ("text", "-f", "naacl", "--print-scores"), "links.xz"),
    Case("giza", 1500, 16, ("text", "-f", "giza")),
]


def real_lines(count: int) -> list[str]:
    """Sentence pairs of the shared data, or else the examples over and over; every twentieth line is blank."""
    if (SHARED / "valid.de").is_file():
        with ExitStack() as stack:
            files = [stack.enter_context((SHARED / f"valid.{side}").open(encoding="utf-8")) for side in ("de", "en")]
            pairs = [f"{de.rstrip()} ||| {en.rstrip()}" for de, en in islice(zip(*files, strict=True), count)]
    else:
        pairs = [line for line in EXAMPLES.read_text(encoding="utf-8").splitlines() if line]
    return ["" if n % 20 == 7 else pairs[n % len(pairs)] for n in range(count)]


def start(case: Case, folder: Path) -> subprocess.Popen[bytes]:
    """The command in a folder with its input."""
    (folder / "out").mkdir(exist_ok=True)
    command = [*COMMAND, "--buffer", str(case.buffer), *case.options, "-o", f"out/{case.output}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, env=environment, stderr=subprocess.PIPE)


def finish(case: Case, folder: Path) -> bytes:
    """Run to the end; the output, which is taken away with the record of what it is."""
    process = start(case, folder)
    errors = process.communicate()[1].decode()
    assert process.returncode == 0, errors
    path = folder / "out" / case.output
    output = path.read_bytes()
    path.unlink()
    path.with_name(f"{path.name}.run.json").unlink()
    return output


def saved_lines(folder: Path, case: Case) -> int:
    """Count the lines of finished blocks."""
    return sum(1 for _ in (folder / "out" / f"{case.output}.parts").glob("0*.json")) * case.buffer * BUFFERS


def kill_and_resume(case: Case, folder: Path, expected: bytes, seconds: float, draw: random.Random) -> Tried:
    """Kill a run a few times, anywhere from its start to its end, and then let it go on to the end.

    A start that ends before its time is no kill; it ends the run, or where that had none yet, is taken back.
    """
    saved: list[int] = []
    kills = draw.randrange(2, 5)
    while len(saved) < kills:
        process = start(case, folder)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0, seconds))
        ended = process.returncode is not None
        process.kill()
        process.communicate()
        if not ended:
            saved.append(saved_lines(folder, case))
        elif saved:
            break
        else:
            (folder / "out" / case.output).unlink()
    output = finish(case, folder)
    left = os.listdir(folder / "out")
    wrong = f"{case.name}: killed with {saved} lines saved: same bytes {output == expected}, left {left}"
    return Tried(f"killed {len(saved)} times", "" if output == expected and not left else wrong)


def kill_case(folder: Path, cases: Sequence[Case] = CASES) -> driver.Case:
    """Return what kills and resumes one of the runs, below a folder."""
    known: dict[str, tuple[Path, bytes, float]] = {}

    def try_one(rng: random.Random) -> Tried:
        case = rng.choice(cases)
        if case.name not in known:
            place = folder / f"case{len(known)}"
            place.mkdir()
            lines = real_lines(case.lines)
            (place / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            for side, name in enumerate(("de", "en")):
                sides = [line.split(" ||| ")[side] if line else "" for line in lines]
                (place / name).write_text("".join(f"{one}\n" for one in sides), encoding="utf-8")
            begun = time.monotonic()
            expected = finish(case, place)
            known[case.name] = place, expected, time.monotonic() - begun
        return kill_and_resume(case, *known[case.name], rng)

    return try_one


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(driver.main("kill-resume", kill_case(Path(temporary)), 20))
