"""Measures syntax in the encoder's attention: single heads, all heads together, pairs of words (Clark; Coenen 2019)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from align.analysis.data.treebank import ROOT, Tree
from align.analysis.maps import MEASURES, Layered, Numbers, name_candidates
from align.analysis.models.vectors import own_vectors, vectors_of_file
from align.analysis.resampling import Counts, Draws, Share, choose, halve
from align.analysis.syntax import attachment, word_pairs
from align.analysis.syntax.attachment import Sentence, attach, both_directions
from align.analysis.syntax.dependencies import DIRECTIONS, OFFSETS, Found, Parsed, attend, find
from align.analysis.syntax.word_pairs import NONE, WordPair
from align.core.errors import DataError, plural
from align.evaluation.tables import Column, Value, interval, percent
from align.view.findings import Finding, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUNCTUATION = "punct"
"""The relation that attachment scores exclude, as is usual in parsing."""

FEWEST_OF_A_CLASS = 20
"""Minimum number of pairs of a relation that is a class."""

FARTHEST = 10
"""Maximum distance in words of the distance baselines; larger distances are clipped."""


@dataclass(frozen=True)
class Request:
    """Settings of the measurement.

    Attributes:
        fewest: minimum number of words of a relation that has its own row.
        seed: seed of halves, folds and draws.
        vectors: file of embeddings; None for the model's own.
        probes: whether to train probes, which takes most of the time.
        file: name of the treebank in errors.
    """

    fewest: int = 20
    seed: int = 1
    vectors: str | None = None
    probes: bool = True
    file: str = ""


def syntax(model: Layered, trees: Sequence[Tree], request: Request) -> Finding:
    """Measure how well the attention of a model's encoder predicts the dependencies of a treebank.

    Raises:
        DataError: no sentence has a dependency and fits the model, or too few for probes; the model has no encoder.
    """
    if "encoder" not in model.shape:
        raise DataError(f"{model.name} has no attention of the encoder: there is {', '.join(model.shape)}")
    parsed = list(attend(model, trees))
    counts = find(parsed, request.fewest) if parsed else None
    if not counts or not counts.total.any():
        raise DataError("no sentence with a dependency that the model can read", file=request.file)
    if request.probes and len(parsed) < attachment.FOLDS:
        hint = "‹no_probes=True› does without"
        message = f"probes need {attachment.FOLDS} sentences: the model can read {len(parsed)}"
        raise DataError(message, file=request.file, hint=hint)
    draws = Draws(len(parsed), request.seed)
    second = halve(len(parsed), request.seed)
    shape = model.shape["encoder"]
    rows = [_relation_row(counts, r, second, draws, shape) for r in range(len(counts.relations))]
    left_out = len(trees) - len(parsed)
    note = plural(len(parsed), "sentence") + (f"; {left_out:,} left out, too long for the model" if left_out else "")
    tables = {"relations": Table(_relation_columns(), rows, [*_RELATION_NOTES, note])}
    if request.probes:
        tables["attachment"] = _attachment_table(model, parsed, draws, request)
        tables["pairs"] = _pair_table(parsed, draws, request.seed)
    return Finding(tables, {"relations": _figure(rows)})


_RELATION_NOTES = (
    "best: layer-head, and who attends (d: the dependent, h: its head); two where halves chose differently",
    "each half is scored by what is best on the other; intervals: 95 %, bootstrap over sentences",
)


def _relation_columns() -> list[Column]:
    columns = [Column("relation", "relation"), Column("words", "words")]
    for name, head in MEASURES.items():
        columns += [Column(f"{name}_head", f"best by {head}"), Column(name, "%", 1)]
        columns.append(Column(f"{name}_interval", f"interval by {head}", 1, wide=True))
    columns += [Column("offset_at", "offset"), Column("offset", "%", 1)]
    columns.append(Column("offset_interval", "interval of offset", 1, wide=True))
    for name, head in MEASURES.items():
        columns.append(Column(f"{name}_gain", f"gain over offset by {head}", 1, wide=True))
        columns.append(Column(f"{name}_gain_interval", "its interval", 1, wide=True))
    return columns


def _relation_row(
    counts: Found, r: int, second: NDArray[np.bool_], draws: Draws, shape: tuple[int, int]
) -> dict[str, Value]:
    total = counts.total[:, r]
    chosen = {kind: choose(counts.right[kind][:, r], second) for kind in (*MEASURES, "offset")}
    row: dict[str, Value] = {"relation": counts.relations[r], "words": int(total.sum())}
    row["offset_at"] = " ".join(dict.fromkeys(f"{OFFSETS[n]:+d}" for n in chosen["offset"].candidates))
    for kind, choice in chosen.items():
        row |= _shown(kind, draws.share(choice.right, total))
        if kind in MEASURES:
            row[f"{kind}_head"] = name_candidates(choice.candidates, shape, DIRECTIONS)
            row |= _shown(f"{kind}_gain", draws.share(choice.right - chosen["offset"].right, total))
    return row


def _shown(name: str, share: Share) -> dict[str, Value]:
    return {name: percent(share.value), f"{name}_interval": interval(percent(share.low), percent(share.high))}


def _attachment_table(model: Layered, parsed: Sequence[Parsed], draws: Draws, request: Request) -> Table:
    """Tabulate unlabelled attachment scores of probes and baselines."""
    heads = [_to_attach(sentence.tree) for sentence in parsed]
    words, note = _embeddings(model, parsed, request)
    distances = [attachment.distances(len(gold)) for gold in heads]

    def attention(name: str, words: Sequence[Numbers] | None = None) -> list[Counts]:
        features = [both_directions(sentence.attention[name]) for sentence in parsed]
        return _probe(features, heads, words, request.seed)

    guesses: dict[str, Callable[[], list[Counts]]] = {
        "the word before": lambda: [np.arange(len(gold)) - 1 for gold in heads],
        "the word behind": lambda: [np.arange(len(gold)) + 1 for gold in heads],
        "distance": lambda: _probe(distances, heads, None, request.seed),
        "distance + embeddings": lambda: _probe(distances, heads, words, request.seed),
        "attention, a": lambda: attention("weight"),
        "attention, ‖af‖": lambda: attention("norm"),
        "attention, a + embeddings": lambda: attention("weight", words),
        "attention, ‖af‖ + embeddings": lambda: attention("norm", words),
    }
    total = np.array([(gold != ROOT).sum() for gold in heads])
    rows = []
    for name, guess in guesses.items():
        pairs = zip(guess(), heads, strict=True)
        right = np.array([((predicted == gold) & (gold != ROOT)).sum() for predicted, gold in pairs])
        rows.append({"method": name, **_shown("uas", draws.share(right, total))})
    columns = [Column("method", "heads by"), Column("uas", "UAS, %", 1), Column("uas_interval", "interval", 1)]
    notes = [f"{total.sum():,} words, without roots and punctuation; {attachment.FOLDS}-fold cross-validation", note]
    return Table(columns, rows, notes)


def _to_attach(tree: Tree) -> Counts:
    """Return the head of each word, ROOT for words that are not scored `[n]`."""
    kinds = [relation.partition(":")[0] for relation in tree.relations]
    return np.array([ROOT if kind == PUNCTUATION else head for head, kind in zip(tree.heads, kinds, strict=True)])


def _embeddings(model: Layered, parsed: Sequence[Parsed], request: Request) -> tuple[list[Numbers], str]:
    """Return each word's embedding, scaled to a mean square of 1, and a note about their origin."""
    if request.vectors is None:
        words, origin = own_vectors(model, (sentence.tree.pair() for sentence in parsed))
        note = f"embeddings: {origin}"
    else:
        words, known = vectors_of_file(request.vectors, [sentence.tree.words for sentence in parsed])
        note = f"embeddings: of a file, which has {100 * known:.1f} % of the words"
    scale = float(np.sqrt(np.mean(np.concatenate(words, dtype=np.float64) ** 2))) or 1.0
    return [vectors / np.float32(scale) for vectors in words], note


