"""How well scores of sentence pairs find what is no translation; see `extract-align score`.

Half of the pairs of a text are spoilt, in several ways, each pair in one. Systems: the agreement of one model and of
two, also of distilled ones, and the scores of eflomal on the same mixture, by itself and with priors of further pairs,
as OpusFilter uses it. A pair's score is the worse of its two directions. A second table has other definitions of one
model's agreement, on other pairs of the text.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from align import Aligner, Pair, load, read_text, translate, two_way
from align.core.scores import MIN_AGREEMENT, TINY
from align.core.stream import encode
from align.core.types import Search
from align.evaluation.metrics import SAMPLES, SEED
from align.evaluation.tables import Column, Value, interval, percent
from align.io.signature import signature
from eval.common import Tokens, write_table

Words = tuple[str, ...]

STUDENTS = "de-en-fast", "en-de-fast"
"""Distilled models, for a text of their languages."""

KEPT = 0.95
"""Share of the good pairs that the threshold keeps, on the half of the pairs that choose it."""

TRANSLATED = "machine translation"
"""Spoilt pairs that are translations: the other kinds together leave them out."""


def normalised(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide each column, which is a source word's, by its sum."""
    sums: NDArray[np.float64] = products.sum(0)
    return products / np.maximum(sums, TINY)


DEFINITIONS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "f": lambda f: f,
    "f / max(1, sum f)": lambda f: f / np.maximum(f.sum(0), 1),
    "f / (0.1 + sum f)": lambda f: f / (f.sum(0) + 0.1),
    "f / sum f": normalised,
    "f^1.5 / sum f^1.5": lambda f: normalised(f**1.5),
    "f^2 / sum f^2": lambda f: normalised(f**2),
    "f^3 / sum f^3": lambda f: normalised(f**3),
}
"""How the shares r of the target words of each source word `[J, I]` may follow from one model's shares f `[J, I]`.

Sums are over target words. With the first, sums over r exceed 1, and the chance of a word is cut at 1.
"""


class Example(NamedTuple):
    """A pair, and how it was spoilt; "" for a good one."""

    source: Words
    target: Words
    kind: str


