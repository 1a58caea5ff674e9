"""Links of two directions merged, by the heuristics of statistical machine translation.

Dialects go by nearly the same names, and give different links:

- `grow-diag`, `grow-diag-final`, `grow-diag-final-and` are those of Koehn et al. (2005): growing takes a neighbour
  where *one* of its two words is free. Which one is taken first matters, and the two programs that people use differ
  there: these are fast_align's `atools`, and those under `moses-` are Moses' `symal`.
- `lilt-grow-diag` and `lilt-grow-diag-final` are those of lilt's alignment-scripts (Zenkel et al. 2019), which
  many papers on neural aligners report as "grow-diagonal(-final)": *both* words must be free, throughout.

`intersection ⊆ every method ⊆ union`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from align.core.types import Links

_NEIGHBOURS = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, 0), (1, -1), (1, 1))
"""In the lilt dialect the order decides where diagonal neighbours compete for a word. Its program keeps them in a
Python set: this is the order of such a set in CPython before 3.8, and the published files follow it."""


class _Growing:
    """Links so far, and the words that they cover."""

    def __init__(self, links: Links) -> None:
        self.links = set(links)
        self.sources = {i for i, _ in links}
        self.targets = {j for _, j in links}

    def add(self, link: tuple[int, int]) -> None:
        self.links.add(link)
        self.sources.add(link[0])
        self.targets.add(link[1])

    def one_free(self, link: tuple[int, int]) -> bool:
        return not (link[0] in self.sources and link[1] in self.targets)

    def both_free(self, link: tuple[int, int]) -> bool:
        return not (link[0] in self.sources or link[1] in self.targets)


def _grow_diag(forward: Links, reverse: Links) -> _Growing:
    """Grow from the intersection through the union: neighbours, diagonal ones too, with one word free.

    It is defined by passes over the union in order, until a pass adds nothing. A link that is turned down because it
    is nobody's neighbour comes up again; one whose words are covered will never be taken. So each link need be looked
    at only once: at its first turn, by pass and place, after a neighbour of it has been taken.
    """
    grown = _Growing(forward & reverse)
    waiting = {link for link in forward | reverse if grown.one_free(link)}
    turns: list[tuple[int, tuple[int, int]]] = []

    def call_neighbours(link: tuple[int, int], number: int, passed: tuple[int, int] | None) -> None:
        for di, dj in _NEIGHBOURS:
            neighbour = link[0] + di, link[1] + dj
            if neighbour in waiting:
                waiting.remove(neighbour)
                heappush(turns, (number + (passed is not None and neighbour < passed), neighbour))

    for link in tuple(grown.links) if waiting else ():
        call_neighbours(link, 0, None)
    while turns:
        number, link = heappop(turns)
        if grown.one_free(link):
            grown.add(link)
            call_neighbours(link, number, link)
    return grown


_MOSES_NEIGHBOURS = ((0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1))
"""Straight ones first; as (source, target)."""


def _grow_by_seed(
    grown: _Growing,
    union: Links,
    neighbours: Sequence[tuple[int, int]],
    free: Callable[[tuple[int, int]], bool],
    place: Callable[[tuple[int, int]], tuple[int, int]],
) -> _Growing:
    """Add free neighbours within the union, seed by seed; what is added is a seed too, in this pass if it comes later.

    This too is defined by passes over the union, until a pass adds nothing. Once a seed has had its turn, none of its
    neighbours is free, and no word becomes free again: each seed needs only its first turn, by pass and place.

    Args:
        grown: the links to begin with; it grows.
        union: what may be added.
        neighbours: of a seed, in the order in which they are tried.
        free: whether a link may still be added.
        place: the order in which a pass takes the seeds.
    """
    candidates = {link for link in union if free(link)}
    turns = sorted((0, place(link), link) for link in grown.links) if candidates else []  # sorted, it is a heap
    while turns:
        number, at, (i, j) = heappop(turns)
        for link in ((i + di, j + dj) for di, dj in neighbours):
            if link in candidates and free(link):
                grown.add(link)
                heappush(turns, (number + (place(link) < at), place(link), link))
    return grown


def _moses_grow_diag(forward: Links, reverse: Links) -> _Growing:
    """Grow by links with one word free, seeds in order of their target and then source words."""
    grown = _Growing(forward & reverse)
    return _grow_by_seed(grown, forward | reverse, _MOSES_NEIGHBOURS, grown.one_free, lambda link: (link[1], link[0]))


def _lilt_grow_diag(forward: Links, reverse: Links) -> _Growing:
    """Grow by links with both words free, seeds in order of their source and then target words."""
    grown = _Growing(forward & reverse)
    return _grow_by_seed(grown, forward | reverse, _NEIGHBOURS, grown.both_free, lambda link: link)


def _heuristic(
    grow: Callable[[Links, Links], _Growing], final: Callable[[_Growing, tuple[int, int]], bool] | None = None
) -> Callable[[Links, Links], Links]:
    """A method: grow, and then add links that are `final` to what has grown, the forward direction's first."""

    def merge(forward: Links, reverse: Links) -> Links:
        grown = grow(forward, reverse)
        for links in (forward, reverse) if final else ():
            for link in sorted(links):
                if final and final(grown, link):
                    grown.add(link)
        return frozenset(grown.links)

    return merge


METHODS: dict[str, Callable[[Links, Links], Links]] = {
    "intersection": lambda forward, reverse: forward & reverse,
    "union": lambda forward, reverse: forward | reverse,
    "grow-diag": _heuristic(_grow_diag),
    "grow-diag-final": _heuristic(_grow_diag, _Growing.one_free),
    "grow-diag-final-and": _heuristic(_grow_diag, _Growing.both_free),
    "moses-grow-diag": _heuristic(_moses_grow_diag),
    "moses-grow-diag-final": _heuristic(_moses_grow_diag, _Growing.one_free),
    "moses-grow-diag-final-and": _heuristic(_moses_grow_diag, _Growing.both_free),
    "lilt-grow-diag": _heuristic(_lilt_grow_diag),
    "lilt-grow-diag-final": _heuristic(_lilt_grow_diag, _Growing.both_free),
}
"""What each adds to the intersection: `grow-diag` adds neighbours; `final` then adds every link that has a free word,
`final-and` only those whose two words are free."""


DEFAULT_METHOD = "grow-diag-final-and"
"""Where there are links without scores."""

SOFT = "soft"
"""Not a method on links: it asks for `align.core.soft`, on the scores of two models."""

DIRECTIONS = ("forward", "reverse")
"""Not methods: they ask for one direction's links as they are."""


def symmetrize(forward: Links, reverse: Links, method: str) -> Links:
    """Merge the links of two directions.

    Args:
        forward: links of the direction source to target, as (source, target) from 0.
        reverse: links of the direction target to source, as (source, target) too.
        method: a key of METHODS.

    Raises:
        ValueError: the method is not one of METHODS.
    """
    if method not in METHODS:
        raise ValueError(f"the method is one of {', '.join(METHODS)}; not {method!r}")
    return METHODS[method](forward, reverse)
