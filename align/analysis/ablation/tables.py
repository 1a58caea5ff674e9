"""Tables and figures of an ablation study."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from align.analysis.ablation.effects import Change, aer_change, bleu_scores, loss_change, rank_correlation
from align.analysis.ablation.question import Ablation, Doubles, Measured, Study, by_layer
from align.analysis.models.heads import AttentionHead
from align.core.types import Part
from align.evaluation.metrics import aer
from align.evaluation.tables import Column, Value, interval
from align.view.findings import Finding, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SURE = 0.05
"""p-value below which a change is significant."""


@dataclass(frozen=True)
class Effects:
    """Changes caused by masking each head, in the order of a study's heads.

    Attributes:
        loss: in nats per piece.
        bleu: in points; None values if nothing was translated.
        aer: in points, at the whole model's layer and head; None values without gold.
        rechosen: in points, at the layer and head chosen for the masked model.
        alone: change of loss in nats per piece, with all other heads of the layer masked.
        alone_aer: change of AER in points, with all other heads of the layer masked.
        whole_bleu: BLEU of the whole model.
        bleu_signature: sacrebleu's signature.
    """

    loss: list[Change]
    bleu: list[Change]
    aer: list[Change]
    rechosen: list[Change]
    alone: list[Change]
    alone_aer: list[Change]
    whole_bleu: float | None
    bleu_signature: str


def effects_of(ablation: Ablation, study: Study, samples: int, seed: int) -> Effects:
    """Compute all changes of a study.

    Args:
        samples: number of bootstrap samples.
        seed: seed of the bootstraps.
    """
    whole, pieces = study.whole, ablation.pieces
    score, bleu, signature = None, [Change(None) for _ in study.heads], ""
    if ablation.references:
        translations = [measured.translations for measured in study.masked]
        score, bleu, signature = bleu_scores(whole.translations, translations, ablation.references, samples)

    def loss(measurements: Sequence[Measured]) -> list[Change]:
        return [loss_change(measured.losses, whole.losses, pieces, samples, seed) for measured in measurements]

    return Effects(
        loss(study.masked),
        bleu,
        [aer_change(measured.counts, whole.counts, samples, seed) for measured in study.masked],
        [aer_change(measured.rechosen, whole.counts, samples, seed) for measured in study.masked],
        loss(study.alone),
        [aer_change(measured.counts, whole.counts, samples, seed) for measured in study.alone],
        score,
        signature,
    )


def report(ablation: Ablation, study: Study, effects: Effects) -> Finding:
    """Return the tables and figures of a study."""
    tables = {
        "model": _model_table(ablation, study, effects),
        "heads": _head_table(ablation, study, effects),
        "layers": _layer_table(study, effects),
        "pruning": _pruning_table(ablation, study),
        "agreement": _agreement_table(study, effects),
    }
    return Finding({name: _known(table) for name, table in tables.items()}, _figures(ablation, study, effects))


def _known(table: Table) -> Table:
    """Drop the columns without any value."""
    return table._replace(columns=[c for c in table.columns if any(row[c.key] is not None for row in table.rows)])


def _aer(measured: Measured) -> float | None:
    return None if measured.counts is None else 100 * float(aer(measured.counts.sum(0)))


def _model_table(ablation: Ablation, study: Study, effects: Effects) -> Table:
    loss = float(study.whole.losses.sum() / ablation.pieces.sum())
    columns = [Column("sentences", "sentences"), Column("pieces", "pieces"), Column("loss", "loss", 3)]
    columns += [Column("perplexity", "perplexity", 2), Column("bleu", "BLEU", 1), Column("aer", "AER", 1)]
    columns.append(Column("place", "read at", wide=True))
    row: dict[str, Value] = {"sentences": len(ablation.pieces), "pieces": int(ablation.pieces.sum()), "loss": loss}
    row |= {"perplexity": math.exp(loss), "bleu": effects.whole_bleu, "aer": _aer(study.whole)}
    notes = ["loss: nats per piece of the target, </s> among them, under teacher forcing"]
    if effects.bleu_signature:
        notes.append(f"BLEU of the first {len(ablation.references):,}: {effects.bleu_signature}")
    return Table(columns, [{**row, "place": str(study.whole.place and study.whole.place.place)}], notes)


def _head_table(ablation: Ablation, study: Study, effects: Effects) -> Table:
    columns = [Column("part", "part"), Column("layer", "layer"), Column("head", "head")]
    columns += [Column("loss", "Δ loss", 3), Column("loss_ci", "95 % CI", 3, wide=True), Column("bleu", "Δ BLEU", 1)]
    columns += [Column("bleu_p", "p(BLEU)", 3), Column("aer", "Δ AER", 1), Column("aer_p", "p(AER)", 3, wide=True)]
    columns += [Column("anew", "anew", 1), Column("anew_p", "p(anew)", 3)]
    columns += [Column("place", "read at", wide=True), Column("importance", "I", 3)]
    columns += [
        Column("share", "I by layer", 2, wide=True),
        Column("alone", "Δ loss, layer without others", 3, wide=True),
    ]
    columns.append(Column("alone_aer", "Δ AER", 1, wide=True))
    shares = by_layer([block for block in ablation.blocks if block.part in _parts(study)], study.importance)
    rows: list[dict[str, Value]] = []
    for n, head in enumerate(study.heads):
        loss, place = effects.loss[n], study.masked[n].place
        row: dict[str, Value] = dict(head._asdict())
        row |= {"loss": loss.value, "loss_ci": interval(loss.low, loss.high)}
        row |= {"bleu": effects.bleu[n].value, "bleu_p": effects.bleu[n].p}
        row |= {"aer": effects.aer[n].value, "aer_p": effects.aer[n].p}
        row |= {"anew": effects.rechosen[n].value, "anew_p": effects.rechosen[n].p, "place": str(place and place.place)}
        row |= {"importance": float(study.importance[n]), "share": float(shares[n])}
        rows.append({**row, "alone": effects.alone[n].value, "alone_aer": effects.alone_aer[n].value})
    notes = ["the head masked alone; I: mean of |dL/dxi| over sentences, nats per piece; p: paired bootstrap"]
    if study.whole.counts is not None:
        notes.append("AER: links read where the whole model is read (a masked head that is read by itself has none);")
        notes.append("anew: AER at the layer and head chosen without the head")
    return Table(columns, rows, notes)


def _layer_table(study: Study, effects: Effects) -> Table:
    """Tabulate each layer with only its best head, by loss (tables 2 and 3 of the paper)."""
    columns = [Column("part", "part"), Column("layer", "layer"), Column("head", "kept head")]
    columns += [Column("loss", "Δ loss", 3), Column("loss_ci", "95 % CI", 3), Column("aer", "Δ AER", 1)]
    columns += [Column("aer_p", "p", 3), Column("worst", "worst", 3)]
    rows: list[dict[str, Value]] = []
    numbers = range(len(study.heads))
    for (part, layer), group in groupby(numbers, key=lambda n: study.heads[n][:2]):
        of_layer = list(group)
        losses = [effects.alone[n].value or 0.0 for n in of_layer]
        best = of_layer[int(np.argmin(losses))]
        loss, change = effects.alone[best], effects.alone_aer[best]
        row: dict[str, Value] = {"part": part, "layer": layer, "head": study.heads[best].head, "loss": loss.value}
        row |= {"loss_ci": interval(loss.low, loss.high), "aer": change.value, "aer_p": change.p}
        rows.append({**row, "worst": max(losses)})
    return Table(
        columns,
        rows,
        ["a layer with one head left: that with which the loss is lowest; worst: Δ loss with another one"],
    )


def _pruning_table(ablation: Ablation, study: Study) -> Table:
    columns = [Column("order", "order"), Column("pruned", "pruned"), Column("share", "% of heads", 0)]
    columns += [Column("head", "last pruned"), Column("loss", "loss", 3), Column("aer", "AER", 1)]
    rows: list[dict[str, Value]] = []
    for name, curve in study.curves.items():
        for n, (head, measured) in enumerate(curve, 1):
            loss = float(measured.losses.sum() / ablation.pieces.sum())
            row: dict[str, Value] = {"order": name, "pruned": n, "share": 100 * n / len(study.heads)}
            rows.append({**row, "head": str(head), "loss": loss, "aer": _aer(measured)})
    notes = ["by importance: I by the norm of its layer's; by effect: the loss without the head alone"]
    notes.append("a part's name: its heads alone, by importance; each layer keeps one head")
    return Table(columns, rows, notes, wide=True)


def _agreement_table(study: Study, effects: Effects) -> Table:
    """Compare which heads matter for translation with which matter for alignment."""
    measures: dict[str, list[float]] = {"loss": [change.value or 0.0 for change in effects.loss]}
    if effects.whole_bleu is not None:
        measures["BLEU"] = [-(change.value or 0.0) for change in effects.bleu]
    if study.whole.counts is not None:
        measures["AER"] = [change.value or 0.0 for change in effects.aer]
        measures["AER anew"] = [change.value or 0.0 for change in effects.rechosen]
    measures["I"] = list(study.importance)
    columns = [Column("part", "part"), Column("heads", "heads"), Column("first", "of"), Column("second", "and")]
    columns += [Column("spearman", "Spearman", 2), Column("p", "p", 3)]
    columns += [Column("first_head", "of: most"), Column("second_head", "and: most")]
    rows: list[dict[str, Value]] = []
    parts = _parts(study)
    for part in (*parts, *(["all"] if len(parts) > 1 else [])):
        chosen = [n for n, head in enumerate(study.heads) if part in (head.part, "all")]
        for first, second in _pairs(list(measures)):
            values = [[measures[name][n] for n in chosen] for name in (first, second)]
            rho, p = rank_correlation(*values)
            strongest = [str(study.heads[chosen[int(np.argmax(column))]]) for column in values]
            row: dict[str, Value] = {"part": part, "heads": len(chosen), "first": first, "second": second}
            rows.append({**row, "spearman": rho, "p": p, "first_head": strongest[0], "second_head": strongest[1]})
    notes = ["over heads, of what masking each changes for the worse, and of I; most: the head with the largest change"]
    return Table(columns, rows, [*notes, *_carriers(study, effects)])


def _pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs to compare: AER with each measure of translation, and these with each other."""
    compared = [(name, aer) for aer in ("AER", "AER anew") for name in ("loss", "BLEU", "I")]
    return (pair for pair in (*compared, ("loss", "BLEU"), ("I", "loss")) if set(pair) <= set(names))