def spoil(pairs: Sequence[tuple[Words, Words]], foreign: Sequence[Words], lines: int, seed: int) -> list[Example]:
    """Return good pairs and as many spoilt ones, `lines` of each kind, in random order.

    Targets of machine translation are left to be made.
    """
    random = Random(seed)
    order = random.sample(range(len(pairs)), len(pairs))
    targets = [pairs[n][1] for n in order]

    def near(words: Words, pool: Sequence[Words]) -> Words:
        """Return a sentence of about the same length."""
        return min(
            random.sample(pool, min(50, len(pool))), key=lambda other: (abs(len(other) - len(words)), other == words)
        )

    kinds: dict[str, Callable[[Words, Words], tuple[Words, Words]]] = {
        "another sentence": lambda source, target: (source, near(target, targets)),
        "half of the target": lambda source, target: (source, target[: len(target) // 2]),
        "half of the source": lambda source, target: (source[: len(source) // 2], target),
        "half a sentence more": lambda source, target: (source, target + near(target, targets)[: len(target) // 2]),
        "copy of the source": lambda source, target: (source, source),
        "another language": lambda source, target: (source, near(target, foreign)),
        TRANSLATED: lambda source, target: (source, ()),
    }
    examples = []
    numbers = iter(order)
    for kind, change in kinds.items():
        if kind == "another language" and not foreign:
            continue
        examples += [Example(*change(*pairs[n]), kind) for n in islice(numbers, lines)]
        examples += [Example(*pairs[n], "") for n in islice(numbers, lines)]
    return random.sample(examples, len(examples))


def agreement_of(aligner: Aligner, examples: Sequence[Example]) -> NDArray[np.float64]:
    """Return the lower agreement of each pair."""
    alignments = aligner.fixed()((example.source, example.target) for example in examples)
    return np.array([min(alignment.agreement or (0.0, 0.0)) for alignment in alignments])


def definition_rows(name: str, aligner: Aligner, examples: Sequence[Example]) -> Iterator[dict[str, Value]]:
    """Yield a row for each definition of one model's agreement: the AUC of all spoilt pairs, and of each kind."""
    direction = aligner.fixed().forward
    assert direction.choice
    numbered = (Pair(example.source, example.target, n) for n, example in enumerate(examples, 1))
    encoded = [encode(direction.recorder, pair, "blank").pieces for pair in numbered]
    shares = [
        direction.reader.shares([pieces], direction.choice.place)[0].double().numpy() if pieces else np.zeros((1, 1))
        for pieces in encoded
    ]
    kinds = np.array([example.kind for example in examples])
    for definition, reverse in DEFINITIONS.items():
        scores = np.empty(len(shares))
        for n, f in enumerate(shares):
            product = f * reverse(f)  # [J, I]
            scores[n] = min(np.log(product.sum(axis).clip(MIN_AGREEMENT, 1)).mean() for axis in (0, 1))
        good, bad = scores[kinds == ""], scores[kinds != ""]
        low, high = area_interval(good, bad)
        yield {
            "model": name,
            "definition": definition,
            "all": percent(area(good, bad)),
            "interval": interval(percent(low), percent(high)),
            **{kind: percent(area(good, scores[kinds == kind])) for kind in sorted({*kinds} - {""})},
        }


def eflomal_scores(
    examples: Sequence[Example], more: Sequence[tuple[Words, Words]], languages: tuple[str, str]
) -> NDArray[np.float64]:
    """Return the lower score of each pair, larger is better.

    Args:
        more: pairs whose priors are used, if there are any.
        languages: of source and target, for their tokens.
    """
    import eflomal

    tokenize = [Tokens(language) for language in languages]

    def lines(pairs: Sequence[Any], side: int) -> list[str]:
        return [" ".join(tokenize[side](pair[side])) + "\n" for pair in pairs]

    with tempfile.TemporaryDirectory() as folder:
        names = [f"{folder}/{name}" for name in ("fwd", "rev", "priors")]
        priors = None
        if more:
            eflomal.Aligner().align(lines(more, 0), lines(more, 1), names[0], names[1])
            links = [Path(name).read_text().splitlines() for name in names[:2]]
            with open(names[2], "w", encoding="utf-8") as file:
                eflomal.write_priors(file, *eflomal.calculate_priors(lines(more, 0), lines(more, 1), *links))
            priors = Path(names[2]).read_text(encoding="utf-8").splitlines()
        eflomal.Aligner().align(
            lines(examples, 0),
            lines(examples, 1),
            scores_filename_fwd=names[0],
            scores_filename_rev=names[1],
            priors_input=priors,
        )
        worst = [
            max(map(float, pair)) for pair in zip(*(Path(name).read_text().split() for name in names[:2]), strict=True)
        ]
    return -np.array(worst)


def area(good: NDArray[np.float64], bad: NDArray[np.float64]) -> float:
    """Return the chance that a good pair scores higher than a bad one, which is the area under the ROC curve."""
    ordered = np.sort(bad)
    below = np.searchsorted(ordered, good, "left") + np.searchsorted(ordered, good, "right")
    return float(below.mean() / 2 / len(bad))


def area_interval(good: NDArray[np.float64], bad: NDArray[np.float64]) -> tuple[float, float]:
    """Return a 95 % interval, of drawing pairs again."""
    draw = np.random.default_rng(SEED)
    areas = [area(draw.choice(good, len(good)), draw.choice(bad, len(bad))) for _ in range(SAMPLES)]
    low, high = np.percentile(areas, [2.5, 97.5])
    return float(low), float(high)


def rows_of(system: str, scores: NDArray[np.float64], examples: Sequence[Example]) -> Iterator[dict[str, Value]]:
    """Yield a row for each kind of spoilt pairs, and one for all of them that are no translations."""
    kinds = np.array([example.kind for example in examples])
    first = np.arange(len(examples)) % 2 == 0
    good = kinds == ""
    threshold = float(np.quantile(scores[good & first], 1 - KEPT))
    accepted = (scores >= threshold) & ~first
    for kind in ("all", *sorted({*kinds} - {""})):
        bad = ~good & (kinds != TRANSLATED) if kind == "all" else kinds == kind
        precision = (accepted & good).sum() / max(1, (accepted & (good | bad)).sum())
        low, high = area_interval(scores[good], scores[bad])
        yield {
            "system": system,
            "kind": kind,
            "auc": percent(area(scores[good], scores[bad])),
            "interval": interval(percent(low), percent(high)),
            "threshold": threshold,
            "removed": percent((bad & ~accepted & ~first).sum() / max(1, (bad & ~first).sum())),
            "precision": percent(precision),
            "recall": percent((accepted & good).sum() / (good & ~first).sum()),
        }


COLUMNS = [
    *(
        Column("system", "system"),
        Column("kind", "spoilt by"),
        Column("auc", "AUC", 1),
        Column("interval", "95 % CI", 1),
    ),
    Column("threshold", "threshold", 3),
    *(Column("removed", "removed %", 1), Column("precision", "precision %", 1), Column("recall", "recall %", 1)),
]


def run(
    source: str,
    target: str,
    other: str | None,
    model: str,
    reverse_model: str,
    lines: int,
    threads: int,
    output: Path,
) -> None:
    """Measure, print, write.

    Raises:
        argparse.ArgumentError: the text is too short.
        DataError: a text is damaged.
    """
    import torch

    torch.set_num_threads(threads)
    pairs = [
        (pair.source, pair.target)
        for pair in read_text(source, target)
        if min(map(len, (pair.source, pair.target))) > 3
    ]
    foreign = (
        [tuple(line.split()) for line in Path(other).read_text(encoding="utf-8").split("\n") if line.strip()]
        if other
        else []
    )
    examples = spoil(pairs, foreign, lines, SEED)
    needed = 2 * lines * (7 if foreign else 6)
    if len(examples) < needed:
        raise argparse.ArgumentError(None, f"{len(pairs):,} pairs are too few for --lines {lines}")
    forward, reverse, student, reverse_student = (
        load(name, device="cpu", too_long="blank") for name in (model, reverse_model, *STUDENTS)
    )
    languages = forward.forward.recorder.languages
    models = [(forward, reverse)]
    if student.forward.recorder.languages == languages:
        models.append((student, reverse_student))
    sources = [example.source for example in examples if example.kind == TRANSLATED]
    translations = iter([alignment.pair.target for alignment in translate(forward, sources, Search(beam=1))])
    examples = [
        example._replace(target=next(translations)) if example.kind == TRANSLATED else example for example in examples
    ]
    used = {example.source for example in examples}
    more = [pair for pair in pairs if pair[0] not in used]
    systems = {}
    for kind, (aligner, opposite) in zip(("", "distilled "), models, strict=False):
        systems[f"two {kind}models"] = agreement_of(two_way(aligner, opposite), examples)
        systems[f"one {kind}model"] = agreement_of(aligner, examples)
    systems["eflomal"] = eflomal_scores(examples, (), languages)
    if more:
        systems["eflomal with priors"] = eflomal_scores(examples, more, languages)
    rows = [row for name, scores in systems.items() for row in rows_of(name, scores, examples)]
    names = [[aligner.forward.recorder.name for aligner in directions] for directions in models]
    about: dict[str, Any] = {
        "model": [name for of_directions in names for name in of_directions],
        "text": Path(source).name,
        "lines": lines,
        "priors": len(more),
        "kept": f"{KEPT:g}",
        "seed": SEED,
    }
    write_table(COLUMNS, rows, signature(about, "scores"), output / "scores.tsv")
    if len(more) < needed:
        return
    held_out = [example for example in spoil(more, foreign, lines, SEED + 1) if example.kind != TRANSLATED]
    rows = []
    for (name, _), (aligner, _) in zip(names, models, strict=True):
        rows += definition_rows(name, aligner, held_out)
    columns = [
        *(Column("model", "model"), Column("definition", "r")),
        *(Column("all", "AUC, all", 1), Column("interval", "95 % CI", 1)),
        *(Column(kind, kind, 1) for kind in sorted({example.kind for example in held_out} - {""})),
    ]
    about = {"model": [name for name, _ in names], "text": Path(source).name, "lines": lines, "seed": SEED + 1}
    write_table(columns, rows, signature(about, "definitions"), output / "scores.definitions.tsv")
