"""Project labels of spans of words, such as names of persons and places, onto a translation by links."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from align.core.errors import show_value
from align.transfer.markup import UNLINKED, Placement
from align.transfer.windows import Scores, Window, place_apart

OUT = "O"


class Span(NamedTuple):
    """A label and its words: the first one, and the one after the last."""

    label: str
    words: Window


class Projected(NamedTuple):
    """A span and its target words; None and confidence 0 if it has no link, or other spans take all of the room."""

    label: str
    source: Window
    target: Window | None
    confidence: float

    def placement(self) -> Placement:
        """Return it as a report lists it."""
        targets, remarks = ((self.target,), ()) if self.target else ((), (UNLINKED,))
        return Placement(self.label, self.source, targets, self.confidence, remarks)


def project_labels(
    spans: Sequence[Span],
    scores: Mapping[tuple[int, int], float] | Collection[tuple[int, int]],
    source: int,
    target: int,
) -> list[Projected]:
    """Find the spans of a source sentence in its translation, by the window rule of `align.transfer.windows`.

    Disjoint spans of the source are disjoint in the target if they are in the same layer: spans that overlap earlier
    ones form another layer.

    Args:
        scores: scores of links (source word, target word), or a set of links.
        source: number of source words.
        target: number of target words.

    Raises:
        ValueError: a span or a link extends beyond the words.
    """
    for span in spans:
        if not 0 <= span.words[0] < span.words[1] <= source:
            raise ValueError(f"a span of words {span.words[0]} to {span.words[1]}, and there are {source:,}")
    table = Scores(scores, source, target)
    windows: list[Window | None] = [None] * len(spans)
    layers: list[list[int]] = []  # as few as possible
    for n in sorted(range(len(spans)), key=lambda n: spans[n].words):
        layer = next((layer for layer in layers if spans[layer[-1]].words[1] <= spans[n].words[0]), None)
        if layer is None:
            layers.append(layer := [])
        layer.append(n)
    for layer in layers:
        placed, _ = place_apart(table, [spans[n].words for n in layer], (0, target))
        for n, window in zip(layer, placed, strict=True):
            windows[n] = window
    return [
        Projected(label, words, window, table.confidence(words, [window]) if window else 0.0)
        for (label, words), window in zip(spans, windows, strict=True)
    ]


def best_sources(scores: Scores, least: float = 0.0) -> list[int | None]:
    """Return, for each target word, the source word with the highest score above `least`.

    Among equals, it is the one with the smallest sum of scores, hence the fewest links; then the first.
    """
    ranked: list[list[tuple[float, float, int]]] = [[] for _ in range(scores.target)]
    for i in range(scores.source):
        row = scores.row(i)
        for j, score in row.items():
            ranked[j] += [(score, -sum(row.values()), -i)] if score > least else []
    return [-max(found)[2] if found else None for found in ranked]


def read_bio(labels: Iterable[str]) -> list[Span]:
    """Return the spans of a sentence from its words' labels: BIO, in either form, or BIOES."""
    spans: list[Span] = []
    going = False
    for n, tag in enumerate(labels):
        mark, dash, label = tag.partition("-")
        if tag == OUT:
            going = False
            continue
        if mark not in ("B", "I", "E", "S") or not dash or not label:
            raise ValueError(f"{show_value(tag)} is not a label such as B-PER, I-PER or O")
        if going and mark in ("I", "E") and spans[-1].label == label:
            spans[-1] = Span(label, (spans[-1].words[0], n + 1))
        else:
            spans.append(Span(label, (n, n + 1)))
        going = mark not in ("E", "S")
    return spans


def write_bio(spans: Iterable[Span], words: int) -> list[str]:
    """Return the labels of a sentence's words, `B-X` at the first of each span; the spans are disjoint."""
    labels = [OUT] * words
    for label, (first, end) in spans:
        labels[first:end] = [f"B-{label}", *[f"I-{label}"] * (end - first - 1)]
    return labels
