"""Damaged files of links, tags and labels in every format, through the commands that read them.

Whatever is in the files, a command ends with exit code 0, 1 or 2; 1 says what is wrong in one line that names a file;
there is no traceback, nothing on stdout that acts on a terminal, and a line out for each line in.
"""

from __future__ import annotations

import io
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from align.cli import combine, evaluate, transfer
from align.core.errors import printable
from tests.hostile import driver
from tests.hostile.driver import Tried
from tests.hostile.link_cases import Case, make

PROGRAMS: dict[str, Callable[[], int]] = {
    "extract-align eval": evaluate.main,
    "extract-align combine": combine.main,
    "extract-align transfer": transfer.main,
}
SLOW = 20.0
"""Seconds beyond which a case has failed."""


class Outcome(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float


@contextmanager
def _apart(files: dict[str, str]) -> Iterator[None]:
    """A folder with the files, which is the current one, and this process's signals, warnings and streams kept."""
    before = Path.cwd(), sys.argv, sys.stdin, sys.stdout, sys.stderr
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        for name, text in files.items():
            Path(folder, name).write_bytes(text.encode("utf-8", "surrogateescape"))
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before[0])
            sys.argv, sys.stdin, sys.stdout, sys.stderr = before[1:]
            for number, handler in handlers.items():
                signal.signal(number, handler)


def execute(case: Case) -> Outcome:
    """Run a case; an exception that gets out is exit code -1, and its traceback is the output on stderr."""
    start = time.monotonic()
    raw, err = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(raw, "utf-8", newline="")
    with _apart(case.files):
        sys.argv = [case.program, *case.arguments]
        sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO()), out, err
        try:
            code = PROGRAMS[case.program]()
        except SystemExit as stop:
            code = int(stop.code or 0)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            code = -1
            err.write(traceback.format_exc())
    out.flush()
    return Outcome(code, raw.getvalue().decode("utf-8", "replace"), err.getvalue(), time.monotonic() - start)


def judge(case: Case, outcome: Outcome) -> str:
    """What is wrong with an outcome; nothing, if all is well."""
    if outcome.code not in (0, 1, 2) or "Traceback" in outcome.err:
        return f"exit code {outcome.code}: {outcome.err[-2000:]}"
    if case.code not in (None, outcome.code):
        return f"exit code {outcome.code}, not {case.code}: {outcome.err}"
    if case.says not in outcome.out + outcome.err:
        return f"says {outcome.out + outcome.err!r}, and not {case.says!r}"
    if outcome.seconds > SLOW:
        return f"took {outcome.seconds:.1f} s"
    errors = [line for line in outcome.err.split("\n") if line.startswith(f"{case.program}: error: ")]
    named = [*map(printable, case.files), *("stdin" for name in case.arguments if name == "-")]
    if outcome.code == 1 and (len(errors) != 1 or not any(name in errors[0] for name in named)):
        return f"no line that says what is wrong with which file: {outcome.err!r}"
    if any(len(line) > 2000 for line in outcome.err.split("\n")):
        return "an endless line on stderr"
    shown = outcome.err if case.program == "extract-align transfer" else outcome.out + outcome.err
    acting = {c for c in shown if not c.isprintable()} - {"\n", "\t"}
    if {c for c in acting if unicodedata.category(c) != "Zs"}:
        return f"acts on a terminal: {sorted(acting)}"
    if outcome.code == 0 and case.lines is not None and outcome.out.count("\n") != case.lines:
        return f"{outcome.out.count(chr(10))} lines, not {case.lines}"
    if outcome.code == 0 and "json" in case.arguments and "-b" not in case.arguments:
        try:
            json.loads(outcome.out)
        except ValueError as error:
            return f"no JSON: {error}"
    return ""


def try_case(case: Case) -> Tried:
    """Run a case and judge what comes of it."""
    outcome = execute(case)
    case.why = judge(case, outcome)
    return Tried(f"{case.program} {outcome.code}", case.why, lambda folder: case.save(folder / "case.json"))


def try_links(rng: random.Random) -> Tried:
    """Draw a case and try it."""
    return try_case(make(rng))


if __name__ == "__main__":
    sys.exit(driver.main("links", try_links, 2000))
