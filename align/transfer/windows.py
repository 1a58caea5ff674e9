"""Where words of the source are in the target: the window of a span, and the place between two words.

Both are found by the scores that link words of the two sides: 1 for each of a set of links, or soft scores.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

OUTSIDE = 1.0
"""How much a score of a word outside the span counts against the window. research/choices.md says how it was chosen."""

FLOOR = 0.01
"""Soft scores up to this are left out where a whole text is to be done: they are many, and change next to nothing."""

Window = tuple[int, int]
"""Words of a sentence: the first of them, and the first behind them."""

FREE = -1
"""What a target word is taken by where no span has it."""


class Scores:
    """The scores of a sentence pair, by source word.

    Args:
        scores: of links (source word, target word); of a set of links, 1 each.
        source: how many words the source has.
        target: how many words the target has.

    Raises:
        ValueError: a link to a word that its side does not have.
    """

    def __init__(self, scores: Mapping[Window, float] | Collection[Window], source: int, target: int) -> None:
        self.source, self.target = source, target
        self._rows: list[list[tuple[int, float]]] = [[] for _ in range(source)]
        self._totals = [0.0] * target
        for (i, j), score in (scores if isinstance(scores, Mapping) else dict.fromkeys(scores, 1.0)).items():
            if not (0 <= i < source and 0 <= j < target):
                raise ValueError(f"link {i}-{j}, and there are {source:,} and {target:,} words")
            self._rows[i].append((j, score))
            self._totals[j] += score

    def inside(self, span: Window) -> list[float]:
        """For each target word, the sum of its scores with the words of a span."""
        sums = [0.0] * self.target
        for row in self._rows[span[0] : span[1]]:
            for j, score in row:
                sums[j] += score
        return sums

    def gains(self, span: Window, outside: float = OUTSIDE) -> list[float]:
        """For each target word, its scores with the words of a span minus those with others."""
        inside = self.inside(span)
        return [
            within - outside * (total - within) if total else 0.0
            for within, total in zip(inside, self._totals, strict=True)
        ]

    def linked(self, span: Window) -> bool:
        """Whether a word of a span has a score with any word."""
        return any(self._rows[span[0] : span[1]])

    def crossings(self, at: int) -> list[float]:
        """For each place in the target `[J+1]`, the scores of the links that cross one place of the source.

        Args:
            at: the source word behind the place.
        """
        left = self.inside((0, at))
        costs = [sum(left)]
        for before, total in zip(left, self._totals, strict=True):
            costs.append(costs[-1] + total - 2 * before)
        return costs

    def confidence(self, span: Window, windows: Sequence[Window]) -> float:
        """How well windows are a span's, from 0 to 1: twice the scores between them, of all that either has."""
        inside = self.inside(span)
        between = sum(sum(inside[slice(*window)]) for window in windows)
        either = sum(inside) + sum(sum(self._totals[slice(*window)]) for window in windows)
        return min(1.0, 2 * between / either) if either else 0.0


class Best(NamedTuple):
    """The best window, and what it gains."""

    gain: float
    window: Window


def best_window(
    gains: Sequence[float], region: Window, taken: Sequence[int] = (), ends: Collection[int] | None = None
) -> Best | None:
    """The window with the largest sum of gains, in one pass; of equals the shortest, then the first.

    Args:
        gains: of each target word.
        region: where to look.
        taken: for each target word what has it; windows do not reach into what is taken.
        ends: where windows may begin and end; None for anywhere.

    Returns:
        None where there is no room.
    """
    best: Best | None = None
    low: tuple[float, int] | None = None
    total = 0.0
    for k in range(region[0], region[1] + 1):
        if k > region[0]:
            total += gains[k - 1]
            if taken and taken[k - 1] != FREE:
                low = None
        if ends is not None and k not in ends:
            continue
        if low and (best is None or total - low[0] > best.gain + 1e-12):
            best = Best(total - low[0], (low[1], k))
        if low is None or total <= low[0]:
            low = (total, k)
    return best


def place_apart(
    scores: Scores,
    spans: Sequence[Window],
    region: Window,
    ends: Sequence[Collection[int] | None] = (),
    outside: float = OUTSIDE,
) -> tuple[list[Window | None], list[int]]:
    """A window for each of several spans that are apart, so that the windows are apart too.

    The span that gains most comes first; each of the others gets the best of what is left.

    Args:
        scores: of the pair.
        spans: of source words; none is in another or laps over it.
        region: the target words that may be used.
        ends: for each span, where its window may begin and end; those that are bound so come first.
        outside: see `OUTSIDE`.

    Returns:
        The windows, None for a span that has no score in the region or finds no room; and for each target word the
        number of the span whose window it is in, or -1.
    """
    bounds = ends or [None] * len(spans)
    taken = [FREE] * scores.target
    windows: list[Window | None] = [None] * len(spans)
    gains: dict[int, list[float]] = {}
    firsts: dict[int, Best] = {}
    for n, span in enumerate(spans):
        if any(scores.inside(span)[slice(*region)]):
            gains[n] = scores.gains(span, outside)
            if found := best_window(gains[n], region, (), bounds[n]):
                firsts[n] = found
    for n in sorted(firsts, key=lambda n: (bounds[n] is None, -firsts[n].gain, n)):
        best: Best | None = firsts[n]
        if len(firsts) > 1:
            best = best_window(gains[n], region, taken, bounds[n])
        if best and (best.gain > 0 or best == firsts[n]):
            windows[n] = best.window
            taken[slice(*best.window)] = [n] * (best.window[1] - best.window[0])
    return windows, taken


def place_split(
    scores: Scores, spans: Sequence[Window], regions: Sequence[Window], outside: float = OUTSIDE
) -> tuple[list[list[Window]], list[int]]:
    """All target words of each of several spans that are apart, as windows: a span may have several, or none.

    Each target word is of the span for which it gains most, if it gains at all.

    Args:
        scores: of the pair.
        spans: of source words, apart.
        regions: the target words that may be used; no window reaches beyond one of them.
        outside: see `OUTSIDE`.

    Returns:
        As `place_apart`, with all windows of each span.
    """
    owner, best = [FREE] * scores.target, [0.0] * scores.target
    for n, span in enumerate(spans):
        for j, gain in enumerate(scores.gains(span, outside)):
            if gain > best[j]:
                owner[j], best[j] = n, gain
    windows: list[list[Window]] = [[] for _ in spans]
    for low, high in regions:
        begin = low
        for k in range(low + 1, high + 1):
            if k == high or owner[k] != owner[begin]:
                if owner[begin] != FREE:
                    windows[owner[begin]].append((begin, k))
                begin = k
    return windows, owner
