"""Coreference in attention heads: which heads link a pronoun to the right of two names (Clark et al. 2019, 4.3; GAP).

Letters: C heads of all layers, n words, N paragraphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from align.analysis.commands.common import Answer, load_inspected, names_of
from align.analysis.commands.questions import Coreference
from align.analysis.data.gap import FEMININE, MASCULINE, Paragraph, read_paragraphs
from align.analysis.maps import (
    MEASURES,
    Counts,
    Inspected,
    Numbers,
    between_words,
    measured,
    name_candidates,
    need_encoder,
)
from align.analysis.plots import bars
from align.analysis.resampling import Draws, choose, halve
from align.cli.loading import Request
from align.core.errors import DataError, plural
from align.evaluation.tables import percent
from align.io.reader import name_shown
from align.view.findings import Finding, make_table

DIRECTIONS = ("p>c", "c>p")
"""Directions of attention: from the pronoun to the candidates, and from the candidates to the pronoun."""

KEPT = (1.0, 0.5, 0.25, 0.0)
"""Shares of a paragraph's length to read in addition to the span of its mentions, tried until the model accepts it."""


def take(attention: Numbers, paragraph: Paragraph) -> Counts:
    """Return the candidate whose most attended word has the most attention `[C, n, n]`: 0 for A, 1 for B, A on ties.

    First that from the pronoun to the candidates, then that from the candidates to the pronoun `[2C]`.
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
    """Measure how often the best head is right, compared with baselines that need no model."""
    shape = need_encoder(model)
    clear = [paragraph for paragraph in paragraphs if paragraph.right is not None]
    read: list[Paragraph] = []  # the N paragraphs, as they were read
    taken: dict[str, list[Counts]] = {name: [] for name in MEASURES}  # by measure, N arrays `[2C]`
    cut, remaining = 0, clear
    for share in KEPT:
        windows = [paragraph.window(int(share * len(paragraph.words))) for paragraph in remaining]
        remaining = []
        readings = model.read((window.pair() for window in windows), ["encoder"])
        for paragraph, by_part in zip(windows, readings, strict=True):
            maps = by_part.get("encoder")
            if maps is None:
                remaining.append(paragraph)
                continue
            read.append(paragraph)
            cut += share < 1
            for name, values in measured(maps).items():
                words = between_words(values, maps.rows, maps.columns)
                taken[name].append(take(words.reshape(-1, *words.shape[2:]), paragraph))
    if not read:
        raise DataError("no paragraph that the model can read and where one of both candidates is meant", file=file)
    correct = np.array([[paragraph.right] for paragraph in read])
    right = {name: (np.array(chosen) == correct).astype(np.int64) for name, chosen in taken.items()}  # [N, 2C]

    # A row for each baseline, and for the best head by each measure.
    methods = {
        name: ("", np.array([baseline(paragraph) == paragraph.right for paragraph in read], np.int64))
        for name, baseline in BASELINES.items()
    }
    second = halve(len(read), seed)
    for name, symbol in MEASURES.items():
        candidates, by_best = choose(right[name], second)
        methods[f"most attended, {symbol}"] = name_candidates(candidates, shape, DIRECTIONS), by_best
    draws, ones = Draws(len(read), seed), np.ones(len(read), np.int64)
    genders = np.array([paragraph.gender for paragraph in read])
    rows: list[list[object]] = []
    for name, (head, answers) in methods.items():
        gain = draws.share(answers - methods[NEAREST][1], ones) if name != NEAREST else (None, None)
        of_gender = [answers[genders == gender] for gender in (FEMININE, MASCULINE)]
        by_gender = [percent(group.mean()) if group.size else None for group in of_gender]
        rows.append([name, head, *draws.share(answers, ones), *gain, *by_gender, len(read)])
    pronouns = make_table(
        "way: taken is | head: best | right: right, % .1 | interval .1 | gain .1 | gain_interval: its interval .1 | "
        f"{FEMININE} .1 + | {MASCULINE} .1 + | pronouns +",
        rows,
        "best: layer-head, and who attends (p: the pronoun, c: a candidate); two where halves chose differently",
        "each half is scored by what is best on the other; gain: over the nearest",
        "intervals: 95 %, bootstrap over paragraphs",
        f"{plural(len(read), 'paragraph')}, of which {cut:,} cut; left out: "
        f"{len(paragraphs) - len(clear):,} where neither candidate is meant, {len(remaining):,} not readable",
    )
    ways = [(f"{name} {direction}", direction, symbol) for name, symbol in MEASURES.items() for direction in DIRECTIONS]
    shares = 100 * np.stack([right[name].mean(0) for name in MEASURES]).reshape(len(ways), -1)  # [4, C]
    heads = make_table(
        "layer | head | " + " | ".join(f"{key}: {direction} by {symbol}, % .1" for key, direction, symbol in ways),
        [[i + 1, j + 1, *shares.reshape(-1, *shape)[:, i, j]] for i, j in np.ndindex(shape)],
        "over all paragraphs: the best of many heads looks better here than on new text",
        wide=True,
    )
    names = [f"{i + 1}-{j + 1}" for i, j in np.ndindex(shape)]
    series = {f"{direction}, {symbol}": list(share) for (_, direction, symbol), share in zip(ways, shares, strict=True)}
    figure = partial(bars, names, series, {}, "pronouns whose name is taken, %", "coreference")
    return Finding({"pronouns": pronouns, "heads": heads}, {"heads": figure})


def answer(question: Coreference, request: Request) -> Answer:
    """Answer the question of `extract-align analyse coreference`."""
    paragraphs = read_paragraphs(question.input, question.paragraphs)
    model = load_inspected(request)
    finding = coreference(model, paragraphs, question.seed, name_shown(question.input))
    return finding, {"model": model.name, "gap": names_of(question.input), "n": len(paragraphs)}
