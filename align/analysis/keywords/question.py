"""Measures key words by attention (after M. Štefánik): which heads attend to them, and how well attention finds them.

Letters: L layers, H heads, W words of a sentence, N words of all documents, C cells (heads of all layers), D documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.analysis.data.keyphrases import SPLITS, TRAIN, Corpus, Doubles, Marks
from align.analysis.keywords.scores import Judged, Plan, Score, judge_marks, judge_scores
from align.analysis.maps import Inspected, Maps, between_words, has_piece
from align.analysis.plots import curves, head_maps
from align.analysis.resampling import draw_times, middle
from align.core.errors import DataError
from align.core.types import Pair
from align.evaluation.tables import Interval
from align.view.findings import Finding, Table, make_table

MEASURES = {"weights": "a", "norms": "‖af‖"}
"""Measures and their symbols in tables of heads."""

TINY = 1e-12
"""Lower bound of shares of attention before their logarithm is taken."""


class Received(NamedTuple):
    """Attention that each word receives within its sentence, as a multiple of an even share."""

    values: Doubles  # by weights and by norms `[2, N, C]`; 0 for words that the model did not read
    sentences: list[slice]  # positions of the words of each sentence
    documents: list[int]  # the document of each sentence
    read: Marks  # words that the model has read `[N]`


def received(maps: Maps) -> tuple[Doubles, Marks]:
    """Return the attention that each word of a sentence receives from all words, as a multiple of an even share.

    Norms are divided by their sum over each row, so that both measures treat special pieces in the same way.

    Returns:
        Attention `[2, W, C]`, and which words have pieces `[W]`.
    """
    norms = maps.norms / np.maximum(maps.norms.sum(-1, keepdims=True), TINY)  # [L, H, T, S]
    there = has_piece(maps.columns)
    measures = []
    for values in (maps.weights, norms):
        words = between_words(values, maps.rows, maps.columns)  # [L, H, W, W]
        mean = words[:, :, there].mean(2)  # [L, H, W]
        measures.append(mean.reshape(-1, len(there)).T * there.sum())
    return np.array(measures, float), there


def read_corpus(model: Inspected, corpus: Corpus) -> Received:
    """Read all documents, one sentence at a time, and return the attention that their words receive."""
    sentences = [(n, words) for n, document in enumerate(corpus.documents) for words in document.sentences]
    ends = np.cumsum([len(words) for _, words in sentences]).tolist()
    places = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    layers, heads = model.shape["encoder"]
    values = np.zeros((len(MEASURES), len(corpus.gold), layers * heads))
    read = np.zeros(len(corpus.gold), bool)
    pairs = (Pair(words, (), n) for n, (_, words) in enumerate(sentences, 1))
    for place, reading in zip(places, model.read(pairs, ["encoder"]), strict=True):
        if "encoder" in reading.maps:
            values[:, place], read[place] = received(reading.maps["encoder"])
    return Received(values, places, [n for n, _ in sentences], read)


def relative_attention(values: Doubles, key: Marks) -> Doubles:
    """Return the mean attention of key words minus that of other words `[C]`.

    Args:
        values: attention that the words of a sentence receive `[W, C]`.
        key: key words `[W]`; at least one word is a key word, and at least one is not.
    """
    difference: Doubles = values[key].mean(0) - values[~key].mean(0)
    return difference


def cross_entropy(values: Doubles, key: Marks) -> Doubles:
    """Return the cross-entropy of received attention with an even distribution over the key words, in nats `[C]`.

    Args:
        values: attention that the words of a sentence receive `[W, C]`.
        key: key words `[W]`; at least one.
    """
    shares = values / np.maximum(values.sum(0), TINY)
    entropy: Doubles = -np.log(np.maximum(shares[key], TINY)).mean(0)
    return entropy


class HeadSums(NamedTuple):
    """Sums over the sentences of each of D documents that have both key words and other words."""

    relative: Doubles  # sums of `relative_attention` `[2, D, C]`
    entropy: Doubles  # sums of `cross_entropy` `[2, D, C]`
    even: Doubles  # sums of the cross-entropy of attention spread evenly over all words `[D]`
    sentences: Doubles  # number of these sentences `[D]`


def sum_heads(corpus: Corpus, received: Received, split: str) -> HeadSums:
    """Sum both measures over a part of the data."""
    numbers = {n: row for row, n in enumerate(corpus.numbers(split))}
    cells = received.values.shape[2]
    relative, entropy = np.zeros((2, len(MEASURES), len(numbers), cells))
    even, count = np.zeros((2, len(numbers)))
    for place, document in zip(received.sentences, received.documents, strict=True):
        if document not in numbers:
            continue
        row, there = numbers[document], received.read[place]
        key = corpus.gold[place][there]
        if not key.any() or key.all():
            continue
        for n, values in enumerate(received.values[:, place][:, there]):
            relative[n, row] += relative_attention(values, key)
            entropy[n, row] += cross_entropy(values, key)
        even[row] += np.log(len(key))
        count[row] += 1
    return HeadSums(relative, entropy, even, count)


def regress(features: Doubles, corpus: Corpus) -> Doubles:
    """Score words as key words with a logistic regression of features `[N, F]`, trained on the training part `[N]`."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train = corpus.within(TRAIN)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    scores: Doubles = model.fit(features[train], corpus.gold[train]).decision_function(features)
    return scores


