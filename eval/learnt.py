"""A small aligner learnt from the models' own links, beside those links: eval/results/EXPERIMENT.learnt.tsv.

    .venv/bin/python eval/run.py learnt --data DIR [EXPERIMENT ...]

The models stay as they are. A network reads the states of their words, means over pieces with `</s>` as NULL: on the
source side the encoder's output, on the target side what the first decoder layer makes of the step that reads a piece
(one model), or the encoder's output of the reverse model (two). It learns from the soft links that the same models have
by default, for one epoch over pairs that these were trained on. Words are linked where the mean of both directions'
probabilities is above the default threshold. Nothing is chosen on the gold that it is measured on; the network was
designed on dev84, which is a part of that of `bundled`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from random import Random
from typing import Any, cast

import torch
from common import (
    PERMUTATIONS,
    Text,
    find_experiment,
    letters,
    load_directions,
    read_config,
    read_text,
    read_train,
    score_columns,
    score_row,
    swapped,
    write_table,
)
from learnt_network import Network, Sample, Words, train
from torch import Tensor
from torch.nn import functional

from align import Aligner, Pair, Settings, two_way
from align.baselines.tools import lower_case
from align.core.batching import BATCH_TOKENS, cut, encode
from align.core.extraction import Reader
from align.core.merging import NULL, collate, merge_targets
from align.core.settings import THRESHOLD
from align.core.soft import links_above, soft_scores
from align.core.types import Batch, CrossAttention, Links, Pieces, Place
from align.evaluation.metrics import SAMPLES, SEED, count_all
from align.evaluation.tables import Column, Rows, Value
from align.io.signature import signature
from align.models.engine.layers import Layout
from align.models.recorder import ModelRecorder

EXPERIMENTS = ("bundled", "hansards")


class States:
    """A model that shows its attention, and keeps the states of the pass: an `AttentionRecorder`.

    Args:
        recorder: the model.

    Attributes:
        encoder: its output `[B, S, D]`.
        decoder: what the first decoder layer makes of each step `[B, T+1, D]`.
    """

    def __init__(self, recorder: ModelRecorder) -> None:
        self._recorder = recorder
        self.name, self.layers, self.heads, self.pad = recorder.name, recorder.layers, recorder.heads, recorder.pad
        self.encoder = self.decoder = torch.empty(0)

    @torch.inference_mode()
    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        """See `AttentionRecorder.record`."""
        source, steps = self._recorder.padded(batch)
        columns, rows = Layout.of(source.kept), Layout.of(steps.kept)
        transformer = self._recorder.transformer
        encoded = transformer.encode(columns.flatten(source.ids[..., None])[:, 0], columns)
        x = transformer.decoder.embedding(rows.flatten(steps.ids[..., None])[:, 0], rows)
        recorded = []
        for number, layer in enumerate(transformer.decoder.layers[: max(layers)], 1):
            assert layer.cross
            assert layer.cross_block
            x = layer.attend(x, rows)
            weights, values = layer.cross.weights(layer.cross_block.enter(x), rows, encoded, columns)
            if number in layers:
                recorded.append(layer.record(number, weights, values))
            x = layer.feed(layer.cross_block.leave(layer.cross.context(weights, values, rows), x))
            if number == 1:
                self.encoder, self.decoder = columns.pad(encoded), rows.pad(x)
        return iter(recorded)


def words_of(states: Tensor, words: Tensor, pieces: Tensor, piece_words: Tensor, count: int) -> Words:
    """One side of a batch, as the network reads it.

    Args:
        states: `[B, L, D]`.
        words: word of each state `[B, L]`; -1 for NULL, -2 for a pad.
        pieces: ids `[B, P]`.
        piece_words: likewise of each `[B, P]`.
        count: the largest number of words.
    """
    places = torch.arange(count + 1)
    vectors = merge_targets(states[:, None], words + 1, count + 1)[:, 0]
    there = places <= words.amax(1, keepdim=True) + 1
    parts = (piece_words[:, None] + 1 == places[:, None]).float()  # [B, N, P]
    parts /= parts.sum(2, keepdim=True).clamp_(min=1)
    return Words(vectors.bfloat16(), there, pieces, parts.bfloat16())


@dataclass(frozen=True)
class LearntDirection:
    """A model, and where its links are read."""

    recorder: ModelRecorder
    place: Place

    def read(self, batch: Sequence[Pieces]) -> tuple[States, Tensor, Batch]:
        """Its states, shares of its attention as `Reader` has them, and the batch."""
        states = States(self.recorder)
        shares = Reader(states).shares(batch, self.place)
        return states, shares, collate(batch, self.recorder.pad)


def samples(models: Sequence[LearntDirection], pairs: Sequence[Pair]) -> Iterator[tuple[list[int], list[Sample]]]:
    """Batches of like length: numbers of their pairs, and what one model makes of them, then two.

    Args:
        models: the forward and the reverse one.
        pairs: of the forward model's languages; those that either model cannot read are left out.
    """
    sides = zip(models, (pairs, swapped(pairs)), strict=True)
    encoded = [[encode(model.recorder, pair, "blank") for pair in side] for model, side in sides]
    readable = [n for n, both in enumerate(zip(*encoded, strict=True)) if all(one.pieces for one in both)]
    for places, batch in cut([encoded[0][n] for n in readable], BATCH_TOKENS):
        numbers = [readable[place] for place in places]
        states, forward, there = models[0].read(batch)
        turned, reverse, back = models[1].read([one.pieces for n in numbers if (one := encoded[1][n]).pieces])
        source = words_of(states.encoder, there.source_words, there.source, there.source_words, there.words[0])
        steps = functional.pad(there.target_words, (1, 0), value=NULL)
        of_one, of_two = (
            words_of(target, words, there.target, there.target_words, there.words[1])
            for target, words in ((states.decoder, steps), (turned.encoder, back.source_words))
        )
        soft = soft_scores(forward), soft_scores(forward, reverse)
        yield numbers, [Sample(source, of_one, soft[0].bfloat16()), Sample(source, of_two, soft[1].bfloat16())]


def links_of(network: Network, batches: Iterable[tuple[list[int], Sample]], pairs: Sequence[Pair]) -> list[Links]:
    """Links of a text: where the mean probability is above the default threshold."""
    links: list[Links] = [frozenset()] * len(pairs)
    for numbers, sample in batches:
        scores = network.scores(sample.source, sample.target)
        for n, found in zip(numbers, links_above(scores, THRESHOLD), strict=True):
            links[n] = frozenset(found)
    return links


def learnt(models: Sequence[LearntDirection], pairs: Sequence[Pair], text: Text, seeds: int) -> Iterator[list[Links]]:
    """Links of the text by a network for one model and by one for two, for each seed.

    Args:
        models: the forward and the reverse one.
        pairs: to learn from.
        text: to align.
        seeds: how many.
    """
    material = [both for _, both in samples(models, pairs)]
    tests = list(samples(models, text.pairs))
    transformer = models[0].recorder.transformer
    pieces = len(transformer.encoder.embedding.pieces), len(transformer.decoder.embedding.pieces)
    for seed, n in product(range(seeds), range(2)):
        source, target, _ = material[0][n]
        torch.manual_seed(seed)
        network = Network((source.vectors.shape[2], target.vectors.shape[2]), pieces)
        train(network, [both[n] for both in material], seed)
        yield links_of(network, ((numbers, both[n]) for numbers, both in tests), text.pairs)


def draw(about: dict[str, Any], data: Path, text: Text, count: int) -> list[Pair]:
    """So many pairs of a training text at random, none of which is in the text that is measured."""
    tested = {letters(lower_case(pair)) for pair in text.pairs}
    pairs = list(read_train(about, data, tokenize=False))
    Random(SEED).shuffle(pairs)
    return list(islice((p for p in pairs if not p.blank and letters(lower_case(p)) not in tested), count))


def rows_of(aligners: tuple[Aligner, Aligner], pairs: Sequence[Pair], text: Text, seeds: int) -> Rows:
    """The models' own links, and those of each seed, tested against them."""
    fixed = [aligner.fixed(side) for aligner, side in zip(aligners, (pairs, swapped(pairs)), strict=True)]
    directions = [
        LearntDirection(cast("ModelRecorder", one.forward.recorder), one.forward.choice.place)
        for one in fixed
        if one.forward.choice
    ]
    found = (count_all(links, text.gold) for links in learnt(directions, pairs, text, seeds))
    own = [
        count_all([alignment.links for alignment in aligner(text.pairs)], text.gold)
        for aligner in (aligners[0], two_way(*aligners))
    ]
    models = "one", "two"
    rows: list[dict[str, Value]] = [
        {"models": name, "links": "default", **score_row(counts, text, None)}
        for name, counts in zip(models, own, strict=True)
    ]
    for (seed, n), counts in zip(product(range(seeds), range(2)), found, strict=True):
        rows.append({"models": models[n], "links": f"learnt, seed {seed}", **score_row(counts, text, own[n])})
    return sorted(rows, key=lambda row: str(row["models"]))


def run(data: Path, config: Path, experiments: list[str], pairs: int, seeds: int, output: Path) -> None:
    """Learn, measure, print, write.

    Raises:
        argparse.ArgumentError: there is no such experiment.
    """
    settings = read_config(config)
    for name in experiments or EXPERIMENTS:
        about = find_experiment(settings, name)
        text = read_text(settings, about["gold"], data)
        drawn = draw(settings["train"][about["train"][0]], data, text, pairs)
        forward, reverse = (
            replace(one, forward=replace(one.forward, settings=Settings()))
            for one in load_directions(about, data, too_long="blank")
        )
        rows = rows_of((forward, reverse), drawn, text, seeds)
        parts: dict[str, str | int | list[str]] = {
            "name": name,
            "gold": "+".join(text.names),
            "model": [forward.forward.recorder.name, reverse.forward.recorder.name],
            "pairs": len(drawn),
            "ci": f"percentile-{SAMPLES}",
            "test": f"permutation-{PERMUTATIONS}",
            "seed": SEED,
        }
        columns = [Column("models", "models"), Column("links", "links"), *score_columns(text)]
        write_table(columns, rows, signature(parts, "learnt"), output / f"{name}.learnt.tsv")
