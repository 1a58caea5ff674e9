"""Measures a translation model without some of its attention heads (Michel, Levy and Neubig 2019).

A masked head outputs zero; nothing is trained again. The effect on translation is measured by the loss under teacher
forcing and by BLEU, the effect on alignment by AER: once at the layer and head chosen for the whole model, and once at
those chosen for the model without the head.

Letters: N sentences, H heads of all layers in a row.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress, count, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from align.analysis.commands.common import Answer, load_aligner, names_of, progress_of
from align.analysis.commands.questions import Ablate
from align.analysis.maps import Doubles
from align.analysis.mixing import spearman
from align.analysis.models.heads import (
    AttentionBlock,
    AttentionHead,
    all_heads,
    attention_blocks,
    gate_gradients,
    without_heads,
)
from align.analysis.models.native import own_model, sentence_losses
from align.analysis.plots import curves, head_maps
from align.cli.loading import Request
from align.cli.sweep import need
from align.core.aligner import Aligner, align_encoded
from align.core.backend import Translator
from align.core.errors import DataError
from align.core.stream import cut, encode
from align.core.types import PARTS, Choice, Gold, Pair, Part, Search
from align.evaluation.gold import read_as
from align.evaluation.metrics import Counts, aer, compare, count_all
from align.evaluation.tables import Interval
from align.io.reader import name_shown
from align.models.recorder import ModelRecorder
from align.view.findings import Finding, Table, make_table

REPORT_EVERY = 30.0  # seconds between two lines about progress
SURE = 0.05  # p-value below which a change is significant


class Measured(NamedTuple):
    """Loss, links and translations of a model with some heads masked."""

    losses: Doubles  # loss of each sentence that the model can read, in nats `[N]`
    # counts of the links at the whole model's layer and head, for each line of the text `[lines, 4]`
    counts: Counts | None = None
    place: Choice | None = None  # layer and head chosen for the masked model
    rechosen: Counts | None = None  # counts of the links at that layer and head `[lines, 4]`
    translations: Sequence[str] = ()  # of the first sentences


class Ablation:
    """A model and the text on which it is measured.

    Args:
        aligner: aligner with the model; its settings decide how links are read.
        pairs: the text; lines that the model cannot read have no loss and no link.
        translator: translates so many `lines` with the model; None for no BLEU.
    """

    def __init__(
        self,
        aligner: Aligner,
        pairs: Iterable[Pair],
        gold: Sequence[Gold] | None = None,
        translator: Translator | None = None,
        lines: int = 0,
        file: str = "",
    ) -> None:
        self.recorder: ModelRecorder = aligner.forward.recorder  # type: ignore[assignment]  # of a backend, and so open
        self._aligner, self._gold, self._translator = aligner, gold, translator
        self._encoded = [encode(aligner.forward.recorder, pair, "blank") for pair in pairs]
        self._batches = list(cut(self._encoded, aligner.batch_tokens))
        if not self._batches:
            raise DataError("there is no line that the model can read: all are blank, or too long for it", file=file)
        self.blocks = attention_blocks(own_model(self.recorder))
        readable = [(item.pair, item.pieces) for item in self._encoded if item.pieces]
        self.pieces = np.array([len(pieces.target) + 1 for _, pieces in readable])  # `</s>` included `[N]`
        sample = readable[:lines] if translator else []
        self._sources = [pieces.source for _, pieces in sample]
        self.references = [" ".join(pair.target) for pair, _ in sample]
        self.choice = aligner.forward.choose(self._encoded, aligner.batch_tokens)  # of the whole model

    def measure(self, heads: Collection[AttentionHead] = (), complete: bool = True) -> Measured:
        """Measure the model with some heads masked; if `complete`, translate, and choose the layer and head anew."""
        with without_heads(self.recorder, self.blocks, heads):
            losses: dict[int, float] = {}
            with torch.no_grad():
                for numbers, batch in self._batches:
                    losses |= zip(numbers, sentence_losses(self.recorder, batch).tolist(), strict=True)
            by_sentence = np.array([losses[n] for n in sorted(losses)])
            counts = self._count(self.choice)
            if not complete:
                return Measured(by_sentence, counts)
            place = self._aligner.forward.choose(self._encoded, self._aligner.batch_tokens)
            counts_at_place = counts if place.place == self.choice.place else self._count(place)
            translated = self._translator(self._sources) if self._translator else []
            return Measured(by_sentence, counts, place, counts_at_place, [" ".join(words) for words in translated])

    def importance(self) -> Doubles:
        """Return the importance `I_h` of each head: mean |dL/dxi_h| over sentences, in nats per piece `[H]` (eq. 2).

        L is a sentence's loss, and xi_h a gate of value 1 that multiplies the head's output.
        """
        total: Doubles = np.zeros(len(all_heads(self.blocks)))
        for item in self._encoded:
            if item.pieces:
                loss = partial(sentence_losses, self.recorder, [item.pieces])
                total += gate_gradients(self.blocks, loss).abs().double().numpy(force=True)
        importance: Doubles = total / self.pieces.sum()
        return importance

    def loss(self, measured: Measured) -> float:
        """Return the loss of a measurement in nats per piece."""
        return float(measured.losses.sum() / self.pieces.sum())

    def _count(self, choice: Choice) -> Counts | None:
        if self._gold is None:
            return None
        links = align_encoded(self._aligner.forward.reader, self._encoded, choice.place, self._aligner.batch_tokens)
        return count_all((alignment.links for alignment in links), self._gold)


@dataclass
class Study:
    """A model measured without each of its heads, and with more and more heads pruned."""

    whole: Measured  # with all heads
    heads: list[AttentionHead]  # the H heads that were studied
    masked: list[Measured]  # without each of these heads
    alone: list[Measured]  # without all other heads of its layer
    importance: Doubles  # `I_h` `[H]`
    shares: Doubles  # the same by the norm of the layer's `[H]`
    # by the name of an order, the heads in the order of pruning, each with the measurement after it
    curves: dict[str, list[tuple[AttentionHead, Measured]]] = field(default_factory=dict)


def study(
    ablation: Ablation, parts: Collection[Part], tick: Callable[[int, int], None] = lambda done, total: None
) -> Study:
    """Measure a model without each head of some parts, with one head per layer, and with heads pruned.

    `tick` receives the number of measurements done, and their total.
    """
    blocks = [block for block in ablation.blocks if block.part in parts]
    heads = all_heads(blocks)
    by_part = parts if len(parts) > 1 else ()
    total = 1 + 2 * len(heads) + (3 if by_part else 2) * (len(heads) - len(blocks))
    numbers = count(1)

    def measure(heads: Collection[AttentionHead], complete: bool = False) -> Measured:
        measured = ablation.measure(heads, complete)
        tick(next(numbers), total)
        return measured

    whole = measure((), complete=True)
    masked = [measure([head], complete=True) for head in heads]
    alone = [measure([other for other in heads if other[:2] == head[:2] and other != head]) for head in heads]
    chosen = [n for n, head in enumerate(all_heads(ablation.blocks)) if head.part in parts]
    importance = ablation.importance()[chosen]
    shares = by_layer(blocks, importance)
    orders = {
        "by importance": pruning_order(blocks, shares),
        "by effect": pruning_order(blocks, [measured.losses.sum() for measured in masked]),
    }
    orders |= {part: [head for head in orders["by importance"] if head.part == part] for part in by_part}
    curves = {name: [(head, measure(order[: n + 1])) for n, head in enumerate(order)] for name, order in orders.items()}
    return Study(whole, heads, masked, alone, importance, shares, curves)


def by_layer(blocks: Sequence[AttentionBlock], values: Doubles) -> Doubles:
    """Divide values of heads `[H]` by the Euclidean norm of their layer, after Molchanov et al. (2017)."""
    ends = np.cumsum([block.heads for block in blocks])
    layers = np.split(values, ends[:-1])
    return np.concatenate([layer / max(float(np.linalg.norm(layer)), np.finfo(float).tiny) for layer in layers])


def pruning_order(blocks: Sequence[AttentionBlock], values: Sequence[float] | Doubles) -> list[AttentionHead]:
    """Return heads from the lowest value `[H]` to the highest, without the last of each layer, which stays."""
    heads = all_heads(blocks)
    left = {(block.part, block.layer): block.heads for block in blocks}
    order = []
    for n in np.argsort(values, kind="stable"):
        head = heads[n]
        if left[head[:2]] > 1:
            left[head[:2]] -= 1
            order.append(head)
    return order


# Statistics of changes.


def loss_change(
    masked: Doubles, whole: Doubles, pieces: NDArray[np.int64], samples: int, seed: int
) -> tuple[float, Interval | None]:
    """Return the difference of losses `[N]` in nats per piece, with its bootstrap interval (95 %)."""
    changes = masked - whole
    value = float(changes.sum() / pieces.sum())
    if not samples or len(pieces) < 2:
        return value, None
    drawn = np.random.default_rng(seed).integers(len(pieces), size=(samples, len(pieces)))
    return value, Interval(*np.quantile(changes[drawn].sum(1) / pieces[drawn].sum(1), (0.025, 0.975)).tolist())


def bleu_scores(
    whole: Sequence[str], variants: Sequence[Sequence[str]], references: Sequence[str], samples: int
) -> tuple[float, list[tuple[float, float | None]], str]:
    """Return a model's BLEU, each other model's difference from it with its p-value, and sacrebleu's signature.

    Case is ignored; p-values are of sacrebleu's paired bootstrap (Koehn 2004).
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    metric = BLEU(lowercase=True, force=True, references=[list(references)])
    score = float(metric.corpus_score(whole, None).score)
    if not samples:
        scores = [float(metric.corpus_score(translations, None).score) for translations in variants]
        return score, [(other - score, None) for other in scores], str(metric.get_signature())
    systems: list[Any] = [("whole", whole), *((f"without {n}", texts) for n, texts in enumerate(variants))]
    test = PairedTest(systems, {"BLEU": metric}, references=None, test_type="bs", n_samples=samples)
    signatures, results = test()
    changes = [(float(result.score) - score, result.p_value) for result in results["BLEU"][1:]]  # type: ignore[union-attr]
    return score, changes, str(signatures["BLEU"])


