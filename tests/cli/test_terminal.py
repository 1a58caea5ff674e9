"""A keyboard's lines are answered one by one, and a run that ends early says how far it came."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from align.cli import common, extract
from tests import toy
from tests.cli.conftest import Run, Write, stopped_at

GOOD = b"das haus ||| the house\n"
MODEL = ("-m", "toy/checkpoint.pt", "--position", "input", "--null", "none", "--scorer", "none", "--device", "cpu")


@pytest.fixture
def run(run_main: Run, write: Write, tmp_path: Path) -> Run:
    """The command with a toy model, in a folder with a text of ten lines."""
    toy.save_model(tmp_path / "toy")
    write(text=GOOD * 10)
    return partial(run_main, extract.main, *MODEL)


def read_until(terminal: int, what: bytes) -> bytes:
    """What a program says on a terminal, up to this."""
    seen = b""
    while what not in seen:
        assert select.select([terminal], [], [], 60)[0], seen
        seen += os.read(terminal, 4096)
    return seen


def test_a_line_from_the_keyboard_is_answered_at_once(tmp_path: Path) -> None:
    toy.save_model(tmp_path / "toy")
    main, terminal = pty.openpty()
    settings = termios.tcgetattr(terminal)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, settings)
    command = [sys.executable, "-m", "align", *MODEL]
    environment = {**os.environ, "PYTHONPATH": str(Path(extract.__file__).parents[2])}
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, cwd=tmp_path, env=environment
    ) as process:
        os.close(terminal)
        read_until(main, b"reading `source ||| target` lines from the keyboard; Ctrl-D ends\r\n")
        os.write(main, GOOD)
        seen = read_until(main, b"0-0 1-1\r\n")
        assert b"under 50 pairs in the buffer to choose by" in seen
        os.write(main, GOOD)
        assert read_until(main, b"\n") == b"0-0 1-1\r\n"  # and nothing else: no bar
        os.write(main, b"ein Baum\n")  # is said to be wrong, and answered
        assert read_until(main, b"\n\r\n") == (b"extract-align: no ||| and no TAB between source and target\r\n\r\n")
        os.write(main, GOOD)
        assert read_until(main, b"\n") == b"0-0 1-1\r\n"
        os.write(main, b"\x04")
        assert b"4 lines, 0 blank, 1 bad (1 wrong fields), " in read_until(main, b" lines/s")
        assert process.wait(60) == 0
    os.close(main)


@pytest.fixture
def stop(run: Run) -> Callable[..., str]:
    """Runs the command until a line is to be written, and stops it there; returns what it says, and checks the code."""

    def call(at: int, code: int, error: BaseException, *arguments: object) -> str:
        with stopped_at(at, Mock(side_effect=error)):
            result = run("-q", "text", "--layer", 1, "--head", 1, *arguments)
        assert result.code == code
        return result.err

    return call


CTRL_C, KILLED, WRONG = (130, KeyboardInterrupt()), (143, SystemExit(143)), (1, ValueError("wrong"))


def test_how_far_a_run_came_that_was_stopped(stop: Callable[..., str]) -> None:
    assert stop(8, *CTRL_C, "--buffer", 1) == (
        "extract-align: interrupted after 8 lines; the results of the first 7 are written\n"
    )
    assert stop(1, *CTRL_C) == "extract-align: interrupted after 10 lines; no results are written\n"
    assert stop(2, *KILLED, "-o", "links") == "extract-align: interrupted after 10 lines; links not written\n"
    assert stop(8, *WRONG, "-o", "links") == (
        "extract-align: error: wrong\nextract-align: stopped after 10 lines; links not written\n"
    )
    Path("links").write_bytes(b"of before")
    assert stop(8, *CTRL_C, "-o", "links") == "extract-align: interrupted after 10 lines; links left as it was\n"
    new = ("-o", "new", "--resume", "--buffer", 5)
    assert stop(4, *CTRL_C, *new) == "extract-align: interrupted after 5 lines; none is kept yet (25 at a time)\n"


def test_what_is_being_done_is_one_line_on_a_terminal_and_a_line_now_and_then_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(every: float) -> None:
        with closing(common.Progress("x", every=every)) as status:
            status.show("update 1")
            status.show("update 2")
            common.say("x: loss")
            status.show("update\033 3")

    shown(every=1000.0)
    assert capsys.readouterr().err == "x: loss\n"
    shown(every=0.0)
    assert capsys.readouterr().err == "x: update 1\nx: update 2\nx: loss\nx: update\\x1b 3\n"
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    shown(every=1000.0)
    assert common._bars == []
    drawn, _, after = terminal.getvalue().partition("x: loss\n")
    assert drawn.endswith("\rx: update 2\r        \r".replace("        ", drawn[drawn.rindex("2") + 2 : -1]))
    assert "\n" not in drawn + after
    assert "\rx: update\\x1b 3" in after