def _carriers(study: Study, effects: Effects) -> list[str]:
    """Note the heads without which alignment, or translation, is significantly worse."""

    def names(hurt: Sequence[bool]) -> str:
        return ", ".join(str(head) for head, worse in zip(study.heads, hurt, strict=True) if worse) or "none"

    notes = []
    if study.whole.counts is not None:
        for name, changes in (("AER", effects.aer), ("AER anew", effects.rechosen)):
            worse = [bool(change.value and change.value > 0 and _sure(change)) for change in changes]
            notes.append(f"{name} is higher (p < {SURE}) without: {names(worse)}")
    if effects.whole_bleu is not None:
        worse = [bool(change.value and change.value < 0 and _sure(change)) for change in effects.bleu]
        notes.append(f"BLEU is lower (p < {SURE}) without: {names(worse)}")
    return notes


def _sure(change: Change) -> bool:
    return change.p is not None and change.p < SURE


def _parts(study: Study) -> list[Part]:
    return list(dict.fromkeys(head.part for head in study.heads))


def _figures(ablation: Ablation, study: Study, effects: Effects) -> dict[str, Callable[[], Figure]]:
    panels = {"change of loss, nats per piece": [change.value for change in effects.loss]}
    if study.whole.counts is not None:
        panels["change of AER, points"] = [change.value for change in effects.aer]
        panels["change of AER read anew"] = [change.value for change in effects.rechosen]
    if effects.whole_bleu is not None:
        panels["change of BLEU, points"] = [change.value for change in effects.bleu]
    panels["importance I, nats per piece"] = list(study.importance)

    def heads() -> Figure:
        from align.analysis.plots import head_maps

        rows = list(dict.fromkeys(f"{head.part} {head.layer}" for head in study.heads))
        return head_maps({name: _grid(study.heads, values) for name, values in panels.items()}, rows)

    def pruning(label: str, start: float, value: Callable[[Measured], float | None]) -> Callable[[], Figure]:
        def draw() -> Figure:
            from align.analysis.plots import curves

            lines = {
                name: np.array([[0, start], *([n, value(measured)] for n, (_, measured) in enumerate(curve, 1))])
                for name, curve in study.curves.items()
            }
            return curves(lines, "heads pruned", label, "")

        return draw

    def loss(measurement: Measured) -> float:
        return float(measurement.losses.sum() / ablation.pieces.sum())

    figures = {"heads": heads, "loss": pruning("loss, nats per piece", loss(study.whole), loss)}
    if (whole := _aer(study.whole)) is not None:
        figures["aer"] = pruning("AER, %", whole, _aer)
    return figures


def _grid(heads: Sequence[AttentionHead], values: Sequence[float | None]) -> Doubles:
    """Arrange values of heads by layer, NaN where a layer has fewer heads `[layers, H]`."""
    rows = list(dict.fromkeys(head[:2] for head in heads))
    grid = np.full((len(rows), max(head.head for head in heads)), np.nan)
    for head, value in zip(heads, values, strict=True):
        grid[rows.index(head[:2]), head.head - 1] = np.nan if value is None else value
    return grid
