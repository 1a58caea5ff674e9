"""Windows and places of words, beside the slow and obvious way to find them."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.transfer.windows import FREE, OUTSIDE, WEAK, Scores, best_window, place_apart, place_split

GAINS = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=8)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[int, int, dict[tuple[int, int], float]]:
    source, target = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    links = st.tuples(st.integers(0, source - 1), st.integers(0, target - 1))
    return source, target, draw(st.dictionaries(links, st.sampled_from([0.25, 0.5, 1.0]), max_size=12))


@given(gains=GAINS, taken=st.data())
def test_the_best_window_is_that_of_all_windows(gains: list[float], taken: st.DataObject) -> None:
    owner = taken.draw(st.lists(st.sampled_from([FREE, FREE, 0]), min_size=len(gains), max_size=len(gains)))
    ends = taken.draw(st.none() | st.sets(st.integers(0, len(gains))))
    windows = [
        (-sum(gains[a:b]), b - a, a)
        for a, b in combinations(range(len(gains) + 1), 2)
        if all(one == FREE for one in owner[a:b]) and (ends is None or {a, b} <= ends)
    ]
    best = best_window(gains, (0, len(gains)), owner, ends)
    if not windows:
        assert best is None
    else:
        assert best
        gain, (low, high) = best
        assert gain == -min(windows)[0] == sum(gains[low:high])
        assert (-gain, high - low, low) in windows


@given(pair=pairs())
def test_crossings_and_gains_are_what_they_are_said_to_be(pair: tuple[int, int, dict[tuple[int, int], float]]) -> None:
    source, target, links = pair
    scores = Scores(links, source, target)
    for at in range(source + 1):
        for k, cost in enumerate(scores.crossings(at)):
            assert cost == pytest.approx(sum(s for (i, j), s in links.items() if (i < at) != (j < k)))
    for span in combinations(range(source + 1), 2):
        for j, gain in enumerate(scores.gains(span)):
            inside = sum(s for (i, to), s in links.items() if to == j and span[0] <= i < span[1])
            total = sum(s for (_, to), s in links.items() if to == j)
            assert gain == pytest.approx(inside - OUTSIDE * (total - inside) - (WEAK if total else 0))
        for window in combinations(range(target + 1), 2):
            assert 0 <= scores.confidence(span, [window]) <= 1
    assert scores.confidence((0, source), [(0, target)]) == (1 if links else 0)


@given(pair=pairs(), cut=st.integers(1, 5))
def test_spans_that_are_apart_are_apart_in_the_target(
    pair: tuple[int, int, dict[tuple[int, int], float]], cut: int
) -> None:
    source, target, links = pair
    spans = [(a, min(a + cut, source)) for a in range(0, source, cut)]
    scores = Scores(links, source, target)
    windows, owner = place_apart(scores, spans, (0, target))
    for n, (span, window) in enumerate(zip(spans, windows, strict=True)):
        assert [j for j in range(target) if owner[j] == n] == (list(range(*window)) if window else [])
        if window is None and len(spans) == 1:
            assert not scores.linked(span)
        assert window is None or any(scores.inside(span)[slice(*window)])
    split, owner = place_split(scores, spans, [(0, target)])
    for n, found in enumerate(split):
        assert [j for window in found for j in range(*window)] == [j for j in range(target) if owner[j] == n]


def test_links_beyond_the_words_are_refused() -> None:
    with pytest.raises(ValueError, match="link 1-0 is outside 1 source and 1 target words"):
        Scores({(1, 0)}, 1, 1)
