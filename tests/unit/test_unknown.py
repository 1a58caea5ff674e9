"""Unknown words of translations, replaced by the source words that they are linked to."""

import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.text import normalize
from align.core.types import Alignment, Pair
from align.models.detokenize import UNKNOWN
from align.models.translate import NO_SOURCE, replace_unknown, unknown_part

Links = dict[tuple[int, int], float]


def aligned(source: str, target: str, links: Links) -> Alignment:
    words = tuple(target.replace("?", UNKNOWN).split(" "))
    return Alignment(Pair(tuple(source.split(" ")), words, 1), links)


def no_scores(pair: Pair) -> None:
    raise AssertionError("these words have links")


@pytest.mark.parametrize(
    ("source", "target", "links", "expected", "expected_links"),
    [
        ("froh 😀 !", "glad ? !", {(0, 0): 1.0, (1, 1): 0.9, (2, 2): 1.0}, "glad 😀 !", {(0, 0), (1, 1), (2, 2)}),
        ("Łukasz Żak", "?kasz ?ak.", {(0, 0): 0.8, (1, 1): 0.6, (0, 1): 0.3}, "Łukasz Żak.", {(0, 0), (0, 1), (1, 1)}),
        ("„Žižek (Łódź)", '"?i?k (?d?)', {(0, 0): 1.0, (1, 1): 1.0}, '"Žižek (Łódź)', {(0, 0), (1, 1)}),
        ("ja 北京 ist", "yes ? ?, is", {(0, 0): 1.0, (1, 1): 0.5, (1, 2): 0.7, (2, 3): 1.0}, "yes 北京, is",
         {(0, 0), (1, 1), (2, 2)}),
        ("北京 東京 .", "? ?.", {(0, 0): 1.0, (1, 1): 0.6, (2, 1): 0.9}, "北京 東京.", {(0, 0), (1, 1), (2, 1)}),
        ("x|||\u2028y", "?", {(0, 0): 1.0}, "xy", {(0, 0)}),
    ],
)  # fmt: skip
def test_linked_words(
    source: str, target: str, links: Links, expected: str, expected_links: set[tuple[int, int]]
) -> None:
    result = replace_unknown(aligned(source, target, links), no_scores)
    assert " ".join(result.pair.target) == expected
    assert result.links == expected_links


def test_scores_decide_where_there_is_no_link_to_a_word() -> None:
    rows = [[0.1, 0.7, 0.9, 0.2], [0.3, 0.2, 0.8, 0.9]]
    result = replace_unknown(aligned("北京 東京 .", "? ?.", {(2, 1): 0.9}), lambda pair: rows)
    assert " ".join(result.pair.target) == "東京 北京."
    assert result.scores == {(2, 1): 0.9}


@pytest.mark.parametrize("rows", [None, [[0.0, 1.0]]])
def test_a_word_without_a_source_is_a_mark(rows: Sequence[Sequence[float]] | None) -> None:
    result = replace_unknown(aligned("a", '"?x".', {}), lambda pair: rows)
    assert result.pair.target == (f'"{NO_SOURCE}".',)


words = st.lists(st.text("ab.,(北", min_size=1, max_size=3), min_size=1, max_size=5)


@given(st.data(), words, st.lists(st.text("ab.?", min_size=1, max_size=3), min_size=1, max_size=6))
def test_nothing_else_changes(data: st.DataObject, source: list[str], target: list[str]) -> None:
    places = st.tuples(st.integers(0, len(source) - 1), st.integers(0, len(target) - 1))
    links = data.draw(st.dictionaries(places, st.floats(0.1, 1)))
    row = st.lists(st.floats(0, 1), min_size=len(source) + 1, max_size=len(source) + 1)
    rows = data.draw(st.lists(row, min_size=len(target), max_size=len(target)))
    before = aligned(" ".join(source), " ".join(target), links)
    after = replace_unknown(before, lambda pair: rows)
    assert UNKNOWN not in "".join(after.pair.target)
    words_after = iter(after.pair.target)
    assert all(word in words_after for word in target if "?" not in word)  # in their order
    assert all(i < len(source) and j < len(after.pair.target) for i, j in after.links)
    assert {i for i, _ in after.links} == {i for i, _ in before.links}
    assert len(after.pair.target) >= 1 if "?" in "".join(target) else after == before


KNOWN = ["Berlin", "Haus", "Vertrag", "100", "\xa0", "–", "-", "/", "(", ")"]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("100\u00a0☃", "100 ?", "100 ☃"),
        ("Berlin–Łódź", "berlin – ?d?", "berlin – Łódź"),
        ("Berlin-Łódź-Vertrag", "the berlin-? treaty", "the berlin-Łódź treaty"),
        ("(Haus/☃)", "(house/?)", "(house/☃)"),
        ("Łódź/Żak", "?/?.", "Łódź/Żak."),
    ],
)
def test_only_the_unknown_part_of_a_source_word_is_copied(source: str, target: str, expected: str) -> None:
    alignment = aligned(source, target, {(0, j): 1.0 for j in range(len(target.split(" ")))})
    result = replace_unknown(alignment, no_scores, lambda word: unknown_part(word, lambda token: token in KNOWN))
    assert " ".join(result.pair.target) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (unicodedata.normalize("NFD", "Việt"), unicodedata.normalize("NFD", "Việt")),
        ("X\u0331áadas", "X\u0331áadas"),  # which has no composed form
        ("Nguyễn\u200bLan", "Nguyễn\u200bLan"),
        ("Haus\u00ad-Łódź,\u00ad", "Łódź"),
    ],
)
def test_marks_and_invisible_characters_are_part_of_their_word(source: str, expected: str) -> None:
    """A model knows none of the letters beyond ASCII, and cuts words nowhere but at punctuation."""
    alignment = aligned(source, "?\u0307 x", {(0, 0): 1.0})
    result = replace_unknown(
        alignment, no_scores, lambda word: unknown_part(word, lambda token: normalize(token).isascii())
    )
    assert result.pair.target[0] == expected