def ranking(sums: HeadSums, measure: int = 0) -> NDArray[np.int64]:
    """Return cells from the lowest cross-entropy by the `measure` of this number, the best, to the highest `[C]`."""
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
    found = dict(judge(corpus, attention, sums, plan))
    shape = model.shape["encoder"]
    count = sums.sentences.sum()
    relative = sums.relative.sum(1) / count  # [2, C]
    panels = {f"relative {symbol}": relative[n].reshape(shape) for n, symbol in enumerate(MEASURES.values())}
    tables = {"data": _data_table(corpus, attention), "heads": _head_table(sums, shape[1], plan)}
    figures = {"heads": head_maps(panels, [f"layer {n}" for n in range(1, shape[0] + 1)])}
    more: dict[str, Table] = {}
    if plan.epochs:
        from align.analysis.keywords.tuning import ablate

        tuned = ablate(model, corpus, ranking(sums), plan)
        found["fine-tuned"] = tuned.judged
        epochs = [[n, loss, 100 * f1] for n, (loss, f1) in enumerate(tuned.epochs, 1)]
        more["tuning"] = make_table("epoch | loss .4 | f1: F1 on dev .1", epochs)
        orders = {"worst first": 100 * np.array(tuned.worst), "best first": 100 * np.array(tuned.best)}
        rows = []
        for n, removed in enumerate(tuned.removed):
            at_random = 100 * tuned.random[:, n]
            drawn = at_random.mean(), Interval(at_random.min(), at_random.max())
            ends = [values[n] for values in orders.values()]
            rows.append([removed, *ends, *(drawn if len(at_random) else (None, None))])
        more["ablation"] = make_table(
            "removed: heads masked | worst: worst first .1 | best: best first .1 | random: at random .1 | "
            "range: lowest and highest .1",
            rows,
            "F1 of key words, test part, of the fine-tuned model; order by rank in the model as it was",
        )
        if len(tuned.random):
            orders["at random"] = 100 * tuned.random.mean(0)
        lines = {name: np.stack((np.array(tuned.removed, float), values), 1) for name, values in orders.items()}
        figures["ablation"] = curves(lines, "heads masked", "F1 of key words, %", "fine-tuned")
    tables["found"] = make_table(
        "by | precision: P .1 | recall: R .1 | f1: F1 .1 | interval: 95 % .1 | phrase_f1: phrases .1 | "
        "phrase_interval: 95 % .1",
        (
            [name, 100 * words.precision, 100 * words.recall, *_percents(words), *_percents(phrases)]
            for name, (words, phrases) in found.items()
        ),
        "words of the test part, from a score on that is chosen on the development part",
        "phrases: F1 of runs of marked words against all phrases that the data lists",
    )
    return Finding(tables | more, figures)


def _percents(score: Score) -> tuple[float, Interval | None]:
    """Return F1 and its interval, in percent."""
    ends = score.interval
    return 100 * score.f1, ends and Interval(100 * ends.low, 100 * ends.high)


def _data_table(corpus: Corpus, attention: Received) -> Table:
    rows = []
    for split in SPLITS:
        numbers, within = corpus.numbers(split), corpus.within(split)
        phrases = sum(len(corpus.documents[n].phrases) for n in numbers)
        sentences = sum(len(corpus.documents[n].sentences) for n in numbers)
        sizes = [len(numbers), sentences, int(within.sum()), int((within & ~attention.read).sum())]
        found = sum(corpus.found[n] for n in numbers) / max(phrases, 1)
        rows.append([split, *sizes, 100 * corpus.gold[within].mean(), phrases, 100 * found])
    return make_table(
        "part | documents | sentences | words | unread | key: key words, % .1 | phrases | found: found, % .1",
        rows,
        "found: phrases whose words are adjacent in a sentence, in any case",
    )


def _head_table(sums: HeadSums, heads: int, plan: Plan) -> Table:
    count = sums.sentences.sum()
    relative, entropy = sums.relative.sum(1) / count, sums.entropy.sum(1) / count  # [2, C]
    drawn = draw_times(len(sums.sentences), plan.samples, plan.seed).astype(float)  # [R, D]
    counts = (drawn @ sums.sentences)[:, None]  # [R, 1]
    samples = np.einsum("rd,ndc->nrc", drawn, sums.relative) / np.where(counts, counts, np.nan)  # [2, R, C]
    ranks = {cell: rank for rank, cell in enumerate(ranking(sums).tolist(), 1)}
    rows = []
    for cell in range(relative.shape[1]):
        measures = [value for n in (0, 1) for value in (relative[n, cell], middle(samples[n, :, cell]))]
        rows.append([cell // heads + 1, cell % heads + 1, *measures, *entropy[:, cell], ranks[cell]])
    relative_columns = " | ".join(
        f"relative_{name}: relative {symbol} .3 | interval_{name}: 95 % .3 +" for name, symbol in MEASURES.items()
    )
    entropy_columns = " | ".join(f"entropy_{name}: entropy {symbol} .3" for name, symbol in MEASURES.items())
    even = sums.even.sum() / count
    return make_table(
        f"layer | head | {relative_columns} | {entropy_columns} | rank",
        rows,
        "relative: attention that key words receive less what others do, in even shares; of the training part",
        f"entropy: cross-entropy, by which a ranks heads; {even:.3f} where all words get the same",
    )
