"""Does a head of attention know whom a pronoun means? Heads that tell two names apart (Clark et al. 2019, 4.3; GAP).

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
"""Who attends: the pronoun to the candidates, or they to it."""

KEPT = (1.0, 0.5, 0.25, 0.0)
"""How much of a paragraph is read, beside the words from its first mention to its last, until the model takes it."""


@dataclass
class Answers:
    """Which candidate each head takes, paragraph by paragraph.

    Attributes:
        paragraphs: N, as they were read.
        taken: by measure, N times `[2C]`: 0 for A, 1 for B.
        cut: paragraphs that were read in part.
        too_long: those that the model does not take even so.
    """

    paragraphs: list[Paragraph]
    taken: dict[str, list[Counts]]
    cut: int = 0
    too_long: int = 0

    def right(self, kind: str) -> Counts:
        """Which candidates in both directions are right `[N, 2C]`."""
        meant = np.array([paragraph.right for paragraph in self.paragraphs])
        right: Counts = (np.array(self.taken[kind]) == meant[:, None]).astype(np.int64)
        return right


def read(model: Inspected, paragraphs: Sequence[Paragraph]) -> Answers:
    """What the heads of a model's encoder take pronouns to mean.

    Args:
        model: whose.
        paragraphs: in each of which one of the candidates is meant.
    """
    answers = Answers([], {name: [] for name in MEASURES})
    waiting = list(paragraphs)
    parts: tuple[Part, ...] = ("encoder",)
    for kept in KEPT:
        windows = [paragraph.window(int(kept * len(paragraph.words))) for paragraph in waiting]
        longer: list[Paragraph] = []
        for paragraph, reading in zip(windows, model.read((one.pair() for one in windows), parts), strict=True):
            maps = reading.maps.get("encoder")
            if maps is None:
                longer.append(paragraph)
                continue
            answers.paragraphs.append(paragraph)
            answers.cut += kept < 1
            for name, values in measured(maps).items():
                words = between_words(values, maps.rows, maps.columns).words
                answers.taken[name].append(take(words.reshape(-1, *words.shape[2:]), paragraph))
        waiting = longer
    answers.too_long = len(waiting)
    return answers


def take(attention: Numbers, paragraph: Paragraph) -> Counts:
    """The candidate that has most attention, of its word that has most: 0 for A, 1 for B, A where they are equal.

    Args:
        attention: between words `[C, n, n]`.
        paragraph: of n words.

    Returns:
        `[2C]`: from the pronoun to the candidates, and from them to the pronoun.
    """
    pronoun = slice(*paragraph.pronoun)
    to = [attention[:, pronoun, slice(*span)].max((1, 2)) for span in paragraph.candidates]  # two of [C]
    of = [attention[:, slice(*span), pronoun].max((1, 2)) for span in paragraph.candidates]  # two of [C]
    return np.concatenate((np.argmax(to, 0), np.argmax(of, 0)))


def first(paragraph: Paragraph) -> int:
    """The candidate that is named first."""
    a, b = paragraph.candidates
    return int(b < a)


def nearest(paragraph: Paragraph) -> int:
    """The candidate with the fewest words between it and the pronoun; the first of equally near ones."""
    begin, end = paragraph.pronoun
    between = [max(begin - last, start - end) for start, last in paragraph.candidates]
    return first(paragraph) if between[0] == between[1] else int(between[1] < between[0])


def repeated(paragraph: Paragraph) -> int:
    """The candidate with a word, such as its surname, that stands most often in the paragraph, else the nearest."""
    words = [word.strip(".,;:!?\"'()").removesuffix("'s") for word in paragraph.words]
    counts = [max(words.count(word) for word in _plain(paragraph, n)) for n in (0, 1)]
    return nearest(paragraph) if counts[0] == counts[1] else int(counts[1] > counts[0])


def titled(paragraph: Paragraph) -> int:
    """The candidate that has a word of its page's title, else the nearest."""
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
"""What to take without a model, by name; all but the first are after the heuristics of GAP's authors."""

NEAREST = "the nearest"


def coreference(model: Inspected, paragraphs: Sequence[Paragraph], seed: int = 1, file: str = "") -> Finding:
    """How often the best head is right, and how often what needs no model is.

    Args:
        model: whose encoder.
        paragraphs: of which those where neither candidate is meant are left out.
        seed: of halves and draws.
        file: what errors call the file of paragraphs.

    Raises:
        DataError: the model has no encoder, or takes no paragraph.
    """
    if "encoder" not in model.shape:
        raise DataError(f"{model.name} has no attention of the encoder: there is {', '.join(model.shape)}")
    asked = [paragraph for paragraph in paragraphs if paragraph.right is not None]
    answers = read(model, asked)
    if not answers.paragraphs:
        raise DataError("no paragraph that the model can read and where one of both candidates is meant", file=file)
    notes = [
        "best: layer-head, and who attends (p: the pronoun, c: a candidate); two where halves chose differently",
        "each half is scored by what is best on the other; gain: over the nearest",
        "intervals: 95 %, bootstrap over paragraphs",
        f"{plural(len(answers.paragraphs), 'paragraph')}, of which {answers.cut:,} cut; left out: "
        f"{len(paragraphs) - len(asked):,} where neither candidate is meant, {answers.too_long:,} too long",
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
    """A row for each baseline, and for the best head by each measure."""
    paragraphs = answers.paragraphs
    one = np.ones(len(paragraphs), np.int64)
    draws, second = Draws(len(paragraphs), seed), halve(len(paragraphs), seed)
    ways = {
        name: ("", np.array([baseline(paragraph) == paragraph.right for paragraph in paragraphs], np.int64))
        for name, baseline in BASELINES.items()
    }
    for name, symbol in MEASURES.items():
        chosen: Chosen = choose(answers.right(name), second)
        ways[f"most attended, {symbol}"] = name_candidates(chosen.candidates, shape, DIRECTIONS), chosen.right
    genders = np.array([paragraph.gender for paragraph in paragraphs])
    for name, (head, right) in ways.items():
        share, gain = draws.share(right, one), draws.share(right - ways[NEAREST][1], one)
        row: dict[str, Value] = {"way": name, "head": head, "right": percent(share.value), "pronouns": len(right)}
        row["interval"] = interval(percent(share.low), percent(share.high))
        other = name != NEAREST
        row["gain"] = percent(gain.value) if other else None
        row["gain_interval"] = interval(percent(gain.low), percent(gain.high)) if other else None
        for gender in (FEMININE, MASCULINE):
            row[gender] = percent(right[genders == gender].mean()) if (genders == gender).any() else None
        yield row


def _head_table(answers: Answers, shape: tuple[int, int]) -> Table:
    """How often each head is right in each direction."""
    columns = [Column("layer", "layer"), Column("head", "head")]
    keys = [(name, n) for name in MEASURES for n in range(len(DIRECTIONS))]
    columns += [Column(f"{name} {DIRECTIONS[n]}", f"{DIRECTIONS[n]} by {MEASURES[name]}, %", 1) for name, n in keys]
    right = {name: answers.right(name).mean(0).reshape(len(DIRECTIONS), *shape) for name in MEASURES}
    rows: list[dict[str, Value]] = []
    for layer, head in np.ndindex(shape):
        row: dict[str, Value] = {"layer": layer + 1, "head": head + 1}
        rows.append(row | {f"{name} {DIRECTIONS[n]}": percent(right[name][n, layer, head]) for name, n in keys})
    notes = ["over all paragraphs: the best of so many is better than it will be on others"]
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
