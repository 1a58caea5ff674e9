"""Symmetrisation heuristics of other programs, which have nearly the same names but give different links.

- `moses-` are those of Moses' `symal`: links are processed in another order than by fast_align's `atools`, whose
  heuristics are in `align.core.symmetrize`.
- `lilt-` are those of lilt's alignment-scripts (Zenkel et al. 2019), which many papers on neural aligners report as
  "grow-diagonal(-final)": *both* words must be free, throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from align.core.symmetrize import METHODS, Growing, heuristic
from align.core.types import Links

_LILT_NEIGHBOURS = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, 0), (1, -1), (1, 1))
"""The order decides which of several diagonal neighbours gets a word. lilt's program keeps them in a Python set: this
is the order of that set in CPython before 3.8, which the published files follow.
"""

_MOSES_NEIGHBOURS = ((0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1))
"""Neighbours as (source, target), straight ones first."""


def _grow_by_seed(
    grown: Growing,
    union: Links,
    neighbours: Sequence[tuple[int, int]],
    free: Callable[[tuple[int, int]], bool],
    place: Callable[[tuple[int, int]], tuple[int, int]],
) -> Growing:
    """Add free neighbours within the union, seed by seed; an added link is a seed too, in this pass if it comes later.

    The definition makes passes over the union until a pass adds nothing. After the turn of a seed none of its
    neighbours is free, and no word becomes free again: each seed needs only its first turn, by pass and place.
    """
    candidates = {link for link in union if free(link)}
    turns = sorted((0, place(link), link) for link in grown.links) if candidates else []  # a sorted list is a heap
    while turns:
        number, at, (i, j) = heappop(turns)
        for link in ((i + di, j + dj) for di, dj in neighbours):
            if link in candidates and free(link):
                grown.add(link)
                heappush(turns, (number + (place(link) < at), place(link), link))
    return grown


def _moses_grow_diag(forward: Links, reverse: Links) -> Growing:
    """Grow by links with one free word, seeds in order of their target and then source words."""
    grown = Growing(forward & reverse)
    return _grow_by_seed(grown, forward | reverse, _MOSES_NEIGHBOURS, grown.one_free, lambda link: (link[1], link[0]))


def _lilt_grow_diag(forward: Links, reverse: Links) -> Growing:
    """Grow by links with two free words, seeds in order of their source and then target words."""
    grown = Growing(forward & reverse)
    return _grow_by_seed(grown, forward | reverse, _LILT_NEIGHBOURS, grown.both_free, lambda link: link)


ALL_METHODS: dict[str, Callable[[Links, Links], Links]] = {
    **METHODS,
    "moses-grow-diag": heuristic(_moses_grow_diag),
    "moses-grow-diag-final": heuristic(_moses_grow_diag, Growing.one_free),
    "moses-grow-diag-final-and": heuristic(_moses_grow_diag, Growing.both_free),
    "lilt-grow-diag": heuristic(_lilt_grow_diag),
    "lilt-grow-diag-final": heuristic(_lilt_grow_diag, Growing.both_free),
}
"""All heuristics by name, those of `align.core.symmetrize` first."""


def symmetrize(forward: Links, reverse: Links, method: str) -> Links:
    """Combine the links of two directions.

    Args:
        forward: links of the direction source to target, as (source, target) from 0.
        reverse: links of the direction target to source, as (source, target) too.
        method: a key of ALL_METHODS.

    Raises:
        ValueError: the method is not one of ALL_METHODS.
    """
    if method not in ALL_METHODS:
        raise ValueError(f"the method must be one of {', '.join(ALL_METHODS)}; got {method!r}")
    return ALL_METHODS[method](forward, reverse)
