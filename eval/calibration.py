"""How many lines choosing layer and head takes, and by which rule: eval/results/EXPERIMENT.calibration.tsv.

    .venv/bin/python eval/run.py calibration --data DIR

Lines are drawn at random, again and again, from the text that the models of the experiment "bundled" were trained on,
and from each of its larger sources by itself; norms in the input position choose. AER of what is chosen is that on the
experiment's gold, of both directions symmetrised.

- lexical consistency: of each model's own links, as `extract-align` has it;
- of both: of the links that two directions have in common, for each pair of cells;
- agreement: the pair of cells with the highest Dice of links, as SHIFT-ATT chooses its layer (Chen et al., 2020).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from common import (
    Text,
    find_experiment,
    load_directions,
    read_at,
    read_config,
    read_labels,
    read_text,
    read_train,
    swapped,
    write_table,
)
from numpy.typing import NDArray

from align import Aligner, Pair, two_way
from align.core.batching import chunks, encode
from align.core.choice import all_cells
from align.core.consistency import Vocabulary, lexical_consistency
from align.core.types import Cell, TextWarning
from align.evaluation.metrics import SEED, count_all, estimate
from align.evaluation.sweep import link_all
from align.evaluation.swept import POSITIONS, SCORES
from align.evaluation.tables import Column, Value
from align.io.signature import signature

Ints = NDArray[np.int64]
SIZES = (20, 50, 100, 200, 500, 1000, 2000, 5000)
DRAWS = 20
IN_DOMAIN = 500
Chosen = tuple[int, int]
"""Numbers of a forward and a reverse cell."""


class Lines:
    """Links of every cell in both directions, of every line: the best words, and the words' numbers."""

    def __init__(self, aligners: tuple[Aligner, Aligner], pairs: list[Pair]) -> None:
        words = Vocabulary(), Vocabulary()
        self.lines: list[tuple[Ints, Ints, Ints, Ints]] = []
        self.ids: list[int] = []
        s, p = SCORES.index("norm"), POSITIONS.index("input")
        for chunk in chunks(iter(pairs), aligners[0].buffer):
            linked = (
                link_all(aligner, [encode(aligner.forward.recorder, pair, "blank") for pair in pairs])
                for aligner, pairs in zip(aligners, (chunk, swapped(chunk)), strict=True)
            )
            for pair, forward, reverse in zip(chunk, *linked, strict=True):
                if forward and reverse:
                    numbers = words[0].numbers(pair.source), words[1].numbers(pair.target)
                    self.ids.append(pair.id)
                    self.lines.append((forward.words[s, p], reverse.words[s, p], *numbers))

    def sample(self, numbers: list[int]) -> tuple[Ints, Ints, Ints, Ints]:
        """These lines one behind the other: `[C, J]` source words of target words, `[C', I]`, and words' numbers."""
        forward, reverse, offsets = [], [], [0, 0]
        some = [self.lines[n] for n in numbers]
        for sources, targets, source, target in some:
            forward.append(np.where(sources >= 0, sources + offsets[0], -1))
            reverse.append(np.where(targets >= 0, targets + offsets[1], -1))
            offsets = [offsets[0] + len(source), offsets[1] + len(target)]
        source, target = (np.concatenate([line[side] for line in some]) for side in (2, 3))
        return np.concatenate(forward, axis=1), np.concatenate(reverse, axis=1), source, target


def by_consistency(forward: Ints, reverse: Ints, source: Ints, target: Ints) -> Chosen:
    """Each model's own."""
    of_forward = [lexical_consistency(source[f[f >= 0]], target[f >= 0], len(target)) for f in forward]
    of_reverse = [lexical_consistency(target[r[r >= 0]], source[r >= 0], len(source)) for r in reverse]
    return int(np.argmax(of_forward)), int(np.argmax(of_reverse))


def best_pair(forward: Ints, reverse: Ints, value: Callable[[Ints, Ints, NDArray[np.bool_]], float]) -> Chosen:
    """The pair of cells with the highest value of its links and of which are in both directions."""
    targets = np.arange(forward.shape[1])
    values = {
        (a, b): value(f, r, (r[np.maximum(f, 0)] == targets) & (f >= 0))
        for (a, f), (b, r) in product(enumerate(forward), enumerate(reverse))
    }
    return max(values, key=lambda chosen: values[chosen])


