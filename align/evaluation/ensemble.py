"""Read the links of other aligners, to average their scores with those of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from align.core.errors import LinksError
from align.core.symmetrize import MeanScores
from align.core.types import Pair
from align.evaluation.link_formats import at_line, parse_scored

MEAN = "mean"
"""Name of the method among those that combine links."""


def share_of_directions(forward: Iterable[tuple[int, int]], reverse: Iterable[tuple[int, int]]) -> MeanScores:
    """Return 1 for each link of both directions, and 0.5 for each of one."""
    first, second = frozenset(forward), frozenset(reverse)
    return {link: 1.0 if link in first and link in second else 0.5 for link in sorted(first | second)}


def check_range(links: Iterable[tuple[int, int]], pair: Pair, name: str, line: int, of_text: str = "") -> None:
    """Check that links are to words of a pair."""
    sizes = len(pair.source), len(pair.target)
    for i, j in links:
        if i >= sizes[0] or j >= sizes[1]:
            what = f"link {i}-{j}, and there are {sizes[0]:,} and {sizes[1]:,} words{of_text}"
            raise LinksError(what, file=name, line=line, hint="links count from 0, source first")


def read_scored(lines: Iterable[str], name: str) -> Iterator[MeanScores]:
    """Read the scores of links of each line; see `align.evaluation.link_formats.parse_scored`."""

    def parse(line: str) -> MeanScores:
        scores = parse_scored(line)
        if any(score > 1 for score in scores.values()):
            raise ValueError("a score above 1")
        return scores

    return (at_line(name, number, parse, line) for number, line in enumerate(lines, 1))
