"""`extract-align --translate` from the outside: exact bytes, ways in and out, and what is refused."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

import align
from align.cli import extract
from align.models.engine.search import EngineTranslator
from tests import toy
from tests.cli.conftest import Run, Write, failed

pytestmark = pytest.mark.usefixtures("one_thread")

TEXT = "das haus\n\nund\nhaus , .\nwir  sehen\t. \ndas haus ist alt und gross\n"
TRANSLATIONS = ["the house", "", "and", "house , .", "we see .", "the house is old and big"]
DIAGONAL = ("--position", "output", "--layer", "1", "--head", "all", "--scorer", "none")
EXPECTED = (
    b"the house ||| 0-0 1-1\n\nand ||| 0-0\nhouse , . ||| 0-0 1-1 2-2\nwe see . ||| 0-0 1-1 2-2\n"
    b"the house is old and big ||| 0-0 1-1 2-2 3-3 4-4 5-5\n"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy that translates word by word, and attends to what it translates, with room for 40 pieces."""
    return toy.save_trained_model(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def plain(run_main: Run, write: Write, trained: Path) -> Run:
    """The command with this model, in a folder with a text."""
    write(text=TEXT)
    return partial(run_main, extract.main, "-m", trained)


@pytest.fixture
def run(plain: Run) -> Run:
    """The command that translates, and aligns in a way that gives such a toy its right links."""
    return partial(plain, "--translate", *DIAGONAL)


def test_bytes(run: Run) -> None:
    assert run("-q", "text") == (0, EXPECTED, "")


def test_formats(run: Run, trained: Path) -> None:
    records = [json.loads(line) for line in run("-q", "text", "-f", "jsonl").out.splitlines()]
    assert [" ".join(record["target"]) for record in records] == TRANSLATIONS
    assert [record["id"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert records[4]["source"] == ["wir", "sehen", "."]
    assert records[4]["links"] == [[0, 0], [1, 1], [2, 2]]
    aligner = align.load(trained, layer=1, head="all", position="output", device="cpu", scorer=None)
    kept = [align.LinePair.of(line, "", number) for number, line in enumerate(TEXT.splitlines(), 1)]
    assert [alignment.to_dict() for alignment in align.translate(aligner, kept)] == records
    scored = run("-q", "text", "--print-scores").out.decode().splitlines()
    assert scored[2].startswith("and ||| 0-0:1.00")
    giza = run("-q", "text", "-f", "giza").out.decode().splitlines()
    assert (len(giza), giza[1], giza[2]) == (18, "the house", "NULL ({ }) das ({ 1 }) haus ({ 2 })")


def test_stderr_says_what_was_done(run: Run) -> None:
    lines = run("text", "--beam", 3).err.splitlines()
    assert lines[1] == "extract-align: layer 1, all heads (as asked)"
    assert lines[2].startswith("extract-align: 6 lines, 1 blank, 0 bad, ")
    assert lines[3].endswith(f"|output|sum/mean|null:eos|threshold:0.5|translate:beam3|v:{align.__version__}")


@pytest.mark.parametrize(("words", "line"), [((), b" ||| \n"), (("|", "|", "x"), b"| | x ||| ")])
def test_an_empty_translation_is_a_line_too(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], line: bytes
) -> None:
    monkeypatch.setattr(EngineTranslator, "__call__", lambda self, sources: [words] * len(sources))
    out = run("-q", stdin="das haus\n\nund\n").out
    assert out.count(b"\n") == 3
    assert out.startswith(line)
    assert out.split(b"\n")[1] == b""


def test_a_translation_that_is_too_long_to_be_read_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EngineTranslator, "__call__", lambda self, sources: [("the",) * 40] * len(sources))
    failed(run(stdin="das\n"), "stdin, line 1: target has 41 pieces")
    result = run("--bad-lines", "blank", stdin="das\n")
    assert result.out == b"the " * 40 + b"||| \n"
    assert "1 line, 0 blank, 1 bad (1 too long), " in result.err


def test_a_bitext_is_warned_about_once(run: Run) -> None:
    result = run("-q", stdin="das haus\nund ||| and\nund ||| and\n")
    assert (result.code, result.out.count(b"\n")) == (0, 3)
    assert result.err == (
        "extract-align: warning: stdin, line 2: ||| found, but only source sentences are expected; "
        "it is read as a word\n"
    )


def test_source_words_take_the_place_of_unknown_ones(run_main: Run) -> None:
    text = "Er kennt Łukasz Żak .\nEr lebt in 北京 und 東京 .\n"
    for both in ((), ("--reverse-model", "en-de")):
        out = run_main(extract.main, "-q", "--translate", *both, stdin=text).out.decode().splitlines()
        assert [line.partition(" ||| ")[0] for line in out] == ["he knows Łukasz Żak.", "he lives in 北京 and 東京."]
    records = run_main(extract.main, "-q", "--translate", "-f", "jsonl", stdin=text).out.splitlines()
    (_, record) = map(json.loads, records)
    assert record["target"] == ["he", "lives", "in", "北京", "and", "東京."]
    assert [3, 3] in record["links"]
    line = " ".join(record["target"])
    assert [line[begin:end] for begin, end in record["target_spans"]] == record["target"]


def test_unknown_words_stay_where_that_is_allowed(run_main: Run) -> None:
    text = "Er kennt Łukasz Żak .\n"
    result = run_main(extract.main, "--translate", "--allow-unk", stdin=text)
    assert "translate:beam5-unk" in result.err
    translated = result.out.decode()
    assert translated.startswith("he knows <unk>ak <unk>ak. ||| ")
    target = translated.partition(" ||| ")[0]
    read = run_main(extract.main, "-q", "-m", "de-en", stdin=f"{text.strip()} ||| {target}\n").out.decode()
    assert translated == f"{target} ||| {read}"
