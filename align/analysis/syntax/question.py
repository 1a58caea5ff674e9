"""Measures syntax in the encoder's attention: single heads, all heads together, pairs of words (Clark; Coenen 2019).

A single head is a parser that takes the most attended word as the syntactic head (Clark et al. 2019, 4.2).

Letters: C heads of all layers, n words, N sentences, R relations, O offsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.analysis.data.treebank import ROOT, Tree
from align.analysis.maps import (
    MEASURES,
    Inspected,
    Numbers,
    between_words,
    has_piece,
    measured,
    name_candidates,
    need_encoder,
)
from align.analysis.models.vectors import own_vectors, vectors_of_file
from align.analysis.plots import bars
from align.analysis.resampling import Counts, Draws, choose, halve
from align.analysis.syntax.probes import (
    FARTHEST,
    FOLDS,
    NONE,
    Sentence,
    attach,
    both_directions,
    classify,
    distance_vectors,
    distances,
    draw_pairs,
    vectors_of_pairs,
)
from align.core.errors import DataError, plural
from align.view.findings import Finding, Table, make_table

PUNCTUATION = "punct"
"""The relation that attachment scores exclude, as is usual in parsing."""

FEWEST_OF_A_CLASS = 20
"""Minimum number of pairs of a relation that is a class."""

DIRECTIONS = ("d>h", "h>d")
"""Direction of attention: from dependent to head, or from head to dependent."""

OFFSETS = (*range(-5, 0), *range(1, 6))
"""Offsets in words from a word to its head, for the positional baseline."""

ALL = "all"
"""Name of all relations together, which come first; a treebank may have a relation of this name as well."""


class Parsed(NamedTuple):
    """A sentence with its tree and the encoder's attention between its words."""

    tree: Tree
    attention: Mapping[str, Numbers]  # attention from each word to each word, by measure `[C, n, n]`
    there: NDArray[np.bool_]  # words that have a piece, and so can attend and be attended to `[n]`


def attend(model: Inspected, trees: Sequence[Tree]) -> Iterator[Parsed]:
    """Yield the encoder's attention for each sentence that the model can read."""
    for tree, reading in zip(trees, model.read((tree.pair() for tree in trees), ["encoder"]), strict=True):
        if maps := reading.maps.get("encoder"):
            n = len(tree.words)
            attention = {
                name: between_words(values, maps.rows, maps.columns).reshape(-1, n, n)
                for name, values in measured(maps).items()
            }
            yield Parsed(tree, attention, has_piece(maps.rows))


def predict(attention: Numbers, there: NDArray[np.bool_]) -> Counts:
    """Predict the head of each word with each attention head, in both directions; never the word itself.

    Args:
        attention: `[C, n, n]`.
        there: words that have a piece `[n]`.

    Returns:
        `[2C, n]`: for C heads the word that each word attends to most, then the word that attends to it most; -1 for
        words without a piece.
    """
    attention = np.where(np.eye(attention.shape[1], dtype=bool) | ~there | ~there[:, None], -1, attention)
    predicted = np.concatenate((attention.argmax(2), attention.argmax(1)))  # [2C, n]
    return np.where(there, predicted, -1)


class HeadCounts(NamedTuple):
    """Number of words of each relation whose heads are predicted correctly."""

    relations: Sequence[str]  # R names: ALL, then the most frequent first
    total: Counts  # number of words of each relation in each sentence `[N, R]`
    # number of words whose head each candidate predicts, by measure `[N, R, 2C]`, and by "offset" `[N, R, O]`
    right: Mapping[str, Counts]


def find(parsed: Sequence[Parsed], fewest: int) -> HeadCounts:
    """Count the correct predictions of each candidate.

    Args:
        fewest: minimum number of words of a relation that is counted separately; that to the root is not counted.
    """
    edges = ((zip(sentence.tree.heads, sentence.tree.relations, strict=True)) for sentence in parsed)
    counts = Counter(relation for of_sentence in edges for head, relation in of_sentence if head != ROOT)
    by_frequency = sorted(counts, key=lambda name: (-counts[name], name))
    relations = [ALL, *(name for name in by_frequency if counts[name] >= fewest)]
    total = np.zeros((len(parsed), len(relations)), np.int64)
    candidates = {name: 2 * len(values) for name, values in parsed[0].attention.items()} | {"offset": len(OFFSETS)}
    right = {name: np.zeros((*total.shape, count), np.int64) for name, count in candidates.items()}
    for n, sentence in enumerate(parsed):
        heads = np.array(sentence.tree.heads)
        predicted = {name: predict(values, sentence.there) for name, values in sentence.attention.items()}
        predicted["offset"] = np.arange(len(heads)) + np.array(OFFSETS)[:, None]  # may be outside the sentence
        labels = np.array(sentence.tree.relations)
        for r, relation in enumerate(relations):
            counted = (heads != ROOT) & ((labels == relation) | (r == 0))
            total[n, r] = counted.sum()
            for name, guesses in predicted.items():
                right[name][n, r] = (guesses == heads)[:, counted].sum(1)
    return HeadCounts(relations, total, right)


