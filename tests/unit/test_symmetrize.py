"""Symmetrisation: set relations, a naive reading of the published pseudo-code, and other programs' own files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from align.core.types import Links
from align.evaluation.dialects import ALL_METHODS, symmetrize
from align.evaluation.link_formats import parse_pharaoh, renumber
from tests.conftest import ROOT, SHARED
from tests.naive_growing import GROWING

GOLDEN = ROOT / "tests" / "golden" / "symmetrize"
PUBLISHED = SHARED / "gold" / "enfr-hansards447" / "lilt-baselines"

SIZE = 7
indices = st.integers(0, SIZE - 1)
some_links = st.frozensets(st.tuples(indices, indices), max_size=25)


def written_by(program: str) -> list[str]:
    """The methods of which there is a program's own file."""
    return sorted(path.name.split(".")[1] for path in GOLDEN.glob(f"{program}.*"))


@st.composite
def two_directions(draw: st.DrawFn) -> tuple[Links, Links]:
    """Links of both directions in a band around a diagonal, or anywhere, with or without some that they agree on."""
    sizes = draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    width, falling = draw(st.integers(0, 12)), draw(st.booleans())
    cells = [(i, sizes[1] - 1 - j if falling else j) for i in range(sizes[0]) for j in range(sizes[1])
             if abs(i - j) <= width]  # fmt: skip
    fate = draw(st.lists(st.sampled_from("fffbbb+... "), min_size=len(cells), max_size=len(cells)))
    forward, reverse = (
        frozenset(cell for cell, which in zip(cells, fate, strict=True) if which in kinds) for kinds in ("f+", "b+")
    )
    return forward, reverse


def chain(length: int, last: bool) -> tuple[Links, Links]:
    """A staircase of links of which both directions agree on an end only."""
    links = [(k // 2, (k + 1) // 2) for k in range(length)]
    return frozenset(links), frozenset(links[-1:] if last else links[:1])


def read(path: Path, swapped: bool = False) -> list[Links]:
    """Links of each line of a file."""
    return [renumber(parse_pharaoh(line), swapped=swapped) for line in path.read_text().splitlines()]


def koehn(forward: Links, reverse: Links, final: str) -> Links:
    """GROW-DIAG and FINAL of Koehn et al. (2005), word for word: e is a target word, f a source word."""
    alignment = {(j, i) for i, j in forward & reverse}
    union = {(j, i) for i, j in forward | reverse}

    def aligned_e(e: int) -> bool:
        return any((e, f) in alignment for f in range(SIZE))

    def aligned_f(f: int) -> bool:
        return any((e, f) in alignment for e in range(SIZE))

    added = True
    while added:
        added = False
        for e in range(SIZE):
            for f in range(SIZE):
                if (e, f) not in alignment:
                    continue
                for de, df in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                    new = e + de, f + df
                    if (not aligned_e(new[0]) or not aligned_f(new[1])) and new in union - alignment:
                        alignment.add(new)
                        added = True
    for direction in (forward, reverse) if final else ():
        for e in range(SIZE):
            for f in range(SIZE):
                free = not aligned_e(e), not aligned_f(f)
                if (f, e) in direction and (all(free) if final == "-final-and" else any(free)):
                    alignment.add((e, f))
    return frozenset((f, e) for e, f in alignment)


@pytest.mark.parametrize("final", ["", "-final", "-final-and"])
def test_moses_is_the_published_pseudo_code(final: str) -> None:
    numbers = random.Random(1)
    cells = [(i, j) for i in range(SIZE) for j in range(SIZE)]
    for _ in range(400):  # the order of growing matters in one of fifty
        share = numbers.random()
        forward, reverse = (frozenset(cell for cell in cells if numbers.random() < share) for _ in "fb")
        assert symmetrize(forward, reverse, f"moses-grow-diag{final}") == koehn(forward, reverse, final)


@pytest.mark.parametrize("method", GROWING)
@given(both=two_directions())
@settings(max_examples=150)
def test_growing_takes_what_passes_over_the_union_take(method: str, both: tuple[Links, Links]) -> None:
    assert symmetrize(*both, method) == GROWING[method](*both)


@pytest.mark.parametrize("method", GROWING)
@pytest.mark.parametrize("last", [False, True])
def test_growing_along_a_chain_takes_what_passes_take(method: str, last: bool) -> None:
    both = chain(60, last)
    falling = tuple(frozenset((i, 30 - j) for i, j in links) for links in both)
    for forward, reverse in (both, falling):
        assert symmetrize(forward, reverse, method) == GROWING[method](forward, reverse)


@pytest.mark.parametrize("method", GROWING)
@pytest.mark.parametrize("last", [False, True])
def test_a_long_chain_is_grown_from_either_end(method: str, last: bool) -> None:
    forward, reverse = chain(30_000, last)  # by passes this would be 10^9 looks
    assert len(symmetrize(forward, reverse, method)) >= 15_000  # a diagonal step may cover two words at once


@pytest.mark.parametrize("method", ALL_METHODS)
@given(forward=some_links, reverse=some_links)
def test_every_method_lies_between_intersection_and_union(method: str, forward: Links, reverse: Links) -> None:
    assert forward & reverse <= symmetrize(forward, reverse, method) <= forward | reverse


@pytest.mark.parametrize("method", ALL_METHODS)
@given(links=some_links)
def test_links_with_themselves_stay_as_they_are(method: str, links: Links) -> None:
    assert symmetrize(links, links, method) == links


@pytest.mark.parametrize("method", [method for method in ALL_METHODS if "-final" in method])
@given(forward=some_links, reverse=some_links)
def test_final_only_adds(method: str, forward: Links, reverse: Links) -> None:
    grown = method.partition("-final")[0]
    assert symmetrize(forward, reverse, grown) <= symmetrize(forward, reverse, method)


@given(some_links, some_links)
def test_final_covers_every_word_and_final_and_adds_free_words_only(forward: Links, reverse: Links) -> None:
    for grown in ("grow-diag", "moses-grow-diag"):
        final = symmetrize(forward, reverse, f"{grown}-final")
        for side in (0, 1):
            assert {link[side] for link in final} == {link[side] for link in forward | reverse}
        before = symmetrize(forward, reverse, grown)
        after = symmetrize(forward, reverse, f"{grown}-final-and")
        for link in after - before:
            assert not any(link[0] == i or link[1] == j for i, j in after - {link})


def test_neighbours_are_straight_and_diagonal() -> None:
    for neighbour in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)):
        forward, reverse = frozenset({(1, 1), neighbour}), frozenset({(1, 1)})
        assert symmetrize(forward, reverse, "grow-diag") == forward
        assert symmetrize(forward, reverse, "moses-grow-diag") == forward
        both_free = 1 not in neighbour  # a straight neighbour has one free word, a diagonal one two
        assert symmetrize(forward, reverse, "lilt-grow-diag") == (forward if both_free else reverse)
    far = frozenset({(1, 1), (3, 3)})
    assert symmetrize(far, frozenset({(1, 1)}), "grow-diag") == {(1, 1)}
    assert symmetrize(far, frozenset({(1, 1)}), "grow-diag-final-and") == far


