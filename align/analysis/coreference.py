"""Coreference in attention heads: which heads link a pronoun to the right of two names (Clark et al. 2019, 4.3; GAP).

Letters: C heads of all layers, n words, N paragraphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from align.analysis.data.gap import FEMININE, MASCULINE, Paragraph
from align.analysis.maps import MEASURES, Inspected, Numbers, between_words, measured, name_candidates
from align.analysis.resampling import Chosen, Counts, Draws, choose, halve
from align.core.errors import DataError, plural
from align.core.types import Part
from align.evaluation.tables import Column, Value, interval, percent
from align.view.findings import Finding, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIRECTIONS = ("p>c", "c>p")
"""Directions of attention: from the pronoun to the candidates, and from the candidates to the pronoun."""

KEPT = (1.0, 0.5, 0.25, 0.0)
"""Shares of a paragraph's length to read in addition to the span of its mentions, tried until the model accepts it."""


@dataclass
class Answers:
    """The candidate that each head takes in each paragraph.

    Attributes:
        paragraphs: the N paragraphs, as they were read.
        taken: by measure, N arrays `[2C]`: 0 for A, 1 for B.
        cut: number of paragraphs that were read in part.
        too_long: number of paragraphs that are too long for the model even when cut.
    """

    paragraphs: list[Paragraph]
    taken: dict[str, list[Counts]]
    cut: int = 0
    too_long: int = 0

    def right(self, kind: str) -> Counts:
        """Return which candidates are right, in both directions `[N, 2C]`."""
        correct = np.array([paragraph.right for paragraph in self.paragraphs])
        right: Counts = (np.array(self.taken[kind]) == correct[:, None]).astype(np.int64)
        return right


def read(model: Inspected, paragraphs: Sequence[Paragraph]) -> Answers:
    """Find the candidates that the heads of a model's encoder link pronouns to.

    Args:
        paragraphs: paragraphs where one of the candidates is the right one.
    """
    answers = Answers([], {name: [] for name in MEASURES})
    remaining = list(paragraphs)
    parts: tuple[Part, ...] = ("encoder",)
    for share in KEPT:
        windows = [paragraph.window(int(share * len(paragraph.words))) for paragraph in remaining]
        longer: list[Paragraph] = []
        for paragraph, reading in zip(windows, model.read((window.pair() for window in windows), parts), strict=True):
            maps = reading.maps.get("encoder")
            if maps is None:
                longer.append(paragraph)
                continue
            answers.paragraphs.append(paragraph)
            answers.cut += share < 1
            for name, values in measured(maps).items():
                words = between_words(values, maps.rows, maps.columns).words
                answers.taken[name].append(take(words.reshape(-1, *words.shape[2:]), paragraph))
        remaining = longer
    answers.too_long = len(remaining)
    return answers


def take(attention: Numbers, paragraph: Paragraph) -> Counts:
    """Return the candidate whose most attended word has the most attention: 0 for A, 1 for B, A on ties.

    Args:
        attention: between words `[C, n, n]`.
        paragraph: of n words.

    Returns:
        `[2C]`: from the pronoun to the candidates, then from the candidates to the pronoun.
    """
    pronoun = slice(*paragraph.pronoun)
    to_candidates = [attention[:, pronoun, slice(*span)].max((1, 2)) for span in paragraph.candidates]  # two of [C]
    from_candidates = [attention[:, slice(*span), pronoun].max((1, 2)) for span in paragraph.candidates]  # two of [C]
    return np.concatenate((np.argmax(to_candidates, 0), np.argmax(from_candidates, 0)))


def first(paragraph: Paragraph) -> int:
    """Return the candidate that is named first."""
    a, b = paragraph.candidates
    return int(b < a)


def nearest(paragraph: Paragraph) -> int:
    """Return the candidate with the fewest words between it and the pronoun; the first on ties."""
    begin, end = paragraph.pronoun
    between = [max(begin - last, start - end) for start, last in paragraph.candidates]
    return first(paragraph) if between[0] == between[1] else int(between[1] < between[0])


def repeated(paragraph: Paragraph) -> int:
    """Return the candidate with the word (e.g. a surname) most frequent in the paragraph; the nearest on ties."""
    words = [word.strip(".,;:!?\"'()").removesuffix("'s") for word in paragraph.words]
    counts = [max(words.count(word) for word in _plain(paragraph, n)) for n in (0, 1)]
    return nearest(paragraph) if counts[0] == counts[1] else int(counts[1] > counts[0])


def titled(paragraph: Paragraph) -> int:
    """Return the candidate that shares a word with its page's title; the nearest if both or neither do."""
    named = [bool(paragraph.title & set(_plain(paragraph, n))) for n in (0, 1)]
    return nearest(paragraph) if named[0] == named[1] else int(named[1])


def _plain(paragraph: Paragraph, candidate: int) -> tuple[str, ...]:
    return paragraph.words[slice(*paragraph.candidates[candidate])]


BASELINES: Mapping[str, Callable[[Paragraph], int]] = {
    "the first": first,
    "the nearest": nearest,
    "most often named": repeated,
    "in the page's title": titled,
}
"""Rules that need no model, by name; all but the first follow the heuristics of GAP's authors."""

