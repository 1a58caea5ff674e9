"""Fenced blocks of a Markdown page, and what they would be if they were written today.

- `console`: bash; each `$ command` with what it prints, stderr too. A line `[...]` stands for any lines.
- `pycon`: a Python session; the blocks of a page are one session.
- `python`: a program, which must end well. With a title it is only written to the file of that name, for the page's
  other blocks to use; a title in examples/ must have what that file has.
- `ini`, `yaml`: checked by tests/service/test_server.py.
- `toml`, `json`: parsed; `text` and all these with a title: written to the file of that name.

All blocks of a page share a folder that begins with a copy of examples/. `<!-- not run: REASON -->` in the line above a
block leaves it out. Rates, times and numbers of threads are not compared; what is
said of progress every ten seconds is left out.
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import io
import json
import os
import re
import shutil
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from align.models.model_toml import parse_toml
from tests.conftest import ROOT

TESTED_ELSEWHERE = ROOT / "research" / "wmt19.md"
"""On archives with the layout of the published ones."""

PAGES = [
    ROOT / "README.md",
    *sorted({path for folder in ("docs", "research") for path in (ROOT / folder).glob("**/*.md")} - {TESTED_ELSEWHERE}),
]
FENCE = re.compile(
    r'(?:^<!-- not run: (?P<reason>[^>]+) -->\n)?^```(?P<kind>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
VARIES = re.compile(r"\d[\d,.]*(?= (?:lines|pairs|rows)/s)|(?<=\()\d+(?= threads?\))|(?<=in )\d[\d.]*(?= s\b)")
PROGRESS = re.compile(
    r"^[\w-]+: [\d,]+ lines?(?: \(\d+%\))?, (?:[\d,]+ of [\d,]+ files?, )?[\d,]+ lines/s(?:, .* left)?\n", re.MULTILINE
)
LEFT_OUT = "[...]\n"
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "COLUMNS": "80", "OMP_NUM_THREADS": "2", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Block:
    """A fenced block; `start` and `end` are where its text is in the page."""

    kind: str
    title: str
    text: str
    reason: str
    start: int
    end: int


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    return [
        Block(match["kind"], match["title"] or "", match["text"], match["reason"] or "", *match.span("text"))
        for match in FENCE.finditer(page.read_text(encoding="utf-8"))
    ]


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with what it shows."""
    found = re.findall(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
    assert "".join(f"$ {command}{shown}" for command, shown in found) == block.text, "a console block begins with `$ `"
    return found


class Session:
    """Runs the blocks of a page in a folder, which is the current one.

    Args:
        folder: the folder.
        programs: a folder with programs, see `tests.forked`; by default those that are installed.
    """

    def __init__(self, folder: Path, programs: Path | None = None) -> None:
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        path = [str(programs)] if programs else []
        path += [str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = os.environ | ENVIRONMENT | {"PATH": os.pathsep.join(path)}

    def today(self, block: Block) -> str:
        """The text that a block would have if it were written today: the same, if the page is right."""
        if block.reason:
            return block.text
        if block.title:
            file = ROOT / block.title
            text = file.read_text(encoding="utf-8") if file.is_file() else block.text
            (self.folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / block.title).write_text(text, encoding="utf-8")
        else:
            text = block.text
        if block.kind == "console":
            return self._console(block)
        if block.kind == "pycon":
            return self._pycon(block)
        if block.kind == "python" and not block.title:
            (self.folder / "block.py").write_text(text, encoding="utf-8")
            self._bash("python block.py", check=True)
        elif block.kind == "toml":
            parse_toml(text)
        elif block.kind == "json":
            json.loads(text)
        return text

    def _bash(self, script: str, check: bool = False) -> str:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout
        return PROGRESS.sub("", done.stdout)

    def _console(self, block: Block) -> str:
        session = commands(block)
        mark = "{ status=$?; printf '\\0'; (exit $status); }"
        printed = self._bash("".join(f"{command}{mark}\n" for command, _ in session)).split("\0")
        assert len(printed) == len(session) + 1, "a command ends the shell"
        pairs = zip(session, printed, strict=False)
        return "".join(f"$ {command}{as_shown(shown, new)}" for (command, shown), new in pairs)

    def _pycon(self, block: Block) -> str:
        lines, new, at = block.text.splitlines(keepends=True), [], 0
        for example in doctest.DocTestParser().get_examples(block.text):
            count = example.source.count("\n")
            new += lines[at : example.lineno + count]
            printed = self._python(example.source)
            new.append(as_shown(example.want, re.sub(r"^$\n", "<BLANKLINE>\n", printed, flags=re.MULTILINE)))
            at = example.lineno + count + example.want.count("\n")
        return "".join(new + lines[at:])

    def _python(self, source: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            try:
                exec(compile(source, "<session>", "single"), self.names)
            except Exception as error:
                last = traceback.format_exception_only(type(error), error)[-1]
                return f"{out.getvalue()}Traceback (most recent call last):\n{LEFT_OUT}{last}"
        return out.getvalue()


def as_shown(shown: str, printed: str) -> str:
    """What a page should show of what was printed: what it does show, if that is right.

    Where lines are left out, those shown are found again by their number before the first gap and after the last, and
    by their likeness between two gaps.
    """
    if printed and not printed.endswith("\n"):
        printed += "\n"
    pattern = "(?:.*\n)*".join(map(re.escape, VARIES.sub("N", shown).split(LEFT_OUT)))
    if re.fullmatch(pattern, VARIES.sub("N", printed)):
        return shown
    lines = printed.splitlines(keepends=True)
    first, *between = (part.splitlines() for part in shown.split(LEFT_OUT))
    if not between:
        return printed
    *middle, last = between
    parts = ["".join(lines[: len(first)])]
    for part in middle:
        alike = [difflib.get_close_matches(line + "\n", lines, 1, 0.3) for line in part]
        parts.append("".join(line for found in alike for line in found))
    parts.append("".join(lines[len(lines) - len(last) :]))
    return LEFT_OUT.join(parts)
