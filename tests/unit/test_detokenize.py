"""The way back from a model's pieces to words, and that no word tears a line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.text import split_words
from align.io.reader import SideSplitter
from align.models.detokenize import JOINS, Detokenizer
from align.models.preprocess import SUBWORDS, TOKENIZERS, TextRules


def words(pieces: str, subwords: str = "none", tokenizer: str = "none", language: str = "en") -> str:
    return " ".join(Detokenizer(TextRules(language, "keep", tokenizer, subwords))(pieces.split(" ")))


@pytest.mark.parametrize(
    ("pieces", "subwords", "tokenizer", "expected"),
    [
        ("▁the ▁ho use ▁is ▁old ▁.", "sentencepiece", "none", "the house is old ."),
        (
            "▁ <0x5A> <0xC3> <0xBC> r i ch ▁is <0xE2> <0x82> <0xFF> .",
            "sentencepiece",
            "none",
            "Zürich is\ufffd\ufffd\ufffd.",
        ),
        ("<0x5A> ▁<0x5A> <0x5a>", "subword-nmt", "none", "<0x5A> ▁<0x5A> <0x5a>"),
        ("▁the ▁ho use ▁is ▁old ▁.", "sentencepiece", "moses", "the house is old."),
        ("the ho@@ use , o@@ ld", "subword-nmt", "none", "the house , old"),
        ("the ho@@ use , o@@ ld", "subword-nmt", "moses", "the house, old"),
        ("it &apos;s 5 &lt; 6 &amp; a &#124; b", "none", "moses-escaped", "it's 5 < 6 & a | b"),
        ("a well @-@ known &quot; house &quot;", "none", "moses-escaped-hyphens", 'a well-known "house"'),
    ],
)
def test_each_kind_of_pieces(pieces: str, subwords: str, tokenizer: str, expected: str) -> None:
    assert words(pieces, subwords, tokenizer) == expected


def test_the_target_languages_own_rules() -> None:
    assert words("l' homme", tokenizer="moses", language="fr") == "l'homme"
    assert words("a' - li", tokenizer="moses", language="cs") == "a' - li"  # a mistake in sacremoses, survived


@pytest.fixture(scope="module")
def byte_fallback(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A sentencepiece model with a piece for each byte."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    prefix = tmp_path_factory.mktemp("bytes") / "spm"
    lines = iter(["the house is old"] * 9)
    options: dict[str, Any] = {"vocab_size": 300, "hard_vocab_limit": False, "byte_fallback": True, "minloglevel": 2}
    SentencePieceTrainer.train(sentence_iterator=lines, model_prefix=str(prefix), **options)
    processor: Any = SentencePieceProcessor()
    processor.load(f"{prefix}.model")
    return processor


@given(st.text("ohe üß€𐍈▁ ", max_size=12), st.data())
def test_bytes_are_joined_as_by_sentencepiece(byte_fallback: Any, text: str, data: st.DataObject) -> None:
    pieces = byte_fallback.encode(text, out_type=str)
    assert JOINS["sentencepiece"](pieces).strip() == byte_fallback.decode_pieces(pieces).strip()
    some = [f"<0x{n:02X}>" for n in data.draw(st.lists(st.sampled_from([*text.encode(), 0, 0x80, 0xED, 0xF4, 0xFF])))]
    assert JOINS["sentencepiece"](["a", *some]) == "a" + byte_fallback.decode_pieces(some)


PARTS = ["|", "a", "<0x7C>", "<0x0A>", "<0xE2>", "▁", "@@", " ", "\t", "\n", "\r", "\u2028", "'", "&#124;", "\x85"]


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
