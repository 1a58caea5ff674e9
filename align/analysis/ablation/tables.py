"""Changes of loss, BLEU and AER when heads are masked: their statistics, and tables and figures of a study."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from align.analysis.ablation.question import Ablation, Doubles, Measured, Study, by_layer
from align.analysis.plots import curves, head_maps
from align.evaluation.metrics import Counts, aer, compare
from align.evaluation.tables import interval
from align.view.findings import Finding, Table, make_table

SURE = 0.05
"""p-value below which a change is significant."""


class Change(NamedTuple):
    """A difference from the whole model, with its confidence interval or its p-value."""

    value: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None


def loss_change(masked: Doubles, whole: Doubles, pieces: NDArray[np.int64], samples: int, seed: int) -> Change:
    """Return the difference of losses in nats per piece, with its 95 % percentile bootstrap interval over sentences.

    Args:
        masked: loss of each sentence without the masked heads `[N]`; `whole`: with all heads.
        pieces: number of pieces of each sentence `[N]`.
    """
    changes = masked - whole
    value = float(changes.sum() / pieces.sum())
    if not samples or len(pieces) < 2:
        return Change(value)
    drawn = np.random.default_rng(seed).integers(len(pieces), size=(samples, len(pieces)))
    low, high = np.quantile(changes[drawn].sum(1) / pieces[drawn].sum(1), (0.025, 0.975))
    return Change(value, float(low), float(high))


def aer_change(masked: Counts | None, whole: Counts | None, samples: int, seed: int) -> Change:
    """Return the difference of AER in points, with the p-value of a paired bootstrap; no value without gold."""
    if masked is None or whole is None:
        return Change(None)
    value, p = compare(masked, whole, "bootstrap", "aer", samples, seed)
    return Change(None if value is None else 100 * value, p=p)


def bleu_scores(
    whole: Sequence[str], variants: Sequence[Sequence[str]], references: Sequence[str], samples: int
) -> tuple[float, list[Change], str]:
    """Return a model's BLEU, the difference of each other model from it, and sacrebleu's signature; case is ignored.

    Args:
        variants: translations by each other model.
        samples: samples of sacrebleu's paired bootstrap (Koehn 2004); 0 for no p-values.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    metric = BLEU(lowercase=True, force=True, references=[list(references)])
    score = float(metric.corpus_score(whole, None).score)
    if not samples:
        changes = [Change(float(metric.corpus_score(translations, None).score) - score) for translations in variants]
        return score, changes, str(metric.get_signature())
    systems: list[Any] = [("whole", whole), *((f"without {n}", texts) for n, texts in enumerate(variants))]
    test = PairedTest(systems, {"BLEU": metric}, references=None, test_type="bs", n_samples=samples)
    signatures, scores = test()
    results: list[Any] = scores["BLEU"][1:]  # the first is the whole model's
    changes = [Change(float(result.score) - score, p=result.p_value) for result in results]
    return score, changes, str(signatures["BLEU"])


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> tuple[float | None, float | None]:
    """Return Spearman's rank correlation and its p-value; None if a side is constant or has under three values."""
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None, None
    result = spearmanr(a, b)
    return float(result.statistic), float(result.pvalue)


Changes = dict[str, list[Change]]
"""What masking each of a study's heads changes: loss in nats per piece, BLEU and AER in points.

AER is read at the whole model's layer and head, and "anew" at those chosen for the masked model; "alone" and
"alone_aer" are changes with all other heads of the layer masked.
"""


