"""Labels of spans of words, such as names of persons and places, projected onto a translation by links."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from align.core.errors import show_value
from align.transfer.tree import words_in
from align.transfer.windows import OUTSIDE, Scores, Window, place_apart

OUT = "O"
"""The label of a word that is in no span."""


class Span(NamedTuple):
    """Words with a label; the first of them, and the first behind them."""

    label: str
    words: Window


class Projected(NamedTuple):
    """A span and where it is in the target; None and 0 where no link leads there, or others have all of the room."""

    label: str
    source: Window
    target: Window | None
    confidence: float


def project_labels(
    spans: Sequence[Span],
    scores: Mapping[tuple[int, int], float] | Collection[tuple[int, int]],
    source: int,
    target: int,
) -> list[Projected]:
    """Find the spans of a source sentence in its translation, by the window rule of `align.transfer.windows`.

    Spans that are apart in the source are apart in the target, as far as they lie in one layer: where spans lap over
    others, those that come later make another layer.

    Args:
        spans: with their labels.
        scores: of links (source word, target word), or a set of links.
        source: how many words the source has.
        target: how many words the target has.

    Returns:
        One for each span, in the order given.

    Raises:
        ValueError: a span or a link that reaches beyond the words.
    """
    for span in spans:
        if not 0 <= span.words[0] < span.words[1] <= source:
            raise ValueError(f"a span of words {span.words[0]} to {span.words[1]}, and there are {source:,}")
    table = Scores(scores, source, target)
    windows: dict[int, Window | None] = {}
    for layer in _layers(spans):
        found, _ = place_apart(table, [spans[n].words for n in layer], (0, target), outside=OUTSIDE)
        windows |= zip(layer, found, strict=True)
    return [
        Projected(label, words, window, table.confidence(words, [window]) if window else 0.0)
        for (label, words), (_, window) in zip(spans, sorted(windows.items()), strict=True)
    ]


def _layers(spans: Sequence[Span]) -> list[list[int]]:
    """Numbers of spans in as few groups as it takes for those of each to be apart."""
    layers: list[list[int]] = []
    for n in sorted(range(len(spans)), key=lambda n: spans[n].words):
        layer = next((one for one in layers if spans[one[-1]].words[1] <= spans[n].words[0]), None)
        if layer is None:
            layers.append([n])
        else:
            layer.append(n)
    return layers


def read_bio(labels: Iterable[str]) -> list[Span]:
    """The spans of a sentence out of its words' labels: BIO, in either form, or BIOES.

    Raises:
        ValueError: a label that is none of `O`, `B-X`, `I-X`, `E-X` and `S-X`.
    """
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
    """The labels of a sentence's words, `B-X` at the first of each span; the spans are apart."""
    labels = [OUT] * words
    for label, (first, behind) in spans:
        labels[first:behind] = [f"B-{label}", *[f"I-{label}"] * (behind - first - 1)]
    return labels


def words_of_range(text: str, start: int, end: int) -> Window:
    """The words that a range of characters reaches into.

    Raises:
        ValueError: it reaches into none.
    """
    inside = [n for n, (first, behind) in enumerate(words_in(text)) if first < end and start < behind]
    if not inside or end <= start:
        raise ValueError(f"no word at characters {start} to {end}")
    return inside[0], inside[-1] + 1


def range_of_words(text: str, words: Window) -> tuple[int, int]:
    """The characters of a window of words, from the first word's first to behind the last word's last."""
    places = words_in(text)
    return places[words[0]][0], places[words[1] - 1][1]
