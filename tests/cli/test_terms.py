"""`extract-align --terms`: a record for each line, with the terms in it; what is no glossary; and going on."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from align.cli import extract
from tests import toy
from tests.cli.conftest import Result, failed

pytestmark = pytest.mark.usefixtures("one_thread")

MODEL = ("-q", "-m", "toy/checkpoint.pt", "--threshold", "none", "--null", "none")


@pytest.fixture
def run(run_main: Callable[..., Result], write: Callable[..., None], tmp_path: Path) -> Callable[..., Result]:
    """The command with a toy model, in an empty folder with a glossary; every target word has a link."""
    toy.save_model(tmp_path / "toy")
    write(glossary="Haus\thouse\nHaus\thome\nist\twas\n")
    return partial(run_main, extract.main, *MODEL)


def test_the_bytes_of_a_line_and_a_record_for_each(run: Callable[..., Result]) -> None:
    result = run("--terms", "glossary", "--bad-lines", "blank", stdin=" haus ||| (House)\n\nbad\ndas ||| the\n")
    first, *others = result.out.decode().splitlines()
    assert first == (
        '{"id": 1, "source": ["haus"], "target": ["(House)"], "links": [[0, 0]], "scores": [1.0], "null": [], '
        '"source_null": [], "source_spans": [[1, 5]], "target_spans": [[1, 8]], "terms": [{"term": "Haus", '
        '"asked": ["house", "home"], "given": "(House)", "as_asked": true, "source_words": [0, 1], '
        '"target_words": [0, 1], "source_span": [1, 5], "target_span": [1, 8]}]}'
    )
    assert [json.loads(record)["terms"] for record in others] == [[], [], []]
    assert json.loads(others[1])["skipped"] == "wrong fields"


def test_translations_are_checked_too(run: Callable[..., Result]) -> None:
    arguments = ("--translate", "--beam", 1, "--max-len-b", 5)
    record = json.loads(run(*arguments, "--terms", "glossary", "-f", "jsonl", stdin="das haus\n").out)
    plain = json.loads(run(*arguments, "-f", "jsonl", stdin="das haus\n").out)
    assert [term["term"] for term in record.pop("terms")] == ["Haus"]
    assert record == plain


def test_another_glossary_is_another_run(run: Callable[..., Result], write: Callable[..., None]) -> None:
    write(text="haus ||| house\n")
    arguments = ("text", "--terms", "glossary", "-o", "checked", "--resume")
    assert run(*arguments).code == 0
    before = Path("checked").read_bytes()
    assert (run(*arguments).code, Path("checked").read_bytes()) == (0, before)
    write(glossary="haus\thome\n")
    failed(run(*arguments), "checked is of another run (terms was ")


def test_what_is_no_glossary_stops_before_the_first_line(
    run: Callable[..., Result], write: Callable[..., None]
) -> None:
    write(none="a\tb\nHaus house\n", half="a\t \n", empty="", bytes=b"a\tb\xff\n", text="haus ||| house\n")
    for name, message in (
        ("none", "none, line 2: no TAB: a line is a term, a TAB, and its translation"),
        ("half", "half, line 1: an empty side"),
        ("empty", "empty: no term in it"),
        ("bytes", "bytes, line 1: not UTF-8"),
        ("missing", "missing: No such file"),
    ):
        result = run("text", "--terms", name, "-o", "checked")
        failed(result, message)
        assert not Path("checked").exists()
