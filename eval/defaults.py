"""Error rates of ways to read one model: positions, heads, scores, thresholds; and of two models at several thresholds.

Each model by itself reads where lexical consistency on the test text says, without gold: at any head, or at all heads
of a layer together, in the input position or in both. Links are each target word's best word, or all words with a soft
score above a threshold: of the shares f that the model gives, of f f, as if one of the other direction agreed, or of
f f where f is sharpened first, as it is by default. The last rows are of both models together, as they are by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from torch import Tensor

from align import Aligner, Pair, Settings, two_way
from align.core.scores import best_words, links_above, shares, sharpen, soft_scores
from align.core.stream import encode
from align.core.symmetrize import mean_links
from align.core.types import FLOOR, THRESHOLD, Links, PositionChoice, Score
from align.evaluation.metrics import count_all
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from eval.common import (
    Text,
    chosen,
    find_experiment,
    load_model,
    read_config,
    read_text,
    score_columns,
    score_row,
    swapped,
    write_table,
)

THRESHOLDS = (0.3, 0.4, 0.5, 0.6)
BETWEEN = 0.45
"""A further threshold for two models."""

DEFAULT = "sharpened"
MADE_OF: dict[str, Callable[[Tensor], Tensor]] = {
    "f": lambda words: shares(words, "eos").sqrt(),
    "f f": lambda words: shares(words, "eos"),
    DEFAULT: lambda words: sharpen(words, "eos"),
}
"""What soft scores, which square it, are made of, out of word scores `[B, J, I+1]`."""


def best(word_scores: Sequence[Tensor]) -> list[Links]:
    """Link each target word to its best source word, unless `</s>` has a higher score."""
    index = [best_words(words, "eos")[0][0].tolist() for words in word_scores]  # J each
    return [frozenset((i, j) for j, i in enumerate(row) if i >= 0) for row in index]


def links_of(aligner: Aligner, pairs: Sequence[Pair]) -> Iterator[tuple[str, str, list[Links]]]:
    """Links of a text in each way: what is made of f, the threshold, and the links."""
    place = chosen(aligner, pairs).place
    encoded = [encode(aligner.forward.recorder, pair) for pair in pairs]
    words = [aligner.forward.reader.scores([one.pieces], place) for one in encoded if one.pieces]
    if len(words) < len(pairs):
        raise ValueError("a pair of the gold has nothing to align")
    yield "best words", "", best(words)
    for (name, rows), threshold in product(MADE_OF.items(), THRESHOLDS):
        scores = (soft_scores(rows(one)) for one in words)
        yield name, f"{threshold:g}", [frozenset(links_above(one, threshold)[0]) for one in scores]


def rows_of(model: Aligner, text: Text, reverse: bool) -> Iterator[dict[str, Value]]:
    """Yield a row for each way of reading one model, all compared with what it does by default."""
    scores: Sequence[Score] = ("norm", "weight")
    positions: Sequence[PositionChoice] = ("input", "both")
    found = []
    for score, head, position in product(scores, ("auto", "all"), positions):
        aligner = replace(model, forward=replace(model.forward, settings=Settings(score, position, head=head)))  # type: ignore[arg-type]
        for made_of, threshold, links in links_of(aligner, swapped(text.pairs) if reverse else text.pairs):
            turned = [frozenset((i, j) for j, i in some) for some in links] if reverse else links
            key = (score, "any" if head == "auto" else "all together", position, made_of, threshold)
            found.append((key, count_all(turned, text.gold)))
    default = dict(found)["norm", "any", "both", DEFAULT, f"{THRESHOLD:g}"]
    for (score_name, heads, where, made_of, threshold), counts in found:
        row: dict[str, Value] = {"score": score_name, "heads": heads, "position": where}
        row |= {"links": made_of, "threshold": threshold}
        yield row | score_row(counts, text, None if counts is default else default)


def rows_of_both(forward: Aligner, reverse: Aligner, text: Text) -> Iterator[dict[str, Value]]:
    """Yield a row for each threshold of two models, compared with the default one."""
    defaults = [replace(model, forward=replace(model.forward, settings=Settings())) for model in (forward, reverse)]
    scores = [dict(alignment.scores) for alignment in two_way(defaults[0], defaults[1], threshold=FLOOR)(text.pairs)]
    counts = {
        threshold: count_all([frozenset(mean_links([pair], threshold)) for pair in scores], text.gold)
        for threshold in (*THRESHOLDS, BETWEEN)
    }
    for threshold, counted in sorted(counts.items()):
        row: dict[str, Value] = {"score": "norm", "heads": "any", "position": "both", "links": DEFAULT}
        reference = None if threshold == THRESHOLD else counts[THRESHOLD]
        yield row | {"threshold": f"{threshold:g}"} | score_row(counted, text, reference)


def run(data: Path, config: Path, experiment: str, output: Path) -> None:
    """Try, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    columns = [Column(key, key) for key in ("model", "score", "heads", "position", "links", "threshold")]
    columns += score_columns(text)
    rows: list[dict[str, Value]] = []
    models = []
    for key in ("models", "reverse_models"):
        model = load_model(about[key][0], data, "cpu")
        models.append(model)
        rows += [{"model": about[key][0], **row} for row in rows_of(model, text, key == "reverse_models")]
    rows += [{"model": "both", **row} for row in rows_of_both(models[0], models[1], text)]
    sign = signature({"model": [model.forward.recorder.name for model in models]}, "defaults")
    write_table(columns, rows, sign, output / f"{experiment}.defaults.tsv")
