"""Find source words in the target: the window of a span, and the place between two words.

Both use the scores that link words of the two sides: 1 for each of a set of links, or soft scores.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

OUTSIDE = 1.0  # weight of the scores of words outside the span against the window; see research/choices.md
WEAK = 0.1  # score of a word with a span that counts as none: a window does not grow by a word for less

Window = tuple[int, int]  # range of words in a sentence: the first word, and the one after the last

_NEVER = 1e9  # cost of a word that a window contains only if it must
FREE = -1  # span number of a target word that is in no window


class Scores:
    """The scores of a sentence pair, by source word.

    Args:
        scores: scores of links (source word, target word); a set of links counts 1 each.
    """

    def __init__(self, scores: Mapping[Window, float] | Collection[Window], source: int, target: int) -> None:
        self.source, self.target = source, target
        self._rows: list[list[tuple[int, float]]] = [[] for _ in range(source)]
        self._totals = [0.0] * target
        self._left = 0, [0.0] * target  # a place, and the scores of each target word with the words before it
        for (i, j), score in (scores if isinstance(scores, Mapping) else dict.fromkeys(scores, 1.0)).items():
            if not (0 <= i < source and 0 <= j < target):
                raise ValueError(f"link {i}-{j} is outside {source:,} source and {target:,} target words")
            self._rows[i].append((j, score))
            self._totals[j] += score

    def row(self, i: int) -> dict[int, float]:
        """Return the scores of a source word, by target word."""
        return dict(self._rows[i])

    def inside(self, span: Window) -> list[float]:
        """Return, for each target word, the sum of its scores with the words of a span."""
        sums = [0.0] * self.target
        for row in self._rows[span[0] : span[1]]:
            for j, score in row:
                sums[j] += score
        return sums

    def gains(self, span: Window) -> list[float]:
        """Return, for each target word, its scores with the words of a span minus those with other words, and WEAK."""
        inside = self.inside(span)
        return [
            within - OUTSIDE * (total - within) - WEAK if total else 0.0
            for within, total in zip(inside, self._totals, strict=True)
        ]

    def linked(self, span: Window) -> bool:
        """Check whether a word of a span has a score with any word."""
        return any(self._rows[span[0] : span[1]])

    def crossings(self, at: int) -> list[float]:
        """Return, for each place in the target `[J+1]`, the scores of the links that cross one place of the source.

        Args:
            at: the source word after the place.
        """
        before, left = self._left
        if before > at:
            before, left = 0, [0.0] * self.target
        for row in self._rows[before:at]:
            for j, score in row:
                left[j] += score
        self._left = at, left
        costs = [sum(left)]
        for on_left, total in zip(left, self._totals, strict=True):
            costs.append(costs[-1] + total - 2 * on_left)
        return costs

    def confidence(self, span: Window, windows: Sequence[Window]) -> float:
        """Return how well windows match a span, from 0 to 1: twice the scores between them by all scores of either."""
        inside = self.inside(span)
        between = sum(sum(inside[slice(*window)]) for window in windows)
        either = sum(inside) + sum(sum(self._totals[slice(*window)]) for window in windows)
        return min(1.0, 2 * between / either) if either else 0.0


Best = tuple[float, Window]  # the gain of a window, and the window


def best_window(
    gains: Sequence[float], region: Window, taken: Sequence[int] = (), ends: Collection[int] | None = None
) -> Best | None:
    """Return the window with the largest sum of gains, in one pass; among equals the shortest, then the first.

    Args:
        taken: span number of each target word, or FREE; windows exclude taken words.
        ends: allowed ends of windows; None for any.

    Returns:
        None if there is no room.
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
        if low and (best is None or total - low[0] > best[0] + 1e-12):
            best = total - low[0], (low[1], k)
        if low is None or total <= low[0]:
            low = (total, k)
    return best


def place_apart(
    scores: Scores,
    spans: Sequence[Window],
    region: Window,
    ends: Sequence[Collection[int] | None] = (),
    known: Sequence[Window | None] = (),
) -> tuple[list[Window | None], list[int]]:
    """Return a window for each of several disjoint spans, so that the windows are disjoint too.

    The span with the largest gain comes first; each of the others gets the best of the remaining words.

    Args:
        ends: for each span, the allowed ends of its window; spans with such limits come first.
        known: for each span, its window if that is known already; these come first.

    Returns:
        The windows, None for a span that has no score in the region or finds no room; and for each target word the
        number of the span whose window it is in, or -1.
    """
    bounds = ends or [None] * len(spans)
    taken = [FREE] * scores.target
    windows: list[Window | None] = [*known] or [None] * len(spans)
    gains: dict[int, list[float]] = {}
    firsts: dict[int, Best] = {}
    for n, given in enumerate(known):
        if given:
            taken[slice(*given)] = [n] * (given[1] - given[0])
    for n, span in enumerate(spans):
        if windows[n] is None and any(scores.inside(span)[slice(*region)]):
            gains[n] = scores.gains(span)
            window = best_window(gains[n], region, (), bounds[n])
            if window and window[0] <= 0:  # words without links are no better
                gains[n] = [gain if own else -_NEVER for gain, own in zip(gains[n], scores.inside(span), strict=True)]
                window = best_window(gains[n], region, (), bounds[n])
            if window:
                firsts[n] = window
    for n in sorted(firsts, key=lambda n: (bounds[n] is None, -firsts[n][0], n)):
        best: Best | None = firsts[n]
        if len(firsts) > 1 or any(known):
            best = best_window(gains[n], region, taken, bounds[n])
        if best and (best[0] > 0 or best == firsts[n]):
            windows[n] = low, high = best[1]
            taken[low:high] = [n] * (high - low)
    return windows, taken


def place_split(
    scores: Scores, spans: Sequence[Window], regions: Sequence[Window]
) -> tuple[list[list[Window]], list[int]]:
    """Return all target words of each of several disjoint spans, as windows: a span may have several, or none.

    Each target word belongs to the span for which its gain is largest, if that is positive.

    Args:
        regions: the target words that may be used; no window extends beyond one of them.

    Returns:
        All windows of each span, and the spans of the target words, as in `place_apart`.
    """
    owner, best = [FREE] * scores.target, [0.0] * scores.target
    for n, span in enumerate(spans):
        for j, gain in enumerate(scores.gains(span)):
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
