"""Heuristics of statistical machine translation that combine the links of two directions.

`grow-diag`, `grow-diag-final` and `grow-diag-final-and` are those of Koehn et al. (2005) in the order of fast_align's
`atools`: growing takes a neighbour if *one* of its two words is free. `align.evaluation.dialects` has those of other
programs. `intersection ⊆ every method ⊆ union`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush

from align.core.types import Links, LinkScores

_NEIGHBOURS = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, 0), (1, -1), (1, 1))


class Growing:
    """Links, and the words that they cover; a word is free if no link covers it."""

    def __init__(self, links: Links) -> None:
        self.links = set(links)
        self.sources = {i for i, _ in links}
        self.targets = {j for _, j in links}

    def add(self, link: tuple[int, int]) -> None:
        """Add a link."""
        self.links.add(link)
        self.sources.add(link[0])
        self.targets.add(link[1])

    def one_free(self, link: tuple[int, int]) -> bool:
        """Tell whether at least one of two words is free."""
        return not (link[0] in self.sources and link[1] in self.targets)

    def both_free(self, link: tuple[int, int]) -> bool:
        """Tell whether two words are free."""
        return not (link[0] in self.sources or link[1] in self.targets)


def _grow_diag(forward: Links, reverse: Links) -> Growing:
    """Grow from the intersection through the union by neighbours, diagonal ones too, with one free word.

    The definition makes passes over the sorted union until a pass adds nothing. A link without a neighbour is tried
    again in the next pass, a link without a free word is never taken. So each link is tried once: at its first turn, by
    pass and place, after a neighbour of it has been taken.
    """
    grown = Growing(forward & reverse)
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


def heuristic(
    grow: Callable[[Links, Links], Growing], final: Callable[[Growing, tuple[int, int]], bool] | None = None
) -> Callable[[Links, Links], Links]:
    """Return a method that grows, and then adds the links for which `final` holds, the forward ones first."""

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
    "grow-diag": heuristic(_grow_diag),
    "grow-diag-final": heuristic(_grow_diag, Growing.one_free),
    "grow-diag-final-and": heuristic(_grow_diag, Growing.both_free),
}
"""`grow-diag` adds neighbours to the intersection; `final` then adds each link with a free word, `final-and` only those
with two free words."""

DEFAULT_METHOD = "grow-diag-final-and"  # the method for links without scores
SOFT = "soft"  # not a heuristic on links: `align.core.scores` combines the scores of two models
DIRECTIONS = ("forward", "reverse")  # not heuristics: they keep the links of one direction
MEAN = "mean"  # the mean of scores, among the methods that combine files of links


def mean_links(
    scores: Sequence[LinkScores], threshold: float, weights: Sequence[float] = ()
) -> dict[tuple[int, int], float]:
    """Return the links whose mean score over several aligners exceeds a threshold from 0 to 1.

    A link that an aligner does not have scores 0; an aligner without any link in a pair, which it may not have read,
    does not count. Without weights all are equal.
    """
    sums: defaultdict[tuple[int, int], float] = defaultdict(float)
    total = 0.0
    for links, weight in zip(scores, weights or [1.0] * len(scores), strict=True):
        if links:
            total += weight
        for link, score in links.items():
            sums[link] += weight * score
    means = {link: value / total for link, value in sums.items()} if total else {}
    return {link: mean for link, mean in sorted(means.items()) if mean > threshold}


def share_of_directions(
    forward: Iterable[tuple[int, int]], reverse: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], float]:
    """Return 1 for each link of both directions, and 0.5 for each of one."""
    first, second = frozenset(forward), frozenset(reverse)
    return {link: 1.0 if link in first and link in second else 0.5 for link in sorted(first | second)}