def syntax(
    model: Inspected,
    trees: Sequence[Tree],
    fewest: int = 20,
    seed: int = 1,
    vectors: str | None = None,
    probes: bool = True,
    file: str = "",
) -> Finding:
    """Measure how well the attention of a model's encoder predicts the dependencies of a treebank.

    Args:
        fewest: minimum number of words of a relation that has its own row.
        vectors: file of embeddings; None for the model's own.
        probes: whether to train probes, which takes most of the time.

    Raises:
        DataError: no sentence has a dependency and fits the model, or too few for probes; the model has no encoder.
    """
    shape = need_encoder(model)
    parsed = list(attend(model, trees))
    counts = find(parsed, fewest) if parsed else None
    if not counts or not counts.total.any():
        raise DataError("no sentence with a dependency that the model can read", file=file)
    if probes and len(parsed) < FOLDS:
        hint = "‹no_probes=True› does without"
        message = f"probes need {FOLDS} sentences: the model can read {len(parsed)}"
        raise DataError(message, file=file, hint=hint)
    draws = Draws(len(parsed), seed)
    left_out = len(trees) - len(parsed)
    note = plural(len(parsed), "sentence") + (f"; {left_out:,} left out, too long for the model" if left_out else "")
    tables = {"relations": _relation_table(counts, halve(len(parsed), seed), draws, shape, note)}
    if probes:
        tables["attachment"] = _attachment_table(model, parsed, draws, vectors, seed)
        tables["pairs"] = _pair_table(parsed, draws, seed)
    rows = tables["relations"].rows
    series = {"best head, a": "weight", "best head, ‖af‖": "norm", "best offset": "offset"}
    heights = {name: [float(str(row[key])) for row in rows] for name, key in series.items()}
    ends = {name: [row[f"{key}_interval"] for row in rows] for name, key in series.items()}
    figure = bars([str(row["relation"]) for row in rows], heights, ends, "heads of words found, %", "syntax")
    return Finding(tables, {"relations": figure})


def _relation_table(
    counts: HeadCounts, second: NDArray[np.bool_], draws: Draws, shape: tuple[int, int], note: str
) -> Table:
    rows = []
    for r, relation in enumerate(counts.relations):
        total = counts.total[:, r]
        offsets, right_by_offset = choose(counts.right["offset"][:, r], second)
        row: list[object] = [relation, int(total.sum())]
        gains: list[object] = []
        for kind in MEASURES:
            candidates, right = choose(counts.right[kind][:, r], second)
            row += [name_candidates(candidates, shape, DIRECTIONS), *draws.share(right, total)]
            gains += draws.share(right - right_by_offset, total)
        row.append(" ".join(dict.fromkeys(f"{OFFSETS[n]:+d}" for n in offsets)))
        rows.append([*row, *draws.share(right_by_offset, total), *gains])
    of_measures = " | ".join(
        f"{name}_head: best by {symbol} | {name}: % .1 | {name}_interval: interval by {symbol} .1 +"
        for name, symbol in MEASURES.items()
    )
    gains_of_measures = " | ".join(
        f"{name}_gain: gain over offset by {symbol} .1 + | {name}_gain_interval: its interval .1 +"
        for name, symbol in MEASURES.items()
    )
    return make_table(
        f"relation | words | {of_measures} | offset_at: offset | offset: % .1 | "
        f"offset_interval: interval of offset .1 + | {gains_of_measures}",
        rows,
        "best: layer-head, and who attends (d: the dependent, h: its head); two where halves chose differently",
        "each half is scored by what is best on the other; intervals: 95 %, bootstrap over sentences",
        note,
    )


