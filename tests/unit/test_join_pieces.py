"""Pieces to words, as fairseq's --remove-bpe joins them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align.training.plugin.words import SUBWORDS, join_pieces


@pytest.mark.parametrize(
    ("pieces", "owners", "words"),
    [
        ("\u2581das \u2581ha us", [0, 1, 1], "das haus"),
        ("\u2581das \u2581 \u2581", [0, 0, 0], "das"),
        ("\u2581das \u2581 <unk> \u2581ist", [0, 1, 1, 2], "das <unk> ist"),
        ("\u2581 \u2581", [-1, -1], ""),
    ],
)
def test_sentencepiece(pieces: str, owners: list[int], words: str) -> None:
    assert join_pieces(pieces.split(), "sentencepiece") == (owners, words.split())


@pytest.mark.parametrize("name", ["subword_nmt", "@@ "])
@pytest.mark.parametrize(
    ("pieces", "owners", "words"),
    [("ha@@ <unk> <unk>", [0, 0, 1], "ha<unk> <unk>"), ("das ha@@", [0, 1], "das ha"), ("@@ @@", [-1, -1], "")],
)
def test_subword_nmt(name: str, pieces: str, owners: list[int], words: str) -> None:
    assert join_pieces(pieces.split(), name) == (owners, words.split())


@pytest.mark.parametrize("subwords", SUBWORDS)
@settings(deadline=None)
@given(pieces=st.lists(st.text("\u2581@ab", min_size=1, max_size=5), max_size=8))
def test_words_are_those_that_fairseq_prints(subwords: str, pieces: list[str]) -> None:
    pytest.importorskip("fairseq")
    from fairseq.data.data_utils import post_process

    owners, words = join_pieces(pieces, subwords)
    assert words == post_process(" ".join(pieces), subwords).split()
    assert len(owners) == len(pieces)
    assert owners == sorted(owners)
    assert all(0 <= owner < len(words) for owner in owners) or not words