def report(ablation: Ablation, study: Study, samples: int, seed: int) -> Finding:
    """Return the tables and figures of a study."""
    whole, pieces = study.whole, ablation.pieces
    score, bleu, signature = None, [Change(None) for _ in study.heads], ""
    if ablation.references:
        translations = [measured.translations for measured in study.masked]
        score, bleu, signature = bleu_scores(whole.translations, translations, ablation.references, samples)

    def losses(measurements: Sequence[Measured]) -> list[Change]:
        return [loss_change(measured.losses, whole.losses, pieces, samples, seed) for measured in measurements]

    def rates(counts: Sequence[Counts | None]) -> list[Change]:
        return [aer_change(one, whole.counts, samples, seed) for one in counts]

    changes = {
        "loss": losses(study.masked),
        "bleu": bleu,
        "aer": rates([measured.counts for measured in study.masked]),
        "anew": rates([measured.rechosen for measured in study.masked]),
        "alone": losses(study.alone),
        "alone_aer": rates([measured.counts for measured in study.alone]),
    }
    loss = _loss(ablation, whole)
    place = str(whole.place and whole.place.place)
    notes = ["loss: nats per piece of the target, </s> among them, under teacher forcing"]
    if signature:
        notes.append(f"BLEU of the first {len(ablation.references):,}: {signature}")
    model = make_table(
        "sentences | pieces | loss .3 | perplexity .2 | bleu: BLEU .1 | aer: AER .1 | place: read at +",
        [[len(pieces), int(pieces.sum()), loss, math.exp(loss), score, _aer(whole), place]],
        *notes,
    )
    pruning = []
    for name, curve in study.curves.items():
        for n, (head, measured) in enumerate(curve, 1):
            share, quality = 100 * n / len(study.heads), (_loss(ablation, measured), _aer(measured))
            pruning.append([name, n, share, str(head), *quality])
    tables = {
        "model": model,
        "heads": _head_table(ablation, study, changes),
        "layers": _layer_table(study, changes),
        "pruning": make_table(
            "order | pruned | share: % of heads .0 | head: last pruned | loss .3 | aer: AER .1",
            pruning,
            "by importance: I by the norm of its layer's; by effect: the loss without the head alone",
            "a part's name: its heads alone, by importance; each layer keeps one head",
            wide=True,
        ),
        "agreement": _agreement_table(study, changes, score is not None),
    }
    for name, table in tables.items():  # without columns that have no value
        known = [column for column in table.columns if any(row[column.key] is not None for row in table.rows)]
        tables[name] = table._replace(columns=known)
    return Finding(tables, _figures(ablation, study, changes, score is not None))


def _loss(ablation: Ablation, measured: Measured) -> float:
    return float(measured.losses.sum() / ablation.pieces.sum())


def _aer(measured: Measured) -> float | None:
    return None if measured.counts is None else 100 * float(aer(measured.counts.sum(0)))


def _head_table(ablation: Ablation, study: Study, changes: Changes) -> Table:
    parts = {head.part for head in study.heads}
    shares = by_layer([block for block in ablation.blocks if block.part in parts], study.importance)
    rows = []
    for n, head in enumerate(study.heads):
        loss, place = changes["loss"][n], study.masked[n].place
        others = [value for name in ("bleu", "aer", "anew") for value in (changes[name][n].value, changes[name][n].p)]
        importance = float(study.importance[n]), float(shares[n])
        alone = changes["alone"][n].value, changes["alone_aer"][n].value
        row = [*head, loss.value, interval(loss.low, loss.high), *others, str(place and place.place)]
        rows.append([*row, *importance, *alone])
    notes = ["the head masked alone; I: mean of |dL/dxi| over sentences, nats per piece; p: paired bootstrap"]
    if study.whole.counts is not None:
        notes.append("AER: links read where the whole model is read (a masked head that is read by itself has none);")
        notes.append("anew: AER at the layer and head chosen without the head")
    return make_table(
        "part | layer | head | loss: Δ loss .3 | loss_ci: 95 % CI .3 + | bleu: Δ BLEU .1 | bleu_p: p(BLEU) .3 | "
        "aer: Δ AER .1 | aer_p: p(AER) .3 + | anew .1 | anew_p: p(anew) .3 | place: read at + | importance: I .3 | "
        "share: I by layer .2 + | alone: Δ loss, layer without others .3 + | alone_aer: Δ AER .1 +",
        rows,
        *notes,
    )


def _layer_table(study: Study, changes: Changes) -> Table:
    """Tabulate each layer with only its best head, by loss (tables 2 and 3 of the paper)."""
    rows = []
    for (part, layer), group in groupby(range(len(study.heads)), key=lambda n: study.heads[n][:2]):
        losses = {n: changes["alone"][n].value or 0.0 for n in group}
        best = min(losses, key=lambda n: losses[n])
        loss, rate = changes["alone"][best], changes["alone_aer"][best]
        of_best = study.heads[best].head, loss.value, interval(loss.low, loss.high), rate.value, rate.p
        rows.append([part, layer, *of_best, max(losses.values())])
    return make_table(
        "part | layer | head: kept head | loss: Δ loss .3 | loss_ci: 95 % CI .3 | aer: Δ AER .1 | "
        "aer_p: p .3 | worst .3",
        rows,
        "a layer with one head left: that with which the loss is lowest; worst: Δ loss with another one",
    )


