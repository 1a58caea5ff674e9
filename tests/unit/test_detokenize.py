"""The way back from a model's pieces to words, and that no word tears a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.text import SideSplitter, split_words
from align.models.detokenize import Detokenizer
from align.models.preprocess import SUBWORDS, TOKENIZERS, TextRules


def words(pieces: str, subwords: str = "none", tokenizer: str = "none", language: str = "en") -> str:
    return " ".join(Detokenizer(TextRules(language, "keep", tokenizer, subwords))(pieces.split(" ")))


@pytest.mark.parametrize(
    ("pieces", "subwords", "tokenizer", "expected"),
    [
        ("▁the ▁ho use ▁is ▁old ▁.", "sentencepiece", "none", "the house is old ."),
        ("▁the ▁ho use ▁is ▁old ▁.", "sentencepiece", "moses", "the house is old."),
        ("the ho@@ use , o@@ ld", "subword-nmt", "none", "the house , old"),
        ("the ho@@ use , o@@ ld", "subword-nmt", "moses", "the house, old"),
        ("cut sho@@", "subword-nmt", "none", "cut sho"),
        ("the ho@@ use , old", "none", "none", "the ho@@ use , old"),
        ("it &apos;s 5 &lt; 6 &amp; a &#124; b", "none", "moses-escaped", "it's 5 < 6 & a | b"),
        ("it 's &lt; here", "none", "moses", "it's &lt; here"),
        ("a well @-@ known &quot; house &quot;", "none", "moses-escaped-hyphens", 'a well-known "house"'),
        ("the <unk> house", "none", "none", "the <unk> house"),
    ],
)
def test_each_kind_of_pieces(pieces: str, subwords: str, tokenizer: str, expected: str) -> None:
    assert words(pieces, subwords, tokenizer) == expected


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ("a ||| b", "a | | | b"),
        ("a|||b |||||", "a| | |b | | | | |"),
        ("a||b ||", "a||b ||"),
        ("a\u2028b \x85 c\rd\x0be\x1cf", "a b c d e f"),
        ("a\tb\nc", "a b c"),
        ("", ""),
        ("▁", "▁"),
        ("a\u00a0b \u3000", "a\u00a0b \u3000"),
    ],
)
def test_what_could_tear_a_line_cannot(pieces: str, expected: str) -> None:
    assert words(pieces) == expected


def test_escaped_bars_come_out_as_words_of_one() -> None:
    assert words("&#124;&#124;&#124;", tokenizer="moses-escaped") == "| | |"


def test_a_lone_blank_is_no_word() -> None:
    assert words("▁", "sentencepiece", "moses") == ""


def test_the_target_languages_own_rules() -> None:
    assert words("l' homme", tokenizer="moses", language="fr") == "l'homme"
    assert words("a' - li", tokenizer="moses", language="cs") == "a' - li"  # a mistake in sacremoses, survived


PARTS = ["|", "a", "▁", "@@", " ", "\t", "\n", "\r", "\u2028", "'", "&#124;", "\x85"]


@given(
    st.lists(st.lists(st.sampled_from(PARTS), max_size=5).map("".join), max_size=8),
    st.sampled_from(list(SUBWORDS)),
    st.sampled_from(list(TOKENIZERS)),
)
def test_any_pieces_give_one_line_of_two_fields(pieces: list[str], subwords: str, tokenizer: str) -> None:
    found = Detokenizer(TextRules("en", "keep", tokenizer, subwords))(pieces)
    line = f"{' '.join(found)} ||| 0-0"
    assert len(line.splitlines()) == 1
    assert split_words(SideSplitter()(line)[0]) == found
