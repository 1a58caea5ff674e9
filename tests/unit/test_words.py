"""Words and where they stand in their line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.formats import FORMATS
from align.core.text import LinePair, find_spans, fold, normalize, split_words
from align.core.types import Alignment, Pair
from align.evaluation.link_formats import parse_pharaoh
from align.models.divide import join, split, split_words_at

lines = st.text(st.sampled_from("ab. \t\u00a0\u3000\u0301\U0001f600") | st.characters(exclude_categories=["Cs"]))


@given(lines)
def test_spans_slice_the_line_to_its_words_and_leave_spaces_over(line: str) -> None:
    spans = find_spans(split_words(line), line)
    assert tuple(line[begin:end] for begin, end in spans) == split_words(line)
    within = {n for begin, end in spans for n in range(begin, end)}
    assert {line[n] for n in range(len(line)) if n not in within} <= {" ", "\t"}


@given(lines)
def test_words_are_what_stands_between_spaces_and_tabs(line: str) -> None:
    assert split_words(line) == tuple(re.findall(r"[^ \t]+", line))


@given(lines)
def test_words_of_unicode_are_those_of_other_programs(line: str) -> None:
    """As simalign, eflomal and fairseq cut a line, and as OpusTrainer does."""
    assert split_words(line, "unicode") == tuple(line.split()) == tuple(re.findall(r"[^\s]+", line))
    pair = LinePair.of(line, line, words="unicode")
    assert [line[begin:end] for begin, end in pair.spans[0]] == line.split()
    assert split_words_at(split_words(line), "unicode") == pair.source


def test_links_of_characters_in_bytes() -> None:
    alignment = Alignment(LinePair.of(" das  Haus", "the\thouse ", 7), {(1, 1): 0.826, (0, 0): 1})
    assert FORMATS["offsets"](alignment, False) == "1:4-0:3 6:10-4:9"
    assert FORMATS["offsets"](alignment, True) == "1:4-0:3/1.00 6:10-4:9/0.83"
    record = alignment.to_dict()
    assert (record["source_spans"], record["target_spans"]) == ([[1, 4], [6, 10]], [[0, 3], [4, 9]])


def test_links_of_characters_need_the_line() -> None:
    with pytest.raises(ValueError, match=r"^pair 7 has not kept its lines: LinePair.of makes one that does$"):
        FORMATS["offsets"](Alignment(Pair(("das",), ("the",), 7), {(0, 0): 1.0}), False)


@given(st.lists(st.tuples(*[st.integers(0, 99)] * 4), min_size=1), st.booleans())
def test_links_of_characters_are_never_read_as_links_of_words(links: list[tuple[int, ...]], scores: bool) -> None:
    line = " ".join(f"{a}:{b}-{c}:{d}{'/0.83' * scores}" for a, b, c, d in links)
    with pytest.raises(ValueError, match="is not a link such as 0-3"):
        parse_pharaoh(line)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ver\xadknu\u0308pfung", "Verkn\u00fcpfung"),
        ("e\xad\u0301", "\u00e9"),  # the soft hyphen goes before letter and accent are composed
        ("Auf\u200clage zu\u200bsammen x\u200dy", "Auflage zusammen xy"),
        ("\ufeffa\u2060b\u200e\u061c\u202a\u202c", "ab"),
        ("E\u2010Mail U\u2011Bahn \u22125 a\u2013b", "E-Mail U-Bahn -5 a\u2013b"),
    ],
)
def test_normalized_text_is_composed_and_visible(text: str, expected: str) -> None:
    assert normalize(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian
        "\u0e44\u0e17\u0e22\u200b\u0e44\u0e17\u0e22",  # Thai
        "\U0001f468\u200d\U0001f467 \u2764\ufe0f",
        "\u0995\u09df \u095c \ufb2a \u212b",  # NFC itself would decompose or replace these
        "\u00a0\u3000\ufb01 \u00bd",  # compatibility characters are left to the model's own normaliser
    ],
)
def test_normalized_text_keeps_what_belongs_to_it(text: str) -> None:
    assert normalize(text) == text


@pytest.mark.parametrize("marks", ["\u0301\u0327", "\u0f73\u0f71", "\uff9e\u0327"])  # some decompose into marks
def test_many_marks_of_a_character_are_not_sorted(marks: str) -> None:
    """To sort them would take minutes: its time grows with the square of their number."""
    word = "a" + marks * 100_000
    assert normalize(word) == fold(word) == word
    assert split(word, "characters") == [(0, len(word))]
    assert join([word, "b"])[0] == (word, "b")
    assert normalize("e\u0301" * 5000) == "é" * 5000


@given(
    st.text(st.sampled_from("ab\xad\u200b\u200d\u0308\u0301\u0e44\ufeff") | st.characters(exclude_categories=["Cs"]))
)
def test_normalizing_twice_changes_nothing(text: str) -> None:
    assert normalize(normalize(text)) == normalize(text)
