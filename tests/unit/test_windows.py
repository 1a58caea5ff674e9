"""Windows and places of words, beside the slow and obvious way to find them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align.transfer.windows import (
    CLOSED,
    ENDED,
    EQUAL,
    FILLED,
    FREE,
    OUTSIDE,
    PROPORTION,
    WEAK,
    Scores,
    Window,
    best_window,
    divide,
    place_apart,
    place_split,
)

GAINS = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=8)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[int, int, dict[tuple[int, int], float]]:
    source, target = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    links = st.tuples(st.integers(0, source - 1), st.integers(0, target - 1))
    return source, target, draw(st.dictionaries(links, st.sampled_from([0.25, 0.5, 1.0]), max_size=12))


@given(gains=GAINS, taken=st.data())
def test_the_best_window_is_that_of_all_windows(gains: list[float], taken: st.DataObject) -> None:
    owner = taken.draw(st.lists(st.sampled_from([FREE, FREE, 0]), min_size=len(gains), max_size=len(gains)))
    windows = [
        (-sum(gains[a:b]), b - a, a)
        for a, b in combinations(range(len(gains) + 1), 2)
        if all(one == FREE for one in owner[a:b])
    ]
    best = best_window(gains, (0, len(gains)), owner)
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


def divisions(region: Window, count: int) -> Iterator[list[Window]]:
    """Yield all ways to divide a region into windows."""
    for borders in combinations_with_replacement(range(region[0], region[1] + 1), count - 1):
        yield [*pairwise((region[0], *borders, region[1]))]


def equal_words(ours: Sequence[str], theirs: Sequence[str]) -> set[tuple[int, int]]:
    """Return the pairs of words that both sides have equally often, the first with the first, and so on."""
    words = [[word.strip(".,").lower() or word for word in side] for side in (ours, theirs)]
    return {
        (i, j)
        for i, word in enumerate(words[0])
        for j, other in enumerate(words[1])
        if word == other
        and words[0].count(word) == words[1].count(word)
        and words[0][:i].count(word) == words[1][:j].count(word)
    }


def worth(
    links: dict[tuple[int, int], float], spans: Sequence[Window], windows: Sequence[Window], sides: Sequence[list[str]]
) -> float:
    """Return what windows are worth: all scores in them, and what `divide` prefers."""
    ours, theirs = sides
    first, last, low, high = spans[0][0], spans[-1][1], windows[0][0], windows[-1][1]
    equal = equal_words(ours[first:last], theirs[low:high])
    total = 0.0
    for (a, b), (begin, end) in zip(spans, windows, strict=True):
        total += sum(score for (i, j), score in links.items() if a <= i < b and begin <= j < end)
        total += EQUAL * sum(a <= first + i < b and begin <= low + j < end for i, j in equal)
        if begin < end:
            total += FILLED * any(word not in ("&nbsp;", ",", ".") for word in ours[a:b])
            total += theirs[end - 1].endswith(".") * (ENDED if ours[b - 1].endswith(".") else ENDED / 3)
            total -= CLOSED * (end < high and theirs[end] in (",", "."))
        lengths = [len("".join(part)) for part in (ours[first:b], ours[first:last], theirs[low:end], theirs[low:high])]
        total -= PROPORTION * abs(lengths[0] / lengths[1] - lengths[2] / max(1, lengths[3]))
    return total


@given(pair=pairs(), data=st.data())
def test_blocks_divide_a_region_as_the_best_of_all_divisions(
    pair: tuple[int, int, dict[tuple[int, int], float]], data: st.DataObject
) -> None:
    source, target, links = pair
    words = st.sampled_from(["a", "A,", "bb.", "ccc", "5", ",", ".", "&nbsp;"])
    sides = [data.draw(st.lists(words, min_size=size, max_size=size)) for size in (source, target)]
    borders = sorted(data.draw(st.sets(st.integers(0, source), min_size=2)))
    region = tuple(sorted(data.draw(st.tuples(*[st.integers(0, target)] * 2))))
    spans = [*pairwise(borders)]
    windows = divide(Scores(links, source, target), spans, region, sides)
    assert windows in [*divisions(region, len(spans))]
    best = max(worth(links, spans, division, sides) for division in divisions(region, len(spans)))
    assert worth(links, spans, windows, sides) == pytest.approx(best)


@given(pair=pairs(), data=st.data())
def test_no_link_of_a_set_is_given_up_for_anything_else(
    pair: tuple[int, int, dict[tuple[int, int], float]], data: st.DataObject
) -> None:
    ours, theirs = st.sampled_from(["a", "a."]), st.sampled_from(["b", "b."])
    source, target, scores = pair
    links = dict.fromkeys(scores, 1.0)
    at = data.draw(st.integers(0, source))
    spans = [span for span in ((0, at), (at, source)) if span[0] < span[1]]
    sides = [
        data.draw(st.lists(words, min_size=size, max_size=size)) for words, size in ((ours, source), (theirs, target))
    ]
    windows = divide(Scores(links, source, target), spans, (0, target), sides)

    def linked(windows: Sequence[Window]) -> float:
        return sum(
            score
            for (i, j), score in links.items()
            for (a, b), (low, high) in zip(spans, windows, strict=True)
            if a <= i < b and low <= j < high
        )

    assert linked(windows) == max(map(linked, divisions((0, target), len(spans))))
