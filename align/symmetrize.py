"""Links of two directions made one, by the heuristics of statistical machine translation.

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

from align.types import Links

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


def _grow_diag(forward: Links, backward: Links) -> _Growing:
    """Grow from the intersection through the union: neighbours, diagonal ones too, with one word free."""
    grown = _Growing(forward & backward)
    candidates = sorted((forward | backward) - grown.links)
    found = True
    while found:
        found = False
        left = []
        for i, j in candidates:
            if grown.one_free((i, j)) and any((i + di, j + dj) in grown.links for di, dj in _NEIGHBOURS):
                grown.add((i, j))
                found = True
            else:
                left.append((i, j))
        candidates = left
    return grown


_MOSES_NEIGHBOURS = ((0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1))
"""Straight ones first; as (source, target)."""


def _grow_by_seed(
    grown: _Growing,
    union: Sequence[tuple[int, int]],
    neighbours: Sequence[tuple[int, int]],
    free: Callable[[tuple[int, int]], bool],
) -> _Growing:
    """Add free neighbours within the union, seed by seed: what is added is a seed too, now if its turn is to come."""
    candidates = frozenset(union)
    found = True
    while found:
        found = False
        for i, j in union:
            if (i, j) not in grown.links:
                continue
            for link in ((i + di, j + dj) for di, dj in neighbours):
                if link in candidates and free(link):
                    grown.add(link)
                    found = True
    return grown


def _moses_grow_diag(forward: Links, backward: Links) -> _Growing:
    """Grow by links with one word free, seeds in order of their target and then source words."""
    grown = _Growing(forward & backward)
    union = sorted(forward | backward, key=lambda link: link[::-1])
    return _grow_by_seed(grown, union, _MOSES_NEIGHBOURS, grown.one_free)


def _lilt_grow_diag(forward: Links, backward: Links) -> _Growing:
    """Grow by links with both words free, seeds in order of their source and then target words."""
    grown = _Growing(forward & backward)
    return _grow_by_seed(grown, sorted(forward | backward), _NEIGHBOURS, grown.both_free)


def _heuristic(
    grow: Callable[[Links, Links], _Growing], final: Callable[[_Growing, tuple[int, int]], bool] | None = None
) -> Callable[[Links, Links], Links]:
    """A method: grow, and then add links that are `final` to what has grown, the forward direction's first."""

    def combine(forward: Links, backward: Links) -> Links:
        grown = grow(forward, backward)
        for links in (forward, backward) if final else ():
            for link in sorted(links):
                if final and final(grown, link):
                    grown.add(link)
        return frozenset(grown.links)

    return combine


METHODS: dict[str, Callable[[Links, Links], Links]] = {
    "intersection": lambda forward, backward: forward & backward,
    "union": lambda forward, backward: forward | backward,
    "grow-diag": _heuristic(_grow_diag),
    "grow-diag-final": _heuristic(_grow_diag, _Growing.one_free),
    "grow-diag-final-and": _heuristic(_grow_diag, _Growing.both_free),
    "moses-grow-diag": _heuristic(_moses_grow_diag),
    "moses-grow-diag-final": _heuristic(_moses_grow_diag, _Growing.one_free),
    "moses-grow-diag-final-and": _heuristic(_moses_grow_diag, _Growing.both_free),
    "lilt-grow-diag": _heuristic(_lilt_grow_diag),
    "lilt-grow-diag-final": _heuristic(_lilt_grow_diag, _Growing.both_free),
}
"""What each of them adds to the intersection: `grow-diag` neighbours; `final` then every link that has a free word,
`final-and` those that have two."""


DEFAULT_METHOD = "grow-diag-final-and"
"""Where there are links and nothing more."""

SOFT = "soft"
"""What is no method on links, but asks for `align.soft`, on the scores of two models."""

THRESHOLD = 0.4
"""Of soft scores. Chosen on gold of German and English: docs/overview.md says how, and how little it matters."""

DIRECTIONS = ("forward", "reverse")
"""What is no method, but asks for one direction's links as they are."""


def symmetrize(forward: Links, backward: Links, method: str) -> Links:
    """Combine the links of two directions.

    Args:
        forward: links of the direction source to target, as (source, target) from 0.
        backward: those of the other direction, as (source, target) too.
        method: a key of METHODS.

    Raises:
        ValueError: another method.
    """
    if method not in METHODS:
        raise ValueError(f"the method is one of {', '.join(METHODS)}; not {method!r}")
    return METHODS[method](forward, backward)
