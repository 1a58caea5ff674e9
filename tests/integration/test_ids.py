"""Pairs that are given as ids have the links of their text, whichever special pieces stand around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from align import Aligner, IdPair, Pair, load, translate, two_way, words_of_offsets, words_of_pieces
from align.core.aligner import Direction
from tests import hugging
from tests.conftest import plain
from tests.corpora import PAIRS
from tests.hugging import options
from tests.known import KnownRecorder

AT: dict[str, Any] = {"layer": 1, "head": "all", "output_layer": 1, "output_head": "all"}


def as_ids(recorder: Any, pair: Pair, start: list[int], end: int) -> IdPair:
    """A pair's own pieces, with what a decoder begins and ends with, and padding."""
    pieces = recorder.encode(pair)
    source = [*pieces.source, recorder.pad, recorder.pad]
    target = [*start, *pieces.target, end, recorder.pad]
    source_words = [None if word < 0 else word for word in [*pieces.source_words, -1, -1]]
    return IdPair.of(source, target, source_words, [*(None for _ in start), *pieces.target_words, None, None], pair.id)


@pytest.mark.parametrize("kind", hugging.VOCABULARIES)
def test_links_are_those_of_the_text(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    hugging.save_model(kind, tmp_path)
    aligner = load(tmp_path, options=options(kind), **AT)
    recorder: Any = aligner.forward.recorder
    for pair in PAIRS:
        expected = aligner.align(pair.source, pair.target)
        end = 0 if kind == "marian" else 2
        for start in ([], list(recorder.start[-1:]), list(recorder.start)):
            found = next(aligner([as_ids(recorder, pair, start, end)]))
            assert found.scores == pytest.approx(expected.scores, abs=1e-6)
            assert (len(found.pair.source), len(found.pair.target)) == (len(pair.source), len(pair.target))


def test_without_words_links_count_the_ids() -> None:
    aligner = Aligner(Direction(KnownRecorder(), plain(layer=2, head=3)))
    alignment = aligner.align_ids(torch.tensor([13, 14, 15, 2, 1]), np.array([2, 15, 13, 2, 14, 2]))
    assert str(alignment) == "0-2 1-4 2-1"
    assert alignment.pair.target == ("2", "15", "13", "2", "14", "2")
    words = aligner.align_ids([13, 14, 15, 2], [15, 13, 14], [0, 0, 2, None], [0, 1, 1])
    assert (str(words), words.pair.source, words.pair.target) == ("0-1 2-0", ("13,14", "-", "15"), ("15", "13,14"))
    assert str(aligner.align_ids([2], [2])) == str(aligner.align_ids([], [15])) == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([13, 2000, 2], [13]), "line 1: the source has id 2,000, the model has 1,000, from 0"),
        (([13], [13]), "the source has no special piece, such as </s>"),
        (([13, 2], [5, 2, 13], None, [None, None, 0]), ""),
        (([13, 2], [2, 5, 13], None, [None, None, 0]), r"the target begins with \[5\], the model's with \[2\]"),
        (([13, 2] * 60, [13]), "source has 120 pieces with </s>, the model takes 100"),
    ],
)
def test_what_is_no_pair_of_this_model(arguments: Any, message: str) -> None:
    aligner = Aligner(Direction(KnownRecorder(), plain(layer=2, head=3)))
    if not message:
        assert str(aligner.align_ids(*arguments)) == "0-0"
        return
    with pytest.raises(ValueError, match=message):
        aligner.align_ids(*arguments)


def test_ids_are_those_of_one_model_and_not_translated() -> None:
    aligner = Aligner(Direction(KnownRecorder(), plain(layer=2, head=3)))
    with pytest.raises(TypeError, match="ids are those of one model"):
        list(two_way(aligner, aligner)([IdPair.of([13, 2], [13])]))
    with pytest.raises(TypeError, match="sentence 2 is given in ids"):
        list(translate(aligner, ["1 2", IdPair.of([13, 2], [13])]))
    with pytest.raises(TypeError, match=r"source_ids is .*, not a list of whole numbers"):
        IdPair.of([1.5], [13])  # type: ignore[list-item]


def test_words_of_pieces_and_of_offsets() -> None:
    pieces = ["deu_Latn", "\u2581das", "\u2581ha", "us", "\u2581", ".", "</s>"]
    assert words_of_pieces(pieces, ["deu_Latn", "</s>"]) == [None, 0, 1, 1, 2, 2, None]
    assert words_of_pieces(["The", "\u0120hou", "se"]) == [0, 1, 1]
    offsets = [(0, 0), (0, 3), (3, 6), (6, 8), (8, 9), (9, 11), (0, 0)]
    assert words_of_offsets("das haus\t .", offsets) == [None, 0, 1, 1, 2, 2, None]
    assert words_of_offsets(" a", [(0, 1), (1, 2)]) == [0, 0]


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["</s>", "das</w>", "ha", "us</w>", ".</w>", "</s>"], [None, 0, 1, 1, 2, None]),
        (["@@</w>", "ist</w>", "al"], [0, 1, 2]),
        (["das", "ha@@", "us", ".", "</s>"], [0, 1, 1, 2, None]),
        (["\u2581</w>", "x", "\u2581@@"], [0, 0, 1]),
    ],
)
def test_words_by_marks_of_other_tokenisers(pieces: list[str], words: list[int | None]) -> None:
    assert words_of_pieces(iter(pieces), ["</s>"]) == words


def test_pieces_without_a_mark_have_no_words() -> None:
    with pytest.raises(ValueError, match=r"no piece says where a word .*: give the word of each.*, or its offsets to"):
        words_of_pieces(["das", "ha", "##us", "</s>"], ["</s>"])
