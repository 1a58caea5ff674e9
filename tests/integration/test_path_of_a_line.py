"""How many files of the package a line passes."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import pytest

import align
from align.cli import extract
from tests.conftest import example_pairs

ROOT = Path(align.__file__).parent
MAX_FILES = 16
LINE = 180
"""The first line that is followed, after all lines whose language is checked."""


class Lines(io.BytesIO):
    """Text that notes the files entered between the reading of LINE and that of the second line after it."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.number = 0
        self.path: set[str] = set()

    def __next__(self) -> bytes:
        line = super().__next__()
        self.number += 1
        if self.number in (LINE, LINE + 2):
            sys.setprofile(self.enter if self.number == LINE else None)
        return line

    def enter(self, frame: FrameType, event: str, argument: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(ROOT):
            self.path.add(str(file.relative_to(ROOT)))


@pytest.mark.parametrize("models", [(), ("-m", "de-en", "--reverse-model", "en-de")], ids=["one", "two"])
@pytest.mark.usefixtures("one_thread")
def test_a_line_passes_few_files(
    models: Sequence[str], monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Count the files of `align/` that are entered for a line, by `sys.setprofile`.

    `extract-align --buffer 1` aligns 200 lines of stdin in this process. From the reading of line 180 until line 181
    has been written, which is before line 182 is read, each call of a function and each resumption of a generator
    counts for the file that it stands in. Start-up, choosing layer and head, the check of the
    languages of the first lines, signature and end come once for a text, and do not count. Nor does progress, which is
    shown when it is time.
    """
    pairs = [pair for pair in example_pairs() if not pair.blank]
    text = "".join(f"{' '.join(pair.source)} ||| {' '.join(pair.target)}\n" for pair in pairs)
    lines = Lines("".join((text * 200).splitlines(keepends=True)[:200]).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(lines))
    try:
        assert extract.main(["--device", "cpu", "--buffer", "1", "-q", *models]) == 0
    finally:
        sys.setprofile(None)
    assert capfdbinary.readouterr().out.count(b"\n") == lines.number == 200
    assert {"io/reader.py", "core/scores.py", "io/output.py"} < lines.path
    assert len(lines.path) <= MAX_FILES, "\n".join(sorted(lines.path))
