"""Error rates on text without spaces between words, such as Japanese, whose gold words are between spaces.

The models read the text without these spaces (`--words segmented`). Statistical aligners get it in characters, in ICU's
words and in the pieces of the first model; gold words are linked if any of their parts are. Means of the models' soft
scores with their links on pieces are as in `ensembles`. Other thresholds and the input position alone show whether the
defaults hold. Every row is compared with two models as they are by default, and with the run of a statistical aligner
that has the lowest error rate on this gold.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from baselines import Baselines
from common import Text, find_experiment, read_config, read_text, score_columns, score_row, swapped, write_table
from reproduce import symmetrized

from align import Aligner, LinePair, load, two_way
from align.baselines.tools import lower_case
from align.core.backend import Recorder
from align.core.types import THRESHOLD, Links, Pair, Settings, Span
from align.evaluation.ensemble import MeanScores, mean_links, share_of_directions
from align.evaluation.metrics import aer, count_all
from align.evaluation.tables import Column, Value
from align.io.signature import signature
from align.models.divide import align_unspaced, divide, join, split_by_icu
from align.models.folder import BUNDLED, READER
from align.models.preprocess import UNSPACED
from align.models.trained_reader import TrainedReader, read_reader
from align.transfer.windows import FLOOR

DEFAULT = "two models"
THRESHOLDS = (0.3, 0.4)
READER_OF = "de-en"
"""A bundled model, whose trained reader is used with these models."""

"""Beside the default one."""

_characters = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+").findall


def by_characters(pair: Pair) -> Pair:
    """Return a pair in characters of scripts without spaces, and words of others."""
    return replace(pair, source=tuple(_characters(_line(pair.source))), target=tuple(_characters(_line(pair.target))))


def by_icu(pair: Pair) -> Pair:
    """Return a pair in the words that ICU finds."""
    source, target = (
        tuple(part[a:b] for part in join(side)[0] for a, b in split_by_icu(part)) for side in (pair.source, pair.target)
    )
    return replace(pair, source=source, target=target)


def by_pieces(recorder: Recorder, pair: Pair) -> Pair:
    """Return a pair in the stretches of text that are pieces of a model."""
    parts = join(pair.source)[0], join(pair.target)[0]
    spelt = recorder.spell(Pair(*parts, pair.id))
    source, target = (divide(side, [of_side], "pieces").words for side, of_side in zip(parts, spelt, strict=True))
    return replace(pair, source=source, target=target)


def _line(words: Sequence[str]) -> str:
    return " ".join(join(words)[0])


def to_words(links: Links, parts: Pair, pair: Pair) -> Links:
    """Return the links of a pair's words, which are linked if any of their parts are.

    Args:
        parts: the same text as the pair, but for spaces and case, cut otherwise.
    """
    source, target = (_overlaps(getattr(parts, side), getattr(pair, side)) for side in ("source", "target"))
    return frozenset((a, b) for i, j in links for a in source[i] for b in target[j])


def _overlaps(parts: Sequence[str], words: Sequence[str]) -> list[list[int]]:
    """Return the words that share a character with each part."""
    spans = _spans(words)
    assert spans[-1:] == [] or spans[-1][1] == _spans(parts)[-1][1], (parts, words)
    return [[n for n, (a, b) in enumerate(spans) if a < end and begin < b] for begin, end in _spans(parts)]


def _spans(words: Sequence[str]) -> list[Span]:
    """Return where words stand in their text without spaces; a word of other spaces has no length."""
    sizes = [sum(not character.isspace() for character in word.lower()) for word in words]
    return [(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]


def links_of_models(
    forward: Aligner, reverse: Aligner, text: Text, reader: TrainedReader | None = None
) -> Iterator[tuple[str, list[MeanScores]]]:
    """Yield the scores above FLOOR of one model in either direction, and of both, by a trained reader or soft ones."""
    forward, reverse = (replace(model, forward=replace(model.forward, scorer=reader)) for model in (forward, reverse))
    both = two_way(forward, reverse, threshold=FLOOR)
    for name, aligner, pairs in (
        ("one model", forward, text.pairs),
        ("one model, reverse", reverse, swapped(text.pairs)),
        (DEFAULT, both, text.pairs),
    ):
        lines = [LinePair.of(" ".join(pair.source), " ".join(pair.target), pair.id) for pair in pairs]
        scores: list[MeanScores] = [dict(alignment.scores) for alignment in align_unspaced(aligner, lines, "segmented")]
        if name.endswith("reverse"):
            scores = [{link[::-1]: score for link, score in of_pair.items()} for of_pair in scores]
        yield name, scores


def links_above(threshold: float, *of_systems: Sequence[MeanScores]) -> list[Links]:
    """Return the links of each pair whose mean score over the systems is above a threshold."""
    return [frozenset(mean_links(of_pair, threshold)) for of_pair in zip(*of_systems, strict=True)]


def links_of_tools(
    tools: Sequence[str], about: dict[str, Any], text: Text, recorder: Recorder, baselines: Baselines
) -> Iterator[tuple[str, str, list[tuple[Links, Links]]]]:
    """Yield a tool with its version, what it aligned, and the links of the words, in both directions of each pair."""
    segments: dict[str, Callable[[Pair], Pair]] = {
        "characters": by_characters,
        "ICU's words": by_icu,
        "pieces": partial(by_pieces, recorder),
    }
    for tool in tools:
        for name, segment in segments.items():
            try:
                parts = replace(text, pairs=[segment(lower_case(pair)) for pair in text.pairs])
                baseline = baselines.align(tool, about, parts, segment=segment)
            except ModuleNotFoundError as error:
                print(f"{tool} on {name} is left out: {error}", file=sys.stderr)
                continue
            words = [
                (to_words(forward, cut, pair), to_words(reverse, cut, pair))
                for (forward, reverse), cut, pair in zip(baseline.links, parts.pairs, text.pairs, strict=True)
            ]
            yield baseline.tool, f"{tool} on {name}", words


def run(data: Path, config: Path, experiment: str, baseline_links: Path | None, output: Path) -> None:
    """Measure, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    about = find_experiment(settings, experiment)
    text = read_text(settings, about["gold"], data)
    forward, reverse = (
        load(str(data / about[key][0]) if "/" in about[key][0] else about[key][0], device="cpu", threshold=FLOOR)
        for key in ("models", "reverse_models")
    )
    soft = dict(links_of_models(forward, reverse, text))
    systems = {
        name if threshold == THRESHOLD else f"{name}, threshold {threshold:g}": links_above(threshold, scores)
        for name, scores in soft.items()
        for threshold in (THRESHOLD, *THRESHOLDS)
    }
    at_input = [
        replace(model, forward=replace(model.forward, settings=Settings(position="input", threshold=FLOOR)))
        for model in (forward, reverse)
    ]
    for name, scores in links_of_models(at_input[0], at_input[1], text):
        systems[f"{name}, --position input"] = links_above(THRESHOLD, scores)
    for name, scores in links_of_models(forward, reverse, text, read_reader(BUNDLED / READER_OF / READER)):
        systems[f"{name}, --reader {READER_OF}"] = links_above(THRESHOLD, scores)
    baselines = Baselines(data, baseline_links)
    tools: list[str] = []
    runs_of_tools: list[str] = []
    train = settings["train"][about["train"][0]]
    for tool, name, links in links_of_tools(about["baselines"], train, text, forward.forward.recorder, baselines):
        tools.append(tool)
        runs = {f"{name}: {method}": merged for method, merged in symmetrized(links).items()}
        runs_of_tools += runs
        systems |= runs
        if name.endswith("pieces"):
            shares = [share_of_directions(*both) for both in links]
            for model, scores in soft.items():
                systems[f"{model}, mean with {name}"] = links_above(THRESHOLD, scores, shares)
    counts = {name: count_all(links, text.gold) for name, links in systems.items()}
    best = min(runs_of_tools, key=lambda name: float(aer(counts[name].sum(0))), default=None)
    rows: list[dict[str, Value]] = []
    for name, of_system in counts.items():
        row = {"system": name, **score_row(of_system, text, None if name == DEFAULT else counts[DEFAULT])}
        row["p_best"] = None if best in (None, name) else score_row(of_system, text, counts[best])["p"]
        rows.append(row)
    names = [aligner.forward.recorder.name for aligner in (forward, reverse)]
    sign = signature({"model": names, "tool": list(dict.fromkeys(tools)), "words": "segmented"}, "unspaced")
    columns = [Column("system", "system"), *score_columns(text), Column("p_best", "p, best run", 4)]
    write_table(columns, rows, sign, output / f"{experiment}.unspaced.tsv")
