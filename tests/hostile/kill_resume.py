"""`extract-align --resume` after kill -9 at random moments: the same bytes as without a stop, and nothing left over.

python -m tests.hostile.kill_resume --count 20 --seed 1 -o eval/results/kills_resume.tsv
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tests.conftest import EXAMPLES, ROOT, SHARED

COMMAND = [sys.executable, "-m", "align", "-q", "--resume", "--threads", "1", "--device", "cpu"]


class Case(NamedTuple):
    """A way to run the command: how many lines, where they are read from, what comes out."""

    name: str
    lines: int
    buffer: int
    options: tuple[str, ...]
    output: str = "links"
    stdin: bool = False


CASES = [
    Case("one direction", 1500, 16, ("text",)),
    Case("two directions, scores", 1000, 16, ("text", "--reverse-model", "en-de", "--scores")),
    Case("translate", 200, 8, ("-s", "de", "--translate", "--beam", "1"), "links.gz"),
    Case("jsonl, both positions, gz", 1000, 60, ("-s", "de", "-t", "en", "-f", "jsonl", "--position", "both"), "x.gz"),
    Case("naacl, stdin, xz", 1500, 16, ("-f", "naacl", "--scores"), "links.xz", True),
    Case("giza", 1500, 16, ("text", "-f", "giza")),
]


class Outcome(NamedTuple):
    """One run: how often it was killed, lines that were saved each time, whether the bytes are right, what is left."""

    case: str
    kills: int
    saved: list[int]
    lines: int
    same: bool
    left: list[str]


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
    with ExitStack() as stack:
        stdin = stack.enter_context((folder / "text").open("rb")) if case.stdin else subprocess.DEVNULL
        (folder / "out").mkdir(exist_ok=True)
        command = [*COMMAND, "--buffer", str(case.buffer), *case.options, "-o", f"out/{case.output}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(command, cwd=folder, stdin=stdin, env=environment, stderr=subprocess.PIPE)


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
    records = (folder / "out" / f"{case.output}.parts").glob("0*.json")
    return sum(int(json.loads(record.read_bytes())["rows"]) for record in records)


def kill_and_resume(case: Case, folder: Path, expected: bytes, seconds: float, draw: random.Random) -> Outcome:
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
    left = sorted(os.listdir(folder / "out"))
    return Outcome(case.name, len(saved), saved, case.lines, output == expected, left)


def run(
    count: int, seed: int, folder: Path, say: Callable[[str], None], cases: Iterable[Case] = CASES
) -> list[Outcome]:
    """Kill and resume `count` runs, one case after the other."""
    draw = random.Random(seed)
    known: dict[str, tuple[Path, bytes, float]] = {}
    outcomes = []
    some = list(cases)
    for n in range(count):
        case = some[n % len(some)]
        if case.name not in known:
            place = folder / f"case{n}"
            place.mkdir()
            lines = real_lines(case.lines)
            (place / "text").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            for side, name in enumerate(("de", "en")):
                sides = [line.split(" ||| ")[side] if line else "" for line in lines]
                (place / name).write_text("".join(f"{one}\n" for one in sides), encoding="utf-8")
            begun = time.monotonic()
            expected = finish(case, place)
            known[case.name] = place, expected, time.monotonic() - begun
        outcomes.append(kill_and_resume(case, *known[case.name], draw))
        say(str(outcomes[-1]))
    return outcomes


def main() -> None:
    """Print a row for each run, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run(args.count, args.seed, Path(folder), lambda line: print(line, flush=True))
    bad = [one for one in outcomes if not one.same or one.left]
    kills = sum(one.kills for one in outcomes)
    command = f"python -m tests.hostile.kill_resume --count {args.count} --seed {args.seed}"
    rows = [f"# {command}; {len(outcomes)} runs, {kills} kills, {len(bad)} with other bytes or something left over"]
    rows.append("case\tlines\tkills\tlines saved at each kill\tsame bytes\tleft over")
    for one in outcomes:
        saved = " ".join(map(str, one.saved))
        rows.append(f"{one.case}\t{one.lines}\t{one.kills}\t{saved}\t{one.same}\t{' '.join(one.left) or 'nothing'}")
    if args.output:
        args.output.write_text("\n".join(rows) + "\n", encoding="utf-8")
    print(rows[0])
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
