"""Measures key words by attention (after M. Štefánik): which heads attend to them, and how well attention finds them.

Letters: N words of all documents, C cells (heads of all layers), D documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from align.analysis.data.keyphrases import SPLITS, TRAIN, Corpus, Doubles
from align.analysis.keywords.heads import MEASURES, HeadSums, Received, read_corpus, sum_heads
from align.analysis.keywords.scores import Judged, Plan, draws, ends, judge_marks, judge_scores
from align.analysis.maps import Inspected
from align.core.errors import DataError
from align.evaluation.tables import Column, Interval, Value, percent
from align.view.findings import Finding, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from align.analysis.keywords.ablation import Tuned

SYMBOLS = {"weights": "a", "norms": "‖af‖"}
"""Symbols of the measures in tables of heads."""


def regress(features: Doubles, corpus: Corpus) -> Doubles:
    """Score words as key words with a logistic regression trained on the training part `[N]`.

    Args:
        features: features of words `[N, F]`.
        corpus: corpus of N words.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train = corpus.within(TRAIN)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    scores: Doubles = model.fit(features[train], corpus.gold[train]).decision_function(features)
    return scores


def ranking(sums: HeadSums, measure: int = 0) -> NDArray[np.int64]:
    """Return cells from the lowest cross-entropy, the best, to the highest `[C]`.

    Args:
        sums: measures of some documents.
        measure: index in MEASURES.
    """
    return np.argsort(sums.entropy[measure].sum(0), kind="stable")


def judge(corpus: Corpus, received: Received, sums: HeadSums, plan: Plan) -> Iterator[tuple[str, Judged]]:
    """Yield each method of finding key words, by name, with its scores on the test part."""

    def score(scores: Doubles) -> Judged:
        return judge_scores(corpus, scores, plan.samples, plan.seed)

    by_measure = list(zip(MEASURES, received.values, strict=True))
    simple = np.stack((corpus.position_scores(), corpus.tf_idf_scores()), 1)  # [N, 2]
    yield "gold words", judge_marks(corpus, corpus.gold, plan.samples, plan.seed)
    yield "every word", judge_marks(corpus, np.ones_like(corpus.gold), plan.samples, plan.seed)
    yield "first words", score(simple[:, 0])
    yield "tf-idf", score(simple[:, 1])
    for n, (name, values) in enumerate(by_measure):
        yield f"best head, {name}", score(values[:, ranking(sums, n)[0]])
    for name, values in by_measure:
        yield f"all heads, {name}", score(regress(values, corpus))
    yield "first words and tf-idf", score(regress(simple, corpus))
    for name, values in by_measure:
        yield f"with heads, {name}", score(regress(np.hstack((simple, values)), corpus))


def keywords(model: Inspected, corpus: Corpus, plan: Plan) -> Finding:
    """Measure which heads attend to key words, how well attention finds them, and which heads fine-tuning needs.

    Args:
        model: a model with an encoder.
        corpus: texts with keyphrases.
        plan: settings of the measurement.

    Raises:
        DataError: the model has no encoder, a part of the data has no key words, or no training sentence has both key
            words and other words that the model can read.
    """
    if "encoder" not in model.shape:
        raise DataError(f"{model.name} has no attention of the encoder")
    attention = read_corpus(model, corpus)
    sums = sum_heads(corpus, attention, TRAIN)
    if not sums.sentences.sum() or not all((corpus.gold & corpus.within(split)).any() for split in SPLITS):
        message = "a part of the data has no sentence with key words and other words that the model can read"
        raise DataError(message, file=corpus.file)
    judged = dict(judge(corpus, attention, sums, plan))
    shape = model.shape["encoder"]
    tables = {"data": _data_table(corpus, attention), "heads": _head_table(sums, shape[1], plan)}
    figures = {"heads": lambda: _draw_heads(sums, shape)}
    tuned = None
    if plan.epochs:
        from align.analysis.keywords.ablation import ablate

        tuned = ablate(model, corpus, ranking(sums), plan)
        judged["fine-tuned"] = tuned.judged
    tables["found"] = _found_table(judged)
    if tuned:
        tables |= {"tuning": _tuning_table(tuned), "ablation": _ablation_table(tuned)}
        figures["ablation"] = lambda: _draw_ablation(tuned)
    return Finding(tables, figures)


def _data_table(corpus: Corpus, attention: Received) -> Table:
    columns = [Column(key, key) for key in ("part", "documents", "sentences", "words", "unread")]
    columns += [Column("key", "key words, %", 1), Column("phrases", "phrases"), Column("found", "found, %", 1)]
    rows: list[dict[str, Value]] = []
    for split in SPLITS:
        numbers, within = corpus.numbers(split), corpus.within(split)
        phrases = sum(len(corpus.documents[n].phrases) for n in numbers)
        row: dict[str, Value] = {"part": split, "documents": len(numbers), "phrases": phrases}
        row |= {"sentences": sum(len(corpus.documents[n].sentences) for n in numbers), "words": int(within.sum())}
        row |= {"unread": int((within & ~attention.read).sum()), "key": percent(corpus.gold[within].mean())}
        rows.append({**row, "found": percent(sum(corpus.found[n] for n in numbers) / max(phrases, 1))})
    return Table(columns, rows, ["found: phrases whose words are adjacent in a sentence, in any case"])