# Tables and figures.

Row = dict[str, Any]
"""A head, what masking it changes, intervals and p-values, and its importance.

Loss is in nats per piece, BLEU and AER in points. AER is read at the whole model's layer and head, and "anew" at those
chosen for the masked model; "alone" and "alone_aer" are changes with all other heads of the layer masked.
"""


def report(ablation: Ablation, study: Study, samples: int, seed: int) -> Finding:
    """Return the tables and figures of a study."""
    whole, pieces = study.whole, ablation.pieces

    def aer_change(counts: Counts | None) -> tuple[float | None, float | None]:
        if counts is None or whole.counts is None:
            return None, None
        value, p = compare(counts, whole.counts, "bootstrap", "aer", samples, seed)
        return None if value is None else 100 * value, p

    score, signature = None, ""
    bleu: Sequence[tuple[float | None, float | None]] = [(None, None)] * len(study.heads)
    if ablation.references:
        translations = [measured.translations for measured in study.masked]
        score, bleu, signature = bleu_scores(whole.translations, translations, ablation.references, samples)
    rows: list[Row] = []
    for n, (head, masked, alone) in enumerate(zip(study.heads, study.masked, study.alone, strict=True)):
        row: Row = head._asdict()
        row["loss"], row["loss_ci"] = loss_change(masked.losses, whole.losses, pieces, samples, seed)
        row["bleu"], row["bleu_p"] = bleu[n]
        row["aer"], row["aer_p"] = aer_change(masked.counts)
        row["anew"], row["anew_p"] = aer_change(masked.rechosen)
        row["place"] = str(masked.place and masked.place.place)
        row["importance"], row["share"] = float(study.importance[n]), float(study.shares[n])
        row["alone"], row["alone_ci"] = loss_change(alone.losses, whole.losses, pieces, samples, seed)
        row["alone_aer"], row["alone_aer_p"] = aer_change(alone.counts)
        rows.append(row)
    # each layer with only its best head, by loss (tables 2 and 3 of the paper)
    layers = []
    for (part, layer), group in groupby(rows, key=itemgetter("part", "layer")):
        heads = sorted(group, key=itemgetter("alone"))
        of_best = [heads[0][key] for key in ("head", "alone", "alone_ci", "alone_aer", "alone_aer_p")]
        layers.append([part, layer, *of_best, heads[-1]["alone"]])
    pruning = [
        [name, n, 100 * n / len(study.heads), str(head), ablation.loss(measured), _aer(measured)]
        for name, curve in study.curves.items()
        for n, (head, measured) in enumerate(curve, 1)
    ]

    loss = ablation.loss(whole)
    place = str(whole.place and whole.place.place)
    notes = ["loss: nats per piece of the target, </s> among them, under teacher forcing"]
    if signature:
        notes.append(f"BLEU of the first {len(ablation.references):,}: {signature}")
    head_notes = ["the head masked alone; I: mean of |dL/dxi| over sentences, nats per piece; p: paired bootstrap"]
    if whole.counts is not None:
        head_notes += [
            "AER: links read where the whole model is read (a masked head that is read by itself has none);",
            "anew: AER at the layer and head chosen without the head",
        ]
    tables = {
        "model": make_table(
            "sentences | pieces | loss .3 | perplexity .2 | bleu: BLEU .1 | aer: AER .1 | place: read at +",
            [[len(pieces), int(pieces.sum()), loss, math.exp(loss), score, _aer(whole), place]],
            *notes,
        ),
        "heads": make_table(
            "part | layer | head | loss: Δ loss .3 | loss_ci: 95 % CI .3 + | bleu: Δ BLEU .1 | bleu_p: p(BLEU) .3 | "
            "aer: Δ AER .1 | aer_p: p(AER) .3 + | anew .1 | anew_p: p(anew) .3 | place: read at + | importance: I .3 | "
            "share: I by layer .2 + | alone: Δ loss, layer without others .3 + | alone_aer: Δ AER .1 +",
            rows,
            *head_notes,
        ),
        "layers": make_table(
            "part | layer | head: kept head | loss: Δ loss .3 | loss_ci: 95 % CI .3 | aer: Δ AER .1 | "
            "aer_p: p .3 | worst .3",
            layers,
            "a layer with one head left: that with which the loss is lowest; worst: Δ loss with another one",
        ),
        "pruning": make_table(
            "order | pruned | share: % of heads .0 | head: last pruned | loss .3 | aer: AER .1",
            pruning,
            "by importance: I by the norm of its layer's; by effect: the loss without the head alone",
            "a part's name: its heads alone, by importance; each layer keeps one head",
            wide=True,
        ),
        "agreement": _agreement_table(study.heads, rows),
    }
    for name, table in tables.items():  # without columns that have no value
        known = [column for column in table.columns if any(row[column.key] is not None for row in table.rows)]
        tables[name] = table._replace(columns=known)

    grids = {}
    blocks = list(dict.fromkeys(head[:2] for head in study.heads))
    for key, title in (
        ("loss", "change of loss, nats per piece"),
        ("aer", "change of AER, points"),
        ("anew", "change of AER read anew"),
        ("bleu", "change of BLEU, points"),
        ("importance", "importance I, nats per piece"),
    ):
        if any(row[key] is not None for row in rows):
            grids[title] = np.full((len(blocks), max(head.head for head in study.heads)), np.nan)  # NaN: no such head
            for head, row in zip(study.heads, rows, strict=True):
                grids[title][blocks.index(head[:2]), head.head - 1] = row[key]
    figures = {"heads": partial(head_maps, grids, [f"{part} {layer}" for part, layer in blocks])}
    figures["loss"] = _pruning_figure(study, "loss, nats per piece", ablation.loss)
    if whole.counts is not None:
        figures["aer"] = _pruning_figure(study, "AER, %", _aer)
    return Finding(tables, figures)