def test_final_and_is_not_always_part_of_final() -> None:
    forward = frozenset({(0, 0), (0, 1), (1, 0), (1, 1)})
    assert symmetrize(forward, frozenset(), "grow-diag-final") == forward - {(1, 1)}
    assert symmetrize(forward, frozenset(), "grow-diag-final-and") == {(0, 0), (1, 1)}


def test_the_forward_direction_comes_first() -> None:
    forward, reverse = frozenset({(0, 3)}), frozenset({(0, 0)})
    for method in ("grow-diag-final-and", "moses-grow-diag-final-and", "lilt-grow-diag-final"):
        assert symmetrize(forward, reverse, method) == forward
        assert symmetrize(reverse, forward, method) == reverse


def test_another_method_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the method is one of intersection, union, grow-diag, .*; not 'grow'"):
        symmetrize(frozenset(), frozenset(), "grow")


@pytest.mark.parametrize("method", written_by("atools"))
def test_atools_gives_the_same(method: str) -> None:
    forward, reverse, expected = (
        read(GOLDEN / f"{name}.pharaoh") for name in ("forward", "reverse", f"atools.{method}")
    )
    assert len(expected) == 300
    assert [symmetrize(*both, method) for both in zip(forward, reverse, strict=True)] == expected


@pytest.mark.parametrize("method", written_by("symal"))
def test_symal_gives_the_same(method: str) -> None:
    forward, reverse, expected = (
        read(GOLDEN / f"{name}.pharaoh") for name in ("forward", "reverse", f"symal.{method}")
    )
    assert len(expected) == 300
    assert [symmetrize(*both, method) for both in zip(forward, reverse, strict=True)] == expected


def test_the_dialects_differ() -> None:
    forward, reverse = read(GOLDEN / "forward.pharaoh"), read(GOLDEN / "reverse.pharaoh")
    for method in ("grow-diag", "grow-diag-final"):
        three = [
            [symmetrize(*both, dialect + method) for both in zip(forward, reverse, strict=True)]
            for dialect in ("", "moses-", "lilt-")
        ]
        assert all(a != b for a, b in ((three[0], three[1]), (three[0], three[2]), (three[1], three[2])))


@pytest.mark.parametrize("tool", ["fastalign", "giza"])
@pytest.mark.parametrize(
    ("published", "method"),
    [
        ("intersection", "intersection"),
        ("union", "union"),
        ("grow-diagonal", "lilt-grow-diag"),
        ("grow-diagonal-final", "lilt-grow-diag-final"),
    ],
)
def test_lilts_published_files(tool: str, published: str, method: str) -> None:
    folder = PUBLISHED / tool
    if not folder.is_dir():
        pytest.skip(f"needs {PUBLISHED.relative_to(SHARED)} in {SHARED.name}/ beside the repository")
    forward = read(folder / "test.enfr.talp")
    reverse = read(folder / "test.enfr.reverse.talp", swapped=True)
    expected = read(folder / f"test.enfr.{published}.talp")
    assert len(expected) == 447
    assert [symmetrize(*both, method) for both in zip(forward, reverse, strict=True)] == expected


@pytest.mark.parametrize(("tool", "lines"), [("fastalign", 91), ("giza", 32)])
def test_how_often_atools_and_moses_differ_on_published_files(tool: str, lines: int) -> None:
    folder = PUBLISHED / tool
    if not folder.is_dir():
        pytest.skip(f"needs {PUBLISHED.relative_to(SHARED)} in {SHARED.name}/ beside the repository")
    both = zip(read(folder / "test.enfr.talp"), read(folder / "test.enfr.reverse.talp", swapped=True), strict=True)
    assert sum(symmetrize(f, b, "grow-diag") != symmetrize(f, b, "moses-grow-diag") for f, b in both) == lines
