"""Find source words in the target: the window of a span, the place between two words, and the windows of blocks.

All use the scores that link words of the two sides: 1 for each of a set of links, or soft scores.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from html import unescape
from itertools import accumulate, pairwise

import numpy as np

from align.models.punctuation import closes, mark_kind

OUTSIDE = 1.0  # weight of the scores of words outside the span against the window; see research/choices.md
WEAK = 0.1  # score of a word with a span that counts as none: a window does not grow by a word for less

Window = tuple[int, int]  # range of words in a sentence: the first word, and the one after the last

EQUAL = 0.5  # score of a word of a block that both sides have equally often
FILLED, ENDED, CLOSED = 0.2, 0.7, 0.2  # gains of a block: for a word, for an end at a stop; loss before a closing mark
PROPORTION = 0.01  # weight of the distance between the end of a block and its share of the text
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


def best_window(gains: Sequence[float], region: Window, taken: Sequence[int] = ()) -> Best | None:
    """Return the window with the largest sum of gains, in one pass; among equals the shortest, then the first.

    Args:
        taken: span number of each target word, or FREE; windows exclude taken words.

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
        if low and (best is None or total - low[0] > best[0] + 1e-12):
            best = total - low[0], (low[1], k)
        if low is None or total <= low[0]:
            low = (total, k)
    return best


def place_apart(
    scores: Scores, spans: Sequence[Window], region: Window, known: Sequence[Window | None] = ()
) -> tuple[list[Window | None], list[int]]:
    """Return a window for each of several disjoint spans, so that the windows are disjoint too.

    The span with the largest gain comes first; each of the others gets the best of the remaining words.

    Args:
        known: for each span, its window if that is known already; these come first.

    Returns:
        The windows, None for a span that has no score in the region or finds no room; and for each target word the
        number of the span whose window it is in, or -1.
    """
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
            window = best_window(gains[n], region)
            if window and window[0] <= 0:  # words without links are no better
                gains[n] = [gain if own else -_NEVER for gain, own in zip(gains[n], scores.inside(span), strict=True)]
                window = best_window(gains[n], region)
            if window:
                firsts[n] = window
    for n in sorted(firsts, key=lambda n: (-firsts[n][0], n)):
        best: Best | None = firsts[n]
        if len(firsts) > 1 or any(known):
            best = best_window(gains[n], region, taken)
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


def divide(scores: Scores, spans: Sequence[Window], region: Window, words: Sequence[Sequence[str]]) -> list[Window]:
    """Return windows for adjacent spans that fill a region, in order, with the largest sum of scores and gains."""
    if len(spans) < 2:
        return [region] * len(spans)
    places: defaultdict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, window in enumerate(((spans[0][0], spans[-1][1]), region)):
        for n, word in enumerate(words[side][slice(*window)], window[0]):
            places[re.sub(r"[\W_]+", "", word).lower() or word][side].append(n)
    equal = {i: k for one, other in places.values() if len(one) == len(other) for i, k in zip(one, other, strict=True)}
    texts, theirs = [words[0][slice(*span)] for span in spans], words[1][slice(*region)]
    stops = np.array([False, *(mark_kind(word) == "stop" for word in theirs)])  # before each place
    marks = np.array([*(all(map(closes, word)) for word in theirs), False])  # after it
    lengths, shares = np.cumsum([0, *map(len, theirs)]), np.cumsum([sum(map(len, text)) for text in texts])
    numbers = np.arange(len(lengths))
    best, begins = np.where(numbers, -np.inf, 0.0), list[np.ndarray]()  # of the windows up to each place
    for span, text, share in zip(spans, texts, shares / max(1, shares[-1]), strict=True):
        inside = scores.inside(span)
        for i in equal.keys() & range(*span):
            inside[equal[i]] += EQUAL
        sums = np.cumsum([0.0, *inside[slice(*region)]])
        before = np.maximum.accumulate(best - sums)
        firsts = np.maximum.accumulate(np.where(best - sums == before, numbers, 0))
        ended = ENDED if mark_kind(text[-1]) == "stop" else ENDED / 3
        gain = FILLED * any(map(str.isalnum, unescape("".join(text)))) + ended * stops - CLOSED * marks
        filled = np.append(-np.inf, before[:-1] + (sums + gain)[1:])
        begins.append(np.where(filled > best, np.append(0, firsts[:-1]), numbers))
        best = np.maximum(filled, best) - PROPORTION * abs(lengths / max(1, lengths[-1]) - share)
    ends = accumulate(reversed(begins), lambda end, begin: int(begin[end]), initial=len(theirs))
    return [*pairwise(reversed([region[0] + end for end in ends]))]
