"""`eval/run.py xml-mt`: which sentences are taken, and when they come out as they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.eval.conftest import Result, read_table

pytestmark = pytest.mark.usefixtures("one_thread")

SOURCES = {
    "1": "Das <b>Haus</b> ist alt .",
    "2": "Das <b>Haus</b> ist alt &amp; <i>groß</i> .",
    "3": "Das <b>Haus</b> ist alt .",
    "plain": "Das Haus ist alt .",
    "other tags": "Das <b>Haus</b> ist alt .",
    "not well-formed": "Das <b>Haus ist alt .",
    "alone": "Das <b>Haus</b> ist alt .",
}
TARGETS = {
    "1": "The <b>house</b> is old .",
    "2": "The <b>house</b> is old &amp; <i>big</i> .",
    "3": "The house is <b>old</b> .",
    "plain": "The house is old .",
    "other tags": "The <i>house</i> is old .",
    "not well-formed": "The <b>house</b> is old .",
}


def write(path: Path, text: object) -> Path:
    path.write_text(json.dumps({"lang": "xx", "type": "source", "text": text}), encoding="utf-8")
    return path


def test_sentences_with_the_same_tags_are_compared(tmp_path: Path, command: Callable[..., Result]) -> None:
    files = write(tmp_path / "de.json", SOURCES), write(tmp_path / "en.json", TARGETS)
    result = command("xml-mt", *files, "--model", "de-en", "--reverse-model", "en-de")
    assert result.code == 0, result.err
    sign, rows = read_table(tmp_path / "results" / "xml_mt.tsv")
    assert sign.startswith("# xml-mt|fairseq:de-en@")
    assert sign[2:] in result.out
    expected = [("one tag", "2", "50.0"), ("several", "1", "100.0"), ("all", "3", "66.7")]
    for system in ("one model", "two models"):
        found = [(row["sentences with"], row["sentences"], row["exact"]) for row in rows if row["system"] == system]
        assert found == expected


@pytest.mark.parametrize("text", ['{"lang": "de"}', "[]", '{"text": {"a": 1}}', '{"text": []}', "no JSON", '"\\ud800'])
def test_files_of_another_kind_are_named(tmp_path: Path, command: Callable[..., Result], text: str) -> None:
    (tmp_path / "de.json").write_text(text, encoding="utf-8")
    result = command("xml-mt", tmp_path / "de.json", write(tmp_path / "en.json", TARGETS), "--model", "de-en")
    assert (result.code, result.out) == (1, "")
    assert f"{tmp_path / 'de.json'}: no JSON object whose `text` has sentences by name" in result.err


def test_texts_without_tags_are_refused(tmp_path: Path, command: Callable[..., Result]) -> None:
    files = write(tmp_path / "de.json", {"a": "Haus"}), write(tmp_path / "en.json", {"a": "house"})
    result = command("xml-mt", *files, "--model", "de-en")
    assert (result.code, result.out) == (1, "")
    assert "no sentence has tags" in result.err