def _aer(measured: Measured) -> float | None:
    return None if measured.counts is None else 100 * float(aer(measured.counts.sum(0)))


def _pruning_figure(study: Study, label: str, value: Callable[[Measured], float | None]) -> partial[Any]:
    lines = {}
    for name, curve in study.curves.items():
        values = [value(measured) for measured in (study.whole, *(measured for _, measured in curve))]
        lines[name] = np.stack((np.arange(len(values)), np.array(values, float)), 1)
    return partial(curves, lines, "heads pruned", label, "")


def _agreement_table(heads: Sequence[AttentionHead], rows: Sequence[Row]) -> Table:
    """Compare which heads matter for translation with which matter for alignment."""
    measures = {"loss": [row["loss"] for row in rows], "I": [row["importance"] for row in rows]}
    notes = ["over heads, of what masking each changes for the worse, and of I; most: the head with the largest change"]
    for name, key, sign in (("AER", "aer", 1), ("AER anew", "anew", 1), ("BLEU", "bleu", -1)):
        if all(row[key] is None for row in rows):
            continue
        measures[name] = values = [sign * (row[key] or 0.0) for row in rows]
        ps = [row[f"{key}_p"] for row in rows]
        significant = [value > 0 and p is not None and p < SURE for value, p in zip(values, ps, strict=True)]
        worse, direction = ", ".join(map(str, compress(heads, significant))), "lower" if sign < 0 else "higher"
        notes.append(f"{name} is {direction} (p < {SURE}) without: {worse or 'none'}")
    # AER with each measure of translation, and these with each other
    compared = [(name, rate) for rate in ("AER", "AER anew") for name in ("loss", "BLEU", "I")]
    compared += [("loss", "BLEU"), ("I", "loss")]
    correlations = []
    parts = list(dict.fromkeys(head.part for head in heads))
    for part in (*parts, *(["all"] if len(parts) > 1 else [])):
        chosen = [n for n, head in enumerate(heads) if part in (head.part, "all")]
        for pair in compared:
            if measures.keys() >= set(pair):
                columns = [np.array(measures[name])[chosen] for name in pair]
                strongest = [str(heads[chosen[int(np.argmax(column))]]) for column in columns]
                correlation = spearman(*columns) if len(chosen) > 2 else (None, None)
                correlations.append([part, len(chosen), *pair, *correlation, *strongest])
    return make_table(
        "part | heads | first: of | second: and | spearman: Spearman .2 | p .3 | first_head: of: most | "
        "second_head: and: most",
        correlations,
        *notes,
    )