def _probe(
    features: Sequence[Numbers], heads: Sequence[Counts], vectors: Sequence[Numbers] | None, seed: int
) -> list[Counts]:
    """Predict heads with a cross-validated probe."""
    embeddings: Sequence[Numbers | None] = vectors or [None] * len(heads)
    sentences = [Sentence(*parts) for parts in zip(features, heads, embeddings, strict=True)]
    return attach(sentences, seed)


def _pair_table(parsed: Sequence[Parsed], draws: Draws, seed: int) -> Table:
    """Tabulate how well pairs of words are classified: by existence of a dependency, and by relation."""
    drawn = word_pairs.draw_pairs([sentence.tree for sentence in parsed], seed)
    counts = Counter(pair.relation for pair in drawn)
    classes = [pair for pair in drawn if pair.relation != NONE and counts[pair.relation] >= FEWEST_OF_A_CLASS]
    tasks = {
        "a dependency or none": (drawn, [str(pair.relation != NONE) for pair in drawn]),
        "which relation": (classes, [pair.relation for pair in classes]),
    }
    rows = [
        row
        for task, (pairs, labels) in tasks.items()
        if len(set(labels)) > 1
        for row in _task_rows(task, pairs, labels, parsed, draws, seed)
    ]
    columns = [Column("task", "task"), Column("features", "by"), Column("classes", "classes")]
    columns += [Column("pairs", "pairs"), Column("accuracy", "right, %", 1), Column("accuracy_interval", "interval", 1)]
    notes = [f"pairs of words in the order of the text; relations of {FEWEST_OF_A_CLASS} pairs or more"]
    return Table(columns, rows, notes)


def _task_rows(
    task: str, pairs: Sequence[WordPair], labels: Sequence[str], parsed: Sequence[Parsed], draws: Draws, seed: int
) -> list[dict[str, Value]]:
    sentences = np.array([pair.sentence for pair in pairs])
    right = {
        "most frequent class": word_pairs.most_frequent(labels, sentences, seed),
        "distance": word_pairs.classify(word_pairs.distance_vectors(pairs, FARTHEST), labels, sentences, seed),
    }
    for name, symbol in MEASURES.items():
        features = word_pairs.vectors([sentence.attention[name] for sentence in parsed], pairs)
        right[f"attention, {symbol}"] = word_pairs.classify(features, labels, sentences, seed)
    total = np.bincount(sentences, minlength=len(parsed))
    rows: list[dict[str, Value]] = []
    for name, hits in right.items():
        share = draws.share(np.bincount(sentences, hits, len(parsed)).astype(np.int64), total)
        row: dict[str, Value] = {"task": task, "features": name, "classes": len(set(labels)), "pairs": len(pairs)}
        rows.append({**row, **_shown("accuracy", share)})
    return rows


def _figure(rows: Sequence[Mapping[str, Value]]) -> Callable[[], Figure]:
    def draw() -> Figure:
        from align.analysis.plots import bars

        series = {"best head, a": "weight", "best head, ‖af‖": "norm", "best offset": "offset"}
        values = {name: [float(str(row[key])) for row in rows] for name, key in series.items()}
        ends = {name: [row[f"{key}_interval"] for row in rows] for name, key in series.items()}
        return bars([str(row["relation"]) for row in rows], values, ends, "heads of words found, %", "syntax")

    return draw
