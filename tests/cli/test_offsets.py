"""Links of characters: where words stand in the lines as they were given, however those are given."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from align.cli import extract
from tests import toy
from tests.cli.conftest import Run, Write

pytestmark = pytest.mark.usefixtures("one_thread")

MODEL = ("-q", "-m", "toy/checkpoint.pt", "--threshold", "none", "--null", "none")
SOURCE, TARGET = "  das \u00a0\t haus  ist", "\U0001f600  the\u3000house "


@pytest.fixture
def run(run_main: Run, write: Write, tmp_path: Path) -> Run:
    """The command with a toy model, in an empty folder; every target word has a link."""
    toy.save_model(tmp_path / "toy")
    return partial(run_main, extract.main, *MODEL)


def slices(line: str, source: str, target: str) -> list[tuple[str, str]]:
    """What links of characters cut out of both sides."""
    spans = [tuple(map(int, re.split("[:-]", link))) for link in line.split(" ")]
    return [(source[a:b], target[c:d]) for a, b, c, d in spans]


def of_words(record: str) -> list[tuple[str, str]]:
    """The words that a JSON line links."""
    found = json.loads(record)
    return [(found["source"][i], found["target"][j]) for i, j in found["links"]]


def test_both_sides_are_as_they_stand_in_the_input(run: Run, write: Write) -> None:
    source = SOURCE.replace("\t", " ")
    write(
        bars=f"{source}|||{TARGET}\n\n", columns=f"0.9\t{source}\t{TARGET}\n\n", s=f"{SOURCE}\r\n\n", t=f"{TARGET}\n\n"
    )
    for arguments, side in (
        (("bars",), source),
        (("columns", "--columns", "2,3"), source),
        (("-s", "s", "-t", "t"), SOURCE),
    ):
        lines = run(*arguments, "-f", "offsets").out.decode().split("\n")
        records = run(*arguments, "-f", "jsonl").out.decode().split("\n")
        assert lines[1:] == ["", ""]
        assert slices(lines[0], side, TARGET) == of_words(records[0])
        spans = json.loads(records[0])["source_spans"]
        assert [side[begin:end] for begin, end in spans] == ["das", "\u00a0", "haus", "ist"]
        scored = run(*arguments, "-f", "offsets", "--print-scores").out.decode()
        assert re.sub(r"/\d\.\d\d", "", scored) == "\n".join(lines)


def test_offsets_of_a_translation_are_in_what_is_written(run: Run) -> None:
    translated = run("--translate", "--beam", 1, "-f", "offsets", stdin=" das  haus\n\n").out.decode()
    line, blank, _ = translated.split("\n")
    translation, links = line.split(" ||| ")
    assert blank == ""
    assert {target for _, target in slices(links, " das  haus", translation)} == set(translation.split(" "))
