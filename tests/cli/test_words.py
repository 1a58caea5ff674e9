"""`--words`: characters and pieces in place of words, through the whole command."""

from __future__ import annotations

import json
from functools import partial

import pytest

from align.cli import extract
from tests.cli.conftest import Run, printed

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def run(run_main: Run) -> Run:
    """The command with the bundled model."""
    return partial(run_main, extract.main, "--device", "cpu")


def test_the_bytes_of_pieces_and_characters(run: Run) -> None:
    line = " Das  Haus,|||The house\n\n"
    printed(run("-q", "--words", "pieces", stdin=line), "0-0 1-1", "")
    printed(run("-q", "--words", "pieces", "-f", "offsets", stdin=line), "1:4-0:3 6:10-4:9", "")
    links = " ".join(
        f"{i}-{j}" for word, other in ((range(3), range(3)), (range(3, 7), range(3, 8))) for i in word for j in other
    )
    printed(run("-q", "--words", "characters", stdin=line), links, "")
    record = json.loads(run("-q", "--words", "characters", "-f", "jsonl", stdin=line).out.splitlines()[0])
    assert ("".join(record["source"]), record["source_spans"][3]) == ("DasHaus,", [6, 7])


def test_two_models_and_segmented_words(run: Run) -> None:
    line = "Das Haus, 日本 へ|||The house, to Japan\n"
    two = ("-q", "--reverse-model", "en-de")
    assert run(*two, "--words", "pieces", stdin="Das Haus,|||The house\n").out == b"0-0 1-1\n"
    text = "Er hat das Buch gelesen .|||He has read the book .\n"
    for models in ((), two):
        assert run(*models, "--words", "segmented", stdin=text).out == run(*models, stdin=text).out
    record = json.loads(run("-q", "--words", "segmented", "-f", "jsonl", stdin=line).out)
    assert record["source"] == ["Das", "Haus,", "日本", "へ"]
    assert record["source_spans"] == [[0, 3], [4, 9], [10, 12], [13, 14]]
