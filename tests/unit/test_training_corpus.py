"""Which pairs are taken for training, and why the others are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.training.prepare import Cleaner, read_pairs
from align.training.recipe import DataRecipe
from tests.corpora import pair_files

WORDS = st.lists(st.sampled_from(["a", "b", "C", "c"]), max_size=4).map(tuple)


def test_misaligned_files_are_named_with_the_line_where_one_ends(tmp_path: Path) -> None:
    source, target = pair_files(tmp_path, "a\nb\nc\n", "x\ny\n")
    pairs = read_pairs(source, target)
    assert next(pairs) == (("a",), ("x",))
    with pytest.raises(ValueError, match=r"text\.de has 3 lines, .*text\.en has 2: line 3 has no other side"):
        list(pairs)


def test_a_carriage_return_within_a_line_ends_a_word_and_no_line(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"eins\rzwei\ndrei\nvier\n")
    target.write_bytes(b"one two\r\nthree\rthree\nfour\n")
    assert list(read_pairs(source, target)) == [
        (("eins", "zwei"), ("one", "two")),
        (("drei",), ("three", "three")),
        (("vier",), ("four",)),
    ]


def test_each_reason_to_leave_a_pair_out_is_counted() -> None:
    cleaner = Cleaner(DataRecipe(max_words=5, max_ratio=3), [(("in", "test"), ("im", "test"))])
    pairs = [
        (("a", "b"), ("x",)),
        (("A", "b"), ("X",)),  # the same but for case
        (("a",), ()),
        (("a",) * 6, ("x",) * 6),
        (("a",), ("x",) * 4),
        (("In", "test"), ("im", "Test")),
        (("c",), ("z",)),
    ]
    assert list(cleaner(pairs)) == [(("a", "b"), ("x",)), (("c",), ("z",))]
    assert cleaner.taken == 2
    assert cleaner.dropped == {
        "seen before": 1,
        "a side is empty": 1,
        "a side has more than 5 words": 1,
        "a side is more than 3 times as long as the other": 1,
        "in the validation text": 1,
    }


def test_text_without_spaces_is_measured_in_characters() -> None:
    cleaner = Cleaner(DataRecipe(max_words=12, max_ratio=2))
    kept = [
        (("日本の水墨画。",), ("Japanese", "ink", "painting", ".")),
        (("それは", "Perl6だ。"), ("that", "is", "Perl6", ".")),
        (("ภาษาไทย",), ("the", "Thai", "language", ".")),
    ]
    long, uneven = (("日本の水墨画日本の水墨画。",), ("ink",) * 7), (("日本の水墨画。",), ("ink",) * 3)
    assert list(cleaner([*kept, long, uneven])) == kept
    assert cleaner.dropped == {
        "a side has more than 12 words": 1,
        "a side is more than 2 times as long as the other": 1,
    }


@given(st.lists(st.tuples(WORDS, WORDS), max_size=12))
def test_cleaning_keeps_or_counts_every_pair_and_changes_nothing_when_done_again(
    pairs: list[tuple[tuple[str, ...], tuple[str, ...]]],
) -> None:
    cleaner = Cleaner(DataRecipe())
    kept = list(cleaner(pairs))
    assert len(kept) + sum(cleaner.dropped.values()) == len(pairs)
    assert list(Cleaner(DataRecipe())(kept)) == kept


def test_running_numbers_are_no_words(tmp_path: Path) -> None:
    source, target = pair_files(tmp_path, "0\ta\n1\tb\n", "x\ny\n")
    with pytest.raises(ValueError, match=r"text\.de: its lines begin with a running number and a TAB"):
        list(read_pairs(source, target))