def by_both(forward: Ints, reverse: Ints, source: Ints, target: Ints) -> Chosen:
    """That of the links in common."""
    return best_pair(
        forward, reverse, lambda f, _, same: lexical_consistency(source[f[same]], target[same], len(target))
    )


def by_agreement(forward: Ints, reverse: Ints, source: Ints, target: Ints) -> Chosen:
    """Dice."""
    return best_pair(forward, reverse, lambda f, r, same: 2 * same.sum() / max(1, (f >= 0).sum() + (r >= 0).sum()))


RULES = {"lexical consistency": by_consistency, "of both": by_both, "agreement": by_agreement}


def rows(
    lines: Lines, labels: list[str], rate: Callable[[Chosen], float], cells: tuple[list[Cell], list[Cell]]
) -> Iterator[dict[str, Value]]:
    """The table: what each rule chooses from how many lines of which text, and what that is worth."""
    random = np.random.default_rng(SEED)
    everywhere = list(range(len(lines.lines)))
    texts = [("all", everywhere, size) for size in SIZES if size <= len(everywhere)]
    for label, count in Counter(labels).most_common():
        if count >= IN_DOMAIN:
            texts.append((label, [n for n in everywhere if labels[n] == label], IN_DOMAIN))
    for text, numbers, size in texts:
        for rule, choose in RULES.items():
            draws = DRAWS if size < 1000 else max(2, DRAWS * 200 // size)
            found = [choose(*lines.sample(random.choice(numbers, size, replace=False).tolist())) for _ in range(draws)]
            rates = [100 * rate(chosen) for chosen in found]
            most, times = Counter(found).most_common(1)[0]
            yield {
                **{"text": text, "lines": size, "rule": rule, "draws": draws},
                **{"mean": float(np.mean(rates)), "worst": max(rates)},
                **{"most": f"{cells[0][most[0]]}; {cells[1][most[1]]}", "share": 100 * times / draws},
            }


def error_rate(aligners: tuple[Aligner, Aligner], cells: tuple[Cell, Cell], text: Text) -> float:
    """AER of both directions symmetrised, each read at its cell; 0 where it is not defined."""
    forward, reverse = (read_at(aligner, cell) for aligner, cell in zip(aligners, cells, strict=True))
    links = [alignment.links for alignment in two_way(forward, reverse)(text.pairs)]
    return estimate(count_all(links, text.gold), samples=0).value or 0.0


COLUMNS = [
    Column("text", "text"),
    Column("lines", "lines"),
    Column("rule", "rule"),
    Column("draws", "draws"),
    Column("mean", "mean AER", 1),
    Column("worst", "worst", 1),
    Column("most", "chosen most often"),
    Column("share", "% of draws", 0),
]


def run(data: Path, config: Path, experiment: str, lines: int, output: Path) -> None:
    """Choose, print, write.

    Raises:
        ArgumentError: there is no such experiment.
        ValueError: its training text does not say where its lines are from.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    train_about = settings["train"][about["train"][0]]
    if "labels" not in train_about:
        raise ValueError(f"{config}: the training text {about['train'][0]} has no labels")
    text = read_text(settings, about["gold"], data)
    aligners = load_directions(about, data, too_long="blank")
    labels = read_labels(train_about, data)
    train = [pair for pair in read_train(train_about, data) if not pair.blank]
    taken = np.random.default_rng(SEED).permutation(len(train))[:lines].tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWarning)  # of training text, and again for each pair of cells
        drawn = Lines(aligners, [train[n] for n in taken])
        cells = all_cells(aligners[0].forward.recorder), all_cells(aligners[1].forward.recorder)

        @lru_cache
        def rate(chosen: Chosen) -> float:
            return error_rate(aligners, (cells[0][chosen[0]], cells[1][chosen[1]]), text)

        table = list(rows(drawn, [labels[n - 1] for n in drawn.ids], rate, cells))
    names = [aligner.forward.recorder.name for aligner in aligners]
    parts: dict[str, str | int | list[str]] = {
        "model": names,
        "lines": len(drawn.lines),
        "seed": SEED,
    }
    sign = signature(parts, "calibration")
    write_table(COLUMNS, table, sign, output / f"{experiment}.calibration.tsv")
