"""Project labels of spans of words, such as names of persons and places, onto a translation by links."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from align.core.errors import show_value
from align.transfer.markup import UNLINKED, Placement
from align.transfer.windows import Scores, Window, place_apart

OUT = "O"

Span = tuple[str, Window]  # a label and its words: the first one, and the one after the last


def layers(spans: Sequence[Window]) -> list[list[int]]:
    """Divide spans, given by their numbers, into layers in which none overlap, as few as possible."""
    found: list[list[int]] = []
    for n in sorted(range(len(spans)), key=lambda n: spans[n]):
        layer = next((layer for layer in found if spans[layer[-1]][1] <= spans[n][0]), None)
        if layer is None:
            found.append(layer := [])
        layer.append(n)
    return found


def project_labels(
    spans: Sequence[Span],
    scores: Mapping[tuple[int, int], float] | Collection[tuple[int, int]],
    source: int,
    target: int,
) -> list[Placement]:
    """Find the spans of a source sentence in its translation, by the window rule of `align.transfer.windows`.

    Disjoint spans of the source are disjoint in the target if they are in the same layer: spans that overlap earlier
    ones form another layer.

    Args:
        spans: labels with their words, such as `("PER", (1, 3))` for the words 1 and 2.
        scores: scores of links (source word, target word), or a set of links.
        source: number of source words.
        target: number of target words.

    Returns:
        The position of each span. Without a link, or room next to others, it has no target and confidence 0.

    Raises:
        ValueError: a span or a link extends beyond the words.
    """
    table = Scores(scores, source, target)
    for _, (first, end) in spans:
        if not 0 <= first < end <= source:
            raise ValueError(f"a span of words {first} to {end}, and there are {source:,}")
    placements = [Placement(label, words, (), 0.0, (UNLINKED,)) for label, words in spans]
    for layer in layers([words for _, words in spans]):
        windows, _ = place_apart(table, [spans[n][1] for n in layer], (0, target))
        for n, window in zip(layer, windows, strict=True):
            if window:
                placements[n] = Placement(*spans[n], (window,), table.confidence(spans[n][1], [window]))
    return placements


def project_words(labels: Sequence[str], scores: Scores, least: float = 0.0) -> list[Placement]:
    """Find the target words of each source word: those of which it is the best one, by a score above `least`.

    Among equals, it is the one with the smallest sum of scores, hence the fewest links; then the first.
    """
    rows = [scores.row(i) for i in range(scores.source)]
    totals = [sum(row.values()) for row in rows]
    windows: list[list[Window]] = [[] for _ in rows]
    for j in range(scores.target):
        best = max(range(len(rows)), key=lambda i: (rows[i].get(j, 0.0), -totals[i]), default=0)
        if rows and rows[best].get(j, 0.0) > least:
            windows[best].append((j, j + 1))
    placements = []
    for i, (label, found) in enumerate(zip(labels, windows, strict=True)):
        words, remarks = (i, i + 1), () if found else (UNLINKED,)
        placements.append(Placement(label, words, tuple(found), scores.confidence(words, found), remarks))
    return placements


def read_bio(labels: Iterable[str]) -> list[Span]:
    """Return the spans of a sentence from its words' labels: BIO, in either form, or BIOES."""
    spans: list[Span] = []
    inside = ""  # label of the span that may go on
    for n, tag in enumerate(labels):
        mark, _, label = tag.partition("-")
        if tag != OUT and not (mark in ("B", "I", "E", "S") and label):
            raise ValueError(f"{show_value(tag)} is not a label such as B-PER, I-PER or O")
        if label and label == inside and mark in ("I", "E"):
            spans[-1] = label, (spans[-1][1][0], n + 1)
        elif label:
            spans.append((label, (n, n + 1)))
        inside = "" if mark in ("E", "S") else label
    return spans


def write_bio(spans: Iterable[Placement], words: int) -> list[str]:
    """Return the labels of a translation's words, `B-X` at the first of each span; the spans are disjoint."""
    labels = [OUT] * words
    for span in spans:
        for first, end in span.target:
            labels[first:end] = [f"B-{span.tag}", *[f"I-{span.tag}"] * (end - first - 1)]
    return labels
