"""Glossary check: which terms of a pair were translated as asked, by its links."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.core.errors import DataError
from align.core.text import LinePair
from align.core.types import Alignment, Pair
from align.transfer.terms import Term, check_terms, format_checked, make_glossary, read_glossary

GLOSSARY = read_glossary(["Haus\thouse", "haus\thome", "Haus am See\tlake house", "EU\tEuropean Union"], "g")
PAIR = Pair(("Das", "»Haus«", "der", "eu"), ("The", "building", "of", "the", "European", "Union."), 7)


def outcomes(pair: Pair, links: set[tuple[int, int]]) -> list[tuple[tuple[int, int], object, object]]:
    return [(found.source, found.target, found.as_asked) for found in check_terms(pair, links, GLOSSARY)]


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ({(1, 1), (3, 4), (3, 5)}, [((1, 2), (1, 2), False), ((3, 4), (4, 6), True)]),
        ({(0, 0)}, [((1, 2), None, None), ((3, 4), None, None)]),  # no link of the terms
        ({(3, 5)}, [((1, 2), None, None), ((3, 4), (5, 6), True)]),  # a word of the asked translation will do
        ({(1, 0), (1, 3), (3, 3)}, [((1, 2), (0, 4), False), ((3, 4), (3, 4), False)]),  # near, and not linked
    ],
)
def test_terms_by_their_links(links: set[tuple[int, int]], expected: list[object]) -> None:
    assert outcomes(PAIR, links) == expected


def test_a_term_may_have_several_translations_and_the_longest_term_is_taken() -> None:
    pair = Pair(("(Haus", "am", "See)", "Haus"), ("lake", "HOUSE", "home"), 1)
    assert outcomes(pair, {(0, 1), (2, 0), (3, 2)}) == [((0, 3), (0, 2), True), ((3, 4), (2, 3), True)]


def test_a_word_as_it_is_goes_before_the_same_without_punctuation() -> None:
    glossary = read_glossary(["C\tC", "C#\tC-sharp"], "g")
    pair = Pair(("C#", "C,"), ("c-sharp", "c"), 1)
    found = check_terms(pair, {(0, 0), (1, 1)}, glossary)
    assert [(one.term.source, one.as_asked) for one in found] == [(("C#",), True), (("C",), True)]


def test_bytes_of_a_checked_pair() -> None:
    pair = LinePair.of("Das  Haus.", "The building.", 7)
    assert format_checked(Alignment(pair, {(1, 1): 0.5}), GLOSSARY) == (
        '{"id": 7, "source": ["Das", "Haus."], "target": ["The", "building."], "links": [[1, 1]], "scores": [0.5], '
        '"null": [0], "source_null": [0], "source_spans": [[0, 3], [5, 10]], "target_spans": [[0, 3], [4, 13]], '
        '"terms": [{"term": "Haus", "asked": ["house", "home"], "given": "building.", "as_asked": false, '
        '"source_words": [1, 2], "target_words": [1, 2], "source_span": [5, 10], "target_span": [4, 13]}]}'
    )
    unlinked = json.loads(format_checked(Alignment(PAIR, {}), GLOSSARY))["terms"][0]
    assert (unlinked["given"], unlinked["as_asked"], unlinked["target_words"]) == (None, None, None)
    assert "source_span" not in unlinked
    assert json.loads(format_checked(Alignment(Pair((), (), 1), {}), GLOSSARY))["terms"] == []


words = st.sampled_from(["a", "b", "A", "b,", "(c)", ",", "."])
sentences = st.lists(words, max_size=6).map(tuple)
some_terms = st.lists(st.tuples(st.lists(words, min_size=1, max_size=3), st.lists(words, min_size=1, max_size=2)))


@given(sentences, sentences, st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5))), some_terms)
def test_found_terms_are_apart_in_order_and_within_the_pair(
    source: tuple[str, ...],
    target: tuple[str, ...],
    links: frozenset[tuple[int, int]],
    terms: list[tuple[list[str], list[str]]],
) -> None:
    links = frozenset((i, j) for i, j in links if i < len(source) and j < len(target))
    glossary = make_glossary(Term(tuple(a), (tuple(b),)) for a, b in terms)
    end = 0
    for found in check_terms(Pair(source, target, 1), links, glossary):
        begin, end_before = found.source[0], end
        end = found.source[1]
        assert end_before <= begin < end <= len(source)
        linked = sorted(j for i, j in links if begin <= i < end)
        assert found.target == ((linked[0], linked[-1] + 1) if linked else None)
        assert (found.as_asked is None) == (not linked)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a\tb", "Haus"], "g, line 2: no TAB: a line is a term, a TAB, and its translation"),
        (["a\tb\tc"], "g, line 1: 3 fields between TABs: a line is a term, a TAB, and its translation"),
        (["a\tb", " \tb"], "g, line 2: an empty side: a line is a term, a TAB, and its translation"),
        (["a\t\u200b"], "g, line 1: an empty side: a line is a term, a TAB, and its translation"),
        (["a\t"], "g, line 1: an empty side: a line is a term, a TAB, and its translation"),
        ([""], "g, line 1: no TAB: a line is a term, a TAB, and its translation"),
        ([], "g: no term in it"),
    ],
)
def test_what_is_no_glossary_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_glossary(lines, "g")
    assert str(caught.value) == message


def test_terms_are_compared_composed_and_without_invisible_characters() -> None:
    decomposed, hyphenated = read_glossary(["Tu\u0308r\tdo\xador"], "g"), Pair(("die", "T\u00fcr"), ("the", "door"), 1)
    (found,) = check_terms(hyphenated, {(1, 1)}, decomposed)
    assert (found.source, found.as_asked) == ((1, 2), True)
    (found,) = check_terms(
        Pair(("»Tu\u0308\xadr«",), ("d\u200boor",), 1), {(0, 0)}, read_glossary(["T\u00fcr\tdoor"], "g")
    )
    assert (found.source, found.as_asked) == ((0, 1), True)
    with_empty = read_glossary(["Haus \u200b\ttree \ufeff"], "g")
    (found,) = check_terms(Pair(("Haus", ","), ("tree", ","), 1), {(0, 0), (1, 1)}, with_empty)
    assert (found.source, found.as_asked) == ((0, 1), True)
