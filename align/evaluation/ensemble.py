"""Average the scores of several aligners' links: aligners that make different errors are better together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from align.core.errors import LinksError
from align.core.types import Pair
from align.evaluation.link_formats import at_line, parse_scored

MEAN = "mean"
"""Name of the method among those that combine links."""

MeanScores = dict[tuple[int, int], float]
"""Scores of links (source word, target word)."""


def mean_links(
    scores: Sequence[Mapping[tuple[int, int], float]], threshold: float, weights: Sequence[float] = ()
) -> MeanScores:
    """Return the links whose mean score over all aligners exceeds a threshold from 0 to 1.

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
