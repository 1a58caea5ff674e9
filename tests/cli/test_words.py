"""Links of other units: characters of the lines as they were given, and `--words`, through the whole command."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from align.cli import extract
from tests import toy
from tests.cli.conftest import Run, Write, printed

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


@pytest.fixture
def bundled(run_main: Run) -> Run:
    """The command with the bundled model."""
    return partial(run_main, extract.main, "--device", "cpu")


def test_the_bytes_of_pieces_and_characters(bundled: Run) -> None:
    line = " Das  Haus,|||The house\n\n"
    printed(bundled("-q", "--words", "pieces", stdin=line), "0-0 1-1", "")
    printed(bundled("-q", "--words", "pieces", "-f", "offsets", stdin=line), "1:4-0:3 6:10-4:9", "")
    links = " ".join(
        f"{i}-{j}" for word, other in ((range(3), range(3)), (range(3, 7), range(3, 8))) for i in word for j in other
    )
    printed(bundled("-q", "--words", "characters", stdin=line), links, "")
    record = json.loads(bundled("-q", "--words", "characters", "-f", "jsonl", stdin=line).out.splitlines()[0])
    assert ("".join(record["source"]), record["source_spans"][3]) == ("DasHaus,", [6, 7])


def test_two_models_and_segmented_words(bundled: Run) -> None:
    line = "Das Haus, 日本 へ|||The house, to Japan\n"
    two = ("-q", "--reverse-model", "en-de")
    assert bundled(*two, "--words", "pieces", stdin="Das Haus,|||The house\n").out == b"0-0 1-1\n"
    text = "Er hat das Buch gelesen .|||He has read the book .\n"
    for models in ((), two):
        assert bundled(*models, "--words", "segmented", stdin=text).out == bundled(*models, stdin=text).out
    record = json.loads(bundled("-q", "--words", "segmented", "-f", "jsonl", stdin=line).out)
    assert record["source"] == ["Das", "Haus,", "日本", "へ"]
    assert record["source_spans"] == [[0, 3], [4, 9], [10, 12], [13, 14]]
