"""grow-diag as it is defined, by passes over the whole union: slow, and easy to hold against atools, symal and lilt."""

from __future__ import annotations

from collections.abc import Callable

from align.core.types import Links

ATOOLS = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, 0), (1, -1), (1, 1))
MOSES = ((0, -1), (-1, 0), (0, 1), (1, 0), (-1, -1), (1, -1), (-1, 1), (1, 1))


def _free(link: tuple[int, int], links: set[tuple[int, int]]) -> int:
    """How many of a link's two words have no link yet."""
    return all(i != link[0] for i, _ in links) + all(j != link[1] for _, j in links)


def _atools(forward: Links, reverse: Links) -> Links:
    """fast_align's atools: pass over what is left of the union, and take what lies beside a link."""
    grown, left = set(forward & reverse), sorted(forward ^ reverse)
    found = True
    while found:
        found = False
        for i, j in tuple(left):
            if _free((i, j), grown) and any((i + di, j + dj) in grown for di, dj in ATOOLS):
                grown.add((i, j))
                left.remove((i, j))
                found = True
    return frozenset(grown)


def _by_seed(forward: Links, reverse: Links, seeds: list[tuple[int, int]], least: int) -> Links:
    grown, neighbours = set(forward & reverse), ATOOLS if least == 2 else MOSES
    found = True
    while found:
        found = False
        for i, j in seeds:
            for link in ((i + di, j + dj) for di, dj in neighbours if (i, j) in grown):
                if link in forward | reverse and link not in grown and _free(link, grown) >= least:
                    grown.add(link)
                    found = True
    return frozenset(grown)


def _moses(forward: Links, reverse: Links) -> Links:
    return _by_seed(forward, reverse, sorted(forward | reverse, key=lambda link: link[::-1]), 1)


def _lilt(forward: Links, reverse: Links) -> Links:
    return _by_seed(forward, reverse, sorted(forward | reverse), 2)


GROWING: dict[str, Callable[[Links, Links], Links]] = {
    "grow-diag": _atools,
    "moses-grow-diag": _moses,
    "lilt-grow-diag": _lilt,
}
