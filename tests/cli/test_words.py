"""Links of other units: characters of the lines as they were given, and `--words`, through the whole command."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from align.cli import baseline, extract, transfer
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


SPACES = "\u00a0\u202f\u3000\u2028\x85\x1c\x0b\r"
"""Spaces of Unicode, of which some programs take the last five for ends of lines."""


def test_other_spaces_part_words_of_unicode(bundled: Run) -> None:
    plain = "Das Haus, das ich gestern sah, war groß\tThe house that I saw yesterday was big\n"
    spaces = iter(3 * SPACES)
    text = re.sub(" ", lambda _: next(spaces), plain)
    expected = bundled("-q", "-f", "tsv", stdin=plain)
    assert bundled("-q", "-f", "tsv", "--words", "spaces", stdin=plain) == expected
    result = bundled("-f", "tsv", stdin=text)
    assert result.out == expected.out
    assert "|words:unicode|" in result.err
    assert bundled("-q", "--words", "unicode", stdin=text).out == expected.out.split(b"\t")[2]
    assert bundled("-q", "-f", "tsv", "--words", "unicode", stdin=f"\u00a0\t{SPACES}\n").out == b"\t\t\n"
    record = json.loads(bundled("-q", "-f", "jsonl", "--words", "unicode", stdin=text).out)
    assert record["source"] == plain.split("\t")[0].split()
    assert [text[begin:end] for begin, end in record["source_spans"]] == record["source"]
    of_spaces = bundled("-f", "tsv", "--words", "spaces", stdin=text)  # which the option asks for
    assert (of_spaces.out, "words:" in of_spaces.err) == (text.replace("\n", "\t0-0\n").encode(), False)
    translated = [bundled("-q", "--translate", "-f", "tsv", stdin=some.split("\t")[0]).out for some in (plain, text)]
    assert translated[0] == translated[1]


def test_other_spaces_in_tagged_and_statistical_text(run_main: Run, bundled: Run, write: Write) -> None:
    write(text="Das\u00a0<b>Haus</b> ist\u2028alt|||The house is old\n", links="0-0 1-1 2-2 3-3\n")
    tagged = partial(run_main, transfer.main, "-q", "--tags", "html", "--words", "unicode", "text")
    assert tagged("--device", "cpu").out == tagged("--links", "links").out == b"The <b>house</b> is old\n"
    assert "--words unicode cannot be combined with --translate" in tagged("--translate").err
    pytest.importorskip("eflomal")
    write(plain="Das\u00a0Haus|||The house\n")
    result = run_main(baseline.main, "eflomal", "-f", "tsv", "plain")
    assert result.out.startswith(b"Das Haus\tThe house\t")
    assert "|words:unicode|" in result.err
    assert bundled("-q", "-f", "tsv", "--ensemble", "eflomal", "plain").out.startswith(b"Das Haus\tThe house\t")