NEAREST = "the nearest"


def coreference(model: Inspected, paragraphs: Sequence[Paragraph], seed: int = 1, file: str = "") -> Finding:
    """Measure how often the best head is right, compared with baselines that need no model.

    Args:
        model: a model with an encoder.
        paragraphs: paragraphs where neither candidate is right are skipped.
        seed: seed of the halves and the bootstrap.
        file: name of the paragraphs' file for errors.

    Raises:
        DataError: the model has no encoder, or accepts no paragraph.
    """
    if "encoder" not in model.shape:
        raise DataError(f"{model.name} has no attention of the encoder: there is {', '.join(model.shape)}")
    clear = [paragraph for paragraph in paragraphs if paragraph.right is not None]
    answers = read(model, clear)
    if not answers.paragraphs:
        raise DataError("no paragraph that the model can read and where one of both candidates is meant", file=file)
    notes = [
        "best: layer-head, and who attends (p: the pronoun, c: a candidate); two where halves chose differently",
        "each half is scored by what is best on the other; gain: over the nearest",
        "intervals: 95 %, bootstrap over paragraphs",
        f"{plural(len(answers.paragraphs), 'paragraph')}, of which {answers.cut:,} cut; left out: "
        f"{len(paragraphs) - len(clear):,} where neither candidate is meant, {answers.too_long:,} too long",
    ]
    shape = model.shape["encoder"]
    pronouns = Table(_columns(), list(_rows(answers, shape, seed)), notes)
    return Finding({"pronouns": pronouns, "heads": _head_table(answers, shape)}, {"heads": _figure(answers, shape)})


def _columns() -> list[Column]:
    columns = [Column("way", "taken is"), Column("head", "best"), Column("right", "right, %", 1)]
    columns += [Column("interval", "interval", 1), Column("gain", "gain", 1)]
    columns += [Column("gain_interval", "its interval", 1)]
    columns += [Column(gender, gender, 1, wide=True) for gender in (FEMININE, MASCULINE)]
    return [*columns, Column("pronouns", "pronouns", wide=True)]


def _rows(answers: Answers, shape: tuple[int, int], seed: int) -> Iterator[dict[str, Value]]:
    """Yield a row for each baseline, and for the best head by each measure."""
    paragraphs = answers.paragraphs
    ones = np.ones(len(paragraphs), np.int64)
    draws, second = Draws(len(paragraphs), seed), halve(len(paragraphs), seed)
    methods = {
        name: ("", np.array([baseline(paragraph) == paragraph.right for paragraph in paragraphs], np.int64))
        for name, baseline in BASELINES.items()
    }
    for name, symbol in MEASURES.items():
        chosen: Chosen = choose(answers.right(name), second)
        methods[f"most attended, {symbol}"] = name_candidates(chosen.candidates, shape, DIRECTIONS), chosen.right
    genders = np.array([paragraph.gender for paragraph in paragraphs])
    for name, (head, right) in methods.items():
        share, gain = draws.share(right, ones), draws.share(right - methods[NEAREST][1], ones)
        row: dict[str, Value] = {"way": name, "head": head, "right": percent(share.value), "pronouns": len(right)}
        row["interval"] = interval(percent(share.low), percent(share.high))
        compared = name != NEAREST
        row["gain"] = percent(gain.value) if compared else None
        row["gain_interval"] = interval(percent(gain.low), percent(gain.high)) if compared else None
        for gender in (FEMININE, MASCULINE):
            row[gender] = percent(right[genders == gender].mean()) if (genders == gender).any() else None
        yield row


def _head_table(answers: Answers, shape: tuple[int, int]) -> Table:
    """Return a table of the accuracy of each head in each direction."""
    columns = [Column("layer", "layer"), Column("head", "head")]
    keys = [(name, n) for name in MEASURES for n in range(len(DIRECTIONS))]
    columns += [Column(f"{name} {DIRECTIONS[n]}", f"{DIRECTIONS[n]} by {MEASURES[name]}, %", 1) for name, n in keys]
    right = {name: answers.right(name).mean(0).reshape(len(DIRECTIONS), *shape) for name in MEASURES}
    rows: list[dict[str, Value]] = []
    for layer, head in np.ndindex(shape):
        row: dict[str, Value] = {"layer": layer + 1, "head": head + 1}
        rows.append(row | {f"{name} {DIRECTIONS[n]}": percent(right[name][n, layer, head]) for name, n in keys})
    notes = ["over all paragraphs: the best of many heads looks better here than on new text"]
    return Table(columns, rows, notes, wide=True)


def _figure(answers: Answers, shape: tuple[int, int]) -> Callable[[], Figure]:
    def draw() -> Figure:
        from align.analysis.plots import bars

        names = [f"{layer + 1}-{head + 1}" for layer, head in np.ndindex(shape)]
        series = {}
        for name, symbol in MEASURES.items():
            for direction, shares in zip(DIRECTIONS, np.split(answers.right(name).mean(0), 2), strict=True):
                series[f"{direction}, {symbol}"] = [100 * float(share) for share in shares]
        return bars(names, series, {}, "pronouns whose name is taken, %", "coreference")

    return draw