def answer(question: Ablate, request: Request) -> Answer:
    """Answer the question of `extract-align analyse ablate`."""
    if question.bleu_lines:
        need("sacrebleu", "scores of translations")
    pairs, shown = question.read_pairs()
    gold: Sequence[Gold] | None = None
    kind = None
    if question.gold:
        links = read_as("gold", question.gold, question.options, pairs, name_shown(question.gold))
        gold, kind = links.pairs[: question.lines], links.kind
    pairs = pairs[: question.lines]
    aligner = load_aligner(request)
    search, recorder = Search(question.beam), aligner.forward.recorder
    translator = recorder.translator(search, aligner.batch_tokens) if question.bleu_lines else None
    ablation = Ablation(aligner, pairs, gold, translator, question.bleu_lines, shown)
    progress, reported = progress_of(request), time.monotonic()

    def tick(done: int, total: int) -> None:
        nonlocal reported
        if time.monotonic() - reported > REPORT_EVERY:
            reported = time.monotonic()
            progress(f"{done:,} of {total:,} measurements")

    studied = study(ablation, question.parts or PARTS, tick)
    return report(ablation, studied, question.samples, question.seed), {
        "model": recorder.name,
        "text": names_of(*question.text.files),
        "n": len(pairs),
        "parts": "+".join(question.parts) or None,
        "gold": kind,
        "bleu": f"{len(ablation.references)}-{search}" if translator else None,
        "ci": f"percentile-{question.samples}",
    }