def _means(sums: HeadSums) -> tuple[Doubles, Doubles, float]:
    """Return relative attention and cross-entropy `[2, C]`, and the cross-entropy of even attention."""
    count = sums.sentences.sum()
    return sums.relative.sum(1) / count, sums.entropy.sum(1) / count, float(sums.even.sum() / count)


def _head_table(sums: HeadSums, heads: int, plan: Plan) -> Table:
    relative, entropy, even = _means(sums)
    drawn = draws(len(sums.sentences), plan.samples, plan.seed)  # [R, D]
    count = (drawn @ sums.sentences)[:, None]  # [R, 1]
    samples = np.einsum("rd,ndc->nrc", drawn, sums.relative) / np.where(count, count, np.nan)  # [2, R, C]
    columns = [Column("layer", "layer"), Column("head", "head")]
    for name in MEASURES:
        columns.append(Column(f"relative_{name}", f"relative {SYMBOLS[name]}", 3))
        columns.append(Column(f"interval_{name}", "95 %", 3, wide=True))
    columns += [Column(f"entropy_{name}", f"entropy {SYMBOLS[name]}", 3) for name in MEASURES]
    columns.append(Column("rank", "rank"))
    ranks = {cell: rank for rank, cell in enumerate(ranking(sums).tolist(), 1)}
    rows: list[dict[str, Value]] = []
    for cell in range(relative.shape[1]):
        row: dict[str, Value] = {"layer": cell // heads + 1, "head": cell % heads + 1, "rank": ranks[cell]}
        for n, name in enumerate(MEASURES):
            row[f"relative_{name}"], row[f"entropy_{name}"] = float(relative[n, cell]), float(entropy[n, cell])
            row[f"interval_{name}"] = ends(samples[n, :, cell])
        rows.append(row)
    notes = ["relative: attention that key words receive less what others do, in even shares; of the training part"]
    return Table(
        columns,
        rows,
        [*notes, f"entropy: cross-entropy, by which a ranks heads; {even:.3f} where all words get the same"],
    )


def _found_table(judged: Mapping[str, Judged]) -> Table:
    columns = [Column("by", "by"), Column("precision", "P", 1), Column("recall", "R", 1), Column("f1", "F1", 1)]
    columns += [Column("interval", "95 %", 1), Column("phrase_f1", "phrases", 1)]
    columns.append(Column("phrase_interval", "95 %", 1))
    rows: list[dict[str, Value]] = []
    for name, (words, phrases) in judged.items():
        row: dict[str, Value] = {"by": name, "precision": percent(words.precision), "recall": percent(words.recall)}
        row |= {"f1": percent(words.f1), "interval": _percents(words.interval)}
        rows.append({**row, "phrase_f1": percent(phrases.f1), "phrase_interval": _percents(phrases.interval)})
    notes = ["words of the test part, from a score on that is chosen on the development part"]
    return Table(columns, rows, [*notes, "phrases: F1 of runs of marked words against all phrases that the data lists"])


def _percents(interval: Interval | None) -> Interval | None:
    return Interval(100 * interval.low, 100 * interval.high) if interval else None


def _tuning_table(tuned: Tuned) -> Table:
    columns = [Column("epoch", "epoch"), Column("loss", "loss", 4), Column("f1", "F1 on dev", 1)]
    rows = [{"epoch": n, "loss": loss, "f1": percent(f1)} for n, (loss, f1) in enumerate(tuned.epochs, 1)]
    return Table(columns, rows)


def _ablation_table(tuned: Tuned) -> Table:
    columns = [Column("removed", "heads masked"), Column("worst", "worst first", 1), Column("best", "best first", 1)]
    columns += [Column("random", "at random", 1), Column("range", "lowest and highest", 1)]
    rows: list[dict[str, Value]] = []
    for n, removed in enumerate(tuned.removed):
        row: dict[str, Value] = {"removed": removed, "worst": percent(tuned.worst[n]), "best": percent(tuned.best[n])}
        at_random = tuned.random[:, n]
        row["random"] = percent(at_random.mean()) if len(at_random) else None
        row["range"] = Interval(100 * at_random.min(), 100 * at_random.max()) if len(at_random) else None
        rows.append(row)
    return Table(
        columns, rows, ["F1 of key words, test part, of the fine-tuned model; order by rank in the model as it was"]
    )


def _draw_heads(sums: HeadSums, shape: tuple[int, int]) -> Figure:
    from align.analysis.plots import head_maps

    relative, *_ = _means(sums)  # [2, C]
    panels = {f"relative {SYMBOLS[name]}": relative[n].reshape(shape) for n, name in enumerate(MEASURES)}
    return head_maps(panels, [f"layer {n}" for n in range(1, shape[0] + 1)])


def _draw_ablation(tuned: Tuned) -> Figure:
    from align.analysis.plots import curves

    def line(values: Sequence[float] | Doubles) -> Doubles:
        return np.stack((np.array(tuned.removed, float), 100 * np.asarray(values)), 1)

    lines = {"worst first": line(tuned.worst), "best first": line(tuned.best)}
    if len(tuned.random):
        lines["at random"] = line(tuned.random.mean(0))
    return curves(lines, "heads masked", "F1 of key words, %", "fine-tuned")