def _attachment_table(
    model: Inspected, parsed: Sequence[Parsed], draws: Draws, vectors: str | None, seed: int
) -> Table:
    """Tabulate unlabelled attachment scores of probes and baselines."""
    heads = []  # of each word, ROOT for words that are not scored
    for tree in (sentence.tree for sentence in parsed):
        scored = [relation.partition(":")[0] != PUNCTUATION for relation in tree.relations]
        heads.append(np.where(scored, tree.heads, ROOT))
    if vectors is None:
        embeddings, origin = own_vectors(model, (sentence.tree.pair() for sentence in parsed))
    else:
        embeddings, known = vectors_of_file(vectors, [sentence.tree.words for sentence in parsed])
        origin = f"of a file, which has {100 * known:.1f} % of the words"
    scale = float(np.sqrt(np.mean(np.concatenate(embeddings, dtype=np.float64) ** 2))) or 1.0
    embeddings = [words / np.float32(scale) for words in embeddings]  # with a mean square of 1

    def probe(features: Sequence[Numbers], with_words: bool) -> list[Counts]:
        words: Sequence[Numbers | None] = embeddings if with_words else [None] * len(heads)
        return attach([Sentence(*parts) for parts in zip(features, heads, words, strict=True)], seed)

    def attention(name: str, with_words: bool) -> list[Counts]:
        return probe([both_directions(sentence.attention[name]) for sentence in parsed], with_words)

    by_distance = [distances(len(gold)) for gold in heads]
    guesses: dict[str, Callable[[], list[Counts]]] = {
        "the word before": lambda: [np.arange(len(gold)) - 1 for gold in heads],
        "the word behind": lambda: [np.arange(len(gold)) + 1 for gold in heads],
        "distance": lambda: probe(by_distance, False),
        "distance + embeddings": lambda: probe(by_distance, True),
        "attention, a": lambda: attention("weight", False),
        "attention, ‖af‖": lambda: attention("norm", False),
        "attention, a + embeddings": lambda: attention("weight", True),
        "attention, ‖af‖ + embeddings": lambda: attention("norm", True),
    }
    total = np.array([(gold != ROOT).sum() for gold in heads])
    rows = []
    for name, guess in guesses.items():
        pairs = zip(guess(), heads, strict=True)
        right = np.array([((predicted == gold) & (gold != ROOT)).sum() for predicted, gold in pairs])
        rows.append([name, *draws.share(right, total)])
    return make_table(
        "method: heads by | uas: UAS, % .1 | uas_interval: interval .1",
        rows,
        f"{total.sum():,} words, without roots and punctuation; {FOLDS}-fold cross-validation",
        f"embeddings: {origin}",
    )


def _pair_table(parsed: Sequence[Parsed], draws: Draws, seed: int) -> Table:
    """Tabulate how well pairs of words are classified: by existence of a dependency, and by relation."""
    drawn = draw_pairs([sentence.tree for sentence in parsed], seed)
    counts = Counter(pair.relation for pair in drawn)
    classes = [pair for pair in drawn if pair.relation != NONE and counts[pair.relation] >= FEWEST_OF_A_CLASS]
    rows = []
    for task, pairs, labels in (
        ("a dependency or none", drawn, [str(pair.relation != NONE) for pair in drawn]),
        ("which relation", classes, [pair.relation for pair in classes]),
    ):
        if len(set(labels)) < 2:
            continue
        sentences = np.array([pair.sentence for pair in pairs])
        total = np.bincount(sentences, minlength=len(parsed))
        features = {"most frequent class": None, "distance": distance_vectors(pairs, FARTHEST)}
        for name, symbol in MEASURES.items():
            attention = [sentence.attention[name] for sentence in parsed]
            features[f"attention, {symbol}"] = vectors_of_pairs(attention, pairs)
        for name, values in features.items():
            right = classify(values, labels, sentences, seed)
            by_sentence = np.bincount(sentences, right, len(parsed)).astype(np.int64)
            rows.append([task, name, len(set(labels)), len(pairs), *draws.share(by_sentence, total)])
    return make_table(
        "task | features: by | classes | pairs | accuracy: right, % .1 | accuracy_interval: interval .1",
        rows,
        f"pairs of words in the order of the text; relations of {FEWEST_OF_A_CLASS} pairs or more",
    )
