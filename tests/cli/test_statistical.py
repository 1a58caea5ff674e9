"""`extract-align baseline` from the outside: a line for a line, and what was run."""

from __future__ import annotations

from functools import partial

import pytest

import align
from align.baselines.tools import describe_tool
from align.cli import baseline
from tests import corpora
from tests.cli.conftest import Run, Write
from tests.conftest import needs_fast_align

pytestmark = needs_fast_align


@pytest.fixture
def run(run_main: Run, write: Write) -> Run:
    """The command, in a folder with 200 pairs whose words are translated one by one, in order, and a text to align."""
    train = corpora.word_by_word(200)
    sides = [corpora.as_text(pair.source for pair in train), corpora.as_text(pair.target for pair in train)]
    test = "das haus ||| the house\n\nwir SEHEN das ||| we see the\n ||| the\n"
    write(**{"train.de": sides[0], "train.en": sides[1], "test": test, "alone": 20 * test})
    return partial(run_main, baseline.main, "fast_align")


APART = ("test", "--train-source", "train.de", "--train-target", "train.en")


@pytest.mark.parametrize(("arguments", "trained"), [(APART, "train-200"), (("alone",), "test-80")])
def test_a_line_for_a_line_and_what_was_run(run: Run, arguments: tuple[str, ...], trained: str) -> None:
    result = run(*arguments, "--symmetrize", "intersection")
    assert result.code == 0
    lines = result.out.decode().split("\n")
    assert len(lines) - 1 == (80 if trained == "test-80" else 4)
    assert lines[1] == lines[3] == ""
    if trained != "test-80":
        assert lines[:3] == ["0-0 1-1", "", "0-0 2-2"]  # SEHEN is not in the training text, whose case is kept
    sign = f"align|{describe_tool('fast_align')}|case:keep|trained:{trained}|intersection|v:{align.__version__}"
    assert result.err.splitlines()[-1] == sign


def test_directions_and_formats(run: Run) -> None:
    assert run(*APART, "-f", "naacl", "--symmetrize", "reverse").out == (
        b"1 1 1 S\n1 2 2 S\n3 1 1 S\n3 2 2 S\n3 3 3 S\n"
    )
    assert b'"target": ["we", "see", "the"]' in run(*APART, "-f", "jsonl").out