def _agreement_table(study: Study, changes: Changes, translated: bool) -> Table:
    """Compare which heads matter for translation with which matter for alignment."""

    def values(name: str, sign: int = 1) -> list[float]:
        return [sign * (change.value or 0.0) for change in changes[name]]

    def names(changed: Sequence[Change], sign: int = 1) -> str:
        """Name the heads without which something is significantly worse."""
        worse = [bool(c.value and sign * c.value > 0 and c.p is not None and c.p < SURE) for c in changed]
        return ", ".join(str(head) for head, is_worse in zip(study.heads, worse, strict=True) if is_worse) or "none"

    measures = {"loss": values("loss"), "I": list(study.importance)}
    notes = ["over heads, of what masking each changes for the worse, and of I; most: the head with the largest change"]
    if study.whole.counts is not None:
        measures |= {"AER": values("aer"), "AER anew": values("anew")}
        for name, key in (("AER", "aer"), ("AER anew", "anew")):
            notes.append(f"{name} is higher (p < {SURE}) without: {names(changes[key])}")
    if translated:
        measures["BLEU"] = values("bleu", -1)
        notes.append(f"BLEU is lower (p < {SURE}) without: {names(changes['bleu'], -1)}")
    # AER with each measure of translation, and these with each other
    compared = [(name, rate) for rate in ("AER", "AER anew") for name in ("loss", "BLEU", "I")]
    compared += [("loss", "BLEU"), ("I", "loss")]
    rows = []
    parts = list(dict.fromkeys(head.part for head in study.heads))
    for part in (*parts, *(["all"] if len(parts) > 1 else [])):
        chosen = [n for n, head in enumerate(study.heads) if part in (head.part, "all")]
        for pair in compared:
            if measures.keys() >= set(pair):
                columns = [[measures[name][n] for n in chosen] for name in pair]
                strongest = [str(study.heads[chosen[int(np.argmax(column))]]) for column in columns]
                rows.append([part, len(chosen), *pair, *rank_correlation(*columns), *strongest])
    return make_table(
        "part | heads | first: of | second: and | spearman: Spearman .2 | p .3 | first_head: of: most | "
        "second_head: and: most",
        rows,
        *notes,
    )


def _figures(ablation: Ablation, study: Study, changes: Changes, translated: bool) -> dict[str, Callable[[], Any]]:
    panels: dict[str, Sequence[float | None]] = {}
    panels["change of loss, nats per piece"] = [change.value for change in changes["loss"]]
    if study.whole.counts is not None:
        panels["change of AER, points"] = [change.value for change in changes["aer"]]
        panels["change of AER read anew"] = [change.value for change in changes["anew"]]
    if translated:
        panels["change of BLEU, points"] = [change.value for change in changes["bleu"]]
    panels["importance I, nats per piece"] = list(study.importance)
    layers = list(dict.fromkeys(head[:2] for head in study.heads))
    places = tuple(np.array([(layers.index(head[:2]), head.head - 1) for head in study.heads]).T)
    grids = {name: np.full((len(layers), places[1].max() + 1), np.nan) for name in panels}  # NaN: no such head
    for name, values in panels.items():
        grids[name][places] = np.array(values, float)

    def pruning(label: str, value: Callable[[Measured], float | None]) -> Callable[[], Any]:
        lines = {
            name: np.array([value(measured) for measured in (study.whole, *(measured for _, measured in curve))], float)
            for name, curve in study.curves.items()
        }
        points = {name: np.stack((np.arange(len(values)), values), 1) for name, values in lines.items()}
        return curves(points, "heads pruned", label, "")

    figures = {
        "heads": head_maps(grids, [f"{part} {layer}" for part, layer in layers]),
        "loss": pruning("loss, nats per piece", lambda measured: _loss(ablation, measured)),
    }
    if study.whole.counts is not None:
        figures["aer"] = pruning("AER, %", _aer)
    return figures
