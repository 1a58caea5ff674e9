"""Which pairs are taken for training, and why the others are not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from align.training.prepare import clean, read_pairs
from align.training.recipe import DataRecipe


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
    recipe, dropped = DataRecipe(max_words=5, max_ratio=3), Counter[str]()
    pairs = [
        (("a", "b"), ("x",)),
        (("A", "b"), ("X",)),  # the same but for case
        (("a",), ()),
        (("a",) * 6, ("x",) * 6),
        (("a",), ("x",) * 4),
        (("In", "test"), ("im", "Test")),
        (("c",), ("z",)),
    ]
    found = list(clean(pairs, recipe, dropped, valid=[(("in", "test"), ("im", "test"))]))
    assert found == [(("a", "b"), ("x",)), (("c",), ("z",))]
    assert dropped == {
        "seen before": 1,
        "a side is empty": 1,
        "a side has more than 5 words": 1,
        "a side is more than 3 times as long as the other": 1,
        "in the validation text": 1,
    }


def test_text_without_spaces_is_measured_in_characters() -> None:
    recipe, dropped = DataRecipe(max_words=12, max_ratio=2), Counter[str]()
    kept = [
        (("日本の水墨画。",), ("Japanese", "ink", "painting", ".")),
        (("それは", "Perl6だ。"), ("that", "is", "Perl6", ".")),
        (("ภาษาไทย",), ("the", "Thai", "language", ".")),
    ]
    long, uneven = (("日本の水墨画日本の水墨画。",), ("ink",) * 7), (("日本の水墨画。",), ("ink",) * 3)
    assert list(clean([*kept, long, uneven], recipe, dropped)) == kept
    assert dropped == {
        "a side has more than 12 words": 1,
        "a side is more than 2 times as long as the other": 1,
    }
