"""Measures syntax in the encoder's attention: single heads, all heads together, pairs of words (Clark; Coenen 2019).

A single head is a parser that takes the most attended word as the syntactic head (Clark et al. 2019, 4.2).

Probes of all heads attach words to heads (Clark et al. 2019, 5). The score of word j as the head of word i is
`sum_k w_k a_k[i, j] + u_k a_k[j, i]` over all heads of attention k (equation 5). With embeddings v, `w_k` is
`W_k (v_i + v_j)`, where + concatenates, and `u_k` is `U_k (v_i + v_j)` (equation 6). A softmax over all other words
makes it a probability. Both are convex, so that the seed hardly matters.

Pairs of words are classified by the attention between them: dependency or none, and relation (Coenen et al. 2019, 3.1).
The vector of a pair is the attention of the first word to the second in each head, and of the second to the first. One
logistic regression predicts whether either depends on the other, another predicts their relation. The words are in the
order of the text, so that the order does not reveal the head.

Letters: C heads of all layers, n words, N sentences, R relations, O offsets, B sentences of a batch, K features of a
pair of words, E numbers of an embedding, P pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from align.analysis.commands.common import Answer, load_inspected, names_of
from align.analysis.commands.questions import Syntax
from align.analysis.data.treebank import ROOT, Tree, read_treebank
from align.analysis.maps import (
    MEASURES,
    Counts,
    Inspected,
    Mask,
    Numbers,
    between_words,
    has_piece,
    measured,
    name_candidates,
    need_encoder,
)
from align.analysis.models.vectors import own_vectors, vectors_of_file
from align.analysis.plots import bars
from align.analysis.resampling import Draws, choose, folds, halve
from align.cli.loading import Request
from align.cli.sweep import need
from align.core.errors import DataError, plural
from align.io.reader import name_shown
from align.view.findings import Finding, Table, make_table

PUNCTUATION = "punct"  # the relation that attachment scores exclude, as is usual in parsing
FEWEST_OF_A_CLASS = 20  # minimum number of pairs of a relation that is a class
DIRECTIONS = ("d>h", "h>d")  # direction of attention: from dependent to head, or from head to dependent
OFFSETS = (*range(-5, 0), *range(1, 6))
"""Offsets in words from a word to its head, for the positional baseline."""

ALL = "all"
"""Name of all relations together, which come first; a treebank may have a relation of this name as well."""


FOLDS, EPOCHS, BATCH, RATE, DECAY = 5, 30, 16, 0.02, 1e-4  # settings of probes
NEVER = -1e9  # score of impossible heads: finite, since -inf gives no gradient if a word has no possible head
FARTHEST = 10  # maximum distance in words as a feature; larger distances are clipped


class Parsed(NamedTuple):
    """A sentence with its tree and the encoder's attention between its words."""

    tree: Tree
    attention: Mapping[str, Numbers]  # attention from each word to each word, by measure `[C, n, n]`
    there: Mask  # words that have a piece, and so can attend and be attended to `[n]`


# Single heads.


def attend(model: Inspected, trees: Sequence[Tree]) -> Iterator[Parsed]:
    """Yield the encoder's attention for each sentence that the model can read."""
    for tree, read in zip(trees, model.read((tree.pair() for tree in trees), ["encoder"]), strict=True):
        if maps := read.get("encoder"):
            n = len(tree.words)
            attention = {
                name: between_words(values, maps.rows, maps.columns).reshape(-1, n, n)
                for name, values in measured(maps).items()
            }
            yield Parsed(tree, attention, has_piece(maps.rows))


def predict(attention: Numbers, there: Mask) -> Counts:
    """Predict the head of each word from attention `[C, n, n]`, in both directions `[2C, n]`; never the word itself.

    First the word that each word attends to most, then the word that attends to it most; -1 for words without a piece.
    """
    attention = np.where(np.eye(attention.shape[1], dtype=bool) | ~there | ~there[:, None], -1, attention)
    predicted = np.concatenate((attention.argmax(2), attention.argmax(1)))  # [2C, n]
    return np.where(there, predicted, -1)


def find(parsed: Sequence[Parsed], fewest: int) -> tuple[list[str], Counts, Mapping[str, Counts]]:
    """Count the words of each relation whose heads each candidate predicts correctly; that to the root is left out.

    Returns:
        ALL and the relations of at least `fewest` words, the most frequent first; the number of words of each in each
        sentence `[N, R]`; and how many of them each candidate predicts, by measure `[N, R, 2C]`, and by "offset"
        `[N, R, O]`.
    """
    counts: Counter[str] = Counter()
    for sentence in parsed:
        edges = zip(sentence.tree.heads, sentence.tree.relations, strict=True)
        counts.update(relation for head, relation in edges if head != ROOT)
    by_frequency = sorted(counts, key=lambda name: (-counts[name], name))
    relations = [ALL, *(name for name in by_frequency if counts[name] >= fewest)]
    total = np.zeros((len(parsed), len(relations)), np.int64)
    right: dict[str, list[list[Counts]]] = {name: [] for name in (*MEASURES, "offset")}
    for n, sentence in enumerate(parsed):
        heads, labels = np.array(sentence.tree.heads), np.array(sentence.tree.relations)
        predicted = {name: predict(values, sentence.there) for name, values in sentence.attention.items()}
        predicted["offset"] = np.arange(len(heads)) + np.array(OFFSETS)[:, None]  # may be outside the sentence
        counted = [(heads != ROOT) & ((labels == relation) | (r == 0)) for r, relation in enumerate(relations)]
        total[n] = [words.sum() for words in counted]
        for name, guesses in predicted.items():
            right[name].append([(guesses == heads)[:, words].sum(1) for words in counted])
    return relations, total, {name: np.array(counts) for name, counts in right.items()}


# Probes of all heads.


class Sentence(NamedTuple):
    """Features of a sentence, and its gold heads."""

    features: Numbers  # of word i and its possible head j `[K, n, n]`
    heads: Counts  # head of each word, from 0; ROOT for words that are not attached `[n]`
    vectors: Numbers  # embeddings of the words `[n, E]`; E is 0 for a probe without embeddings


def both_directions(attention: Numbers) -> Numbers:
    """Stack attention from each word and attention to it: `[C, n, n]` to `[2C, n, n]`."""
    return np.concatenate((attention, attention.transpose(0, 2, 1)))


def distances(words: int) -> Numbers:
    """Return one-hot features of the distance from i to j, in place of attention `[2 FARTHEST + 1, n, n]`."""
    distance = np.clip(np.arange(words) - np.arange(words)[:, None], -FARTHEST, FARTHEST)
    features: Numbers = (distance == np.arange(-FARTHEST, FARTHEST + 1)[:, None, None]).astype(np.float32)
    return features


class Probe(torch.nn.Module):
    """Scores heads by equation 5 and, with embeddings of a size that is not 0, by equation 6.

    Each feature is divided by its scale `[K]`.
    """

    def __init__(self, scale: Tensor, size: int) -> None:
        super().__init__()
        self.scale = scale
        self.bias = torch.nn.Parameter(torch.zeros(len(scale)))
        self.of_word = torch.nn.Parameter(torch.zeros(size, len(scale)))
        self.of_head = torch.nn.Parameter(torch.zeros(size, len(scale)))

    def forward(self, sentences: Sequence[Sentence]) -> Tensor:
        """Return scores of each word's possible heads `[B, n, n]`; the word itself and padding score NEVER."""
        longest = max(len(sentence.heads) for sentence in sentences)
        features = torch.zeros(len(sentences), len(self.scale), longest, longest)
        vectors = torch.zeros(len(sentences), longest, len(self.of_word))
        impossible = torch.eye(longest, dtype=torch.bool).repeat(len(sentences), 1, 1)
        for b, sentence in enumerate(sentences):
            n = len(sentence.heads)
            features[b, :, :n, :n] = torch.from_numpy(sentence.features)
            vectors[b, :n] = torch.from_numpy(sentence.vectors)
            impossible[b, :, n:] = True
        features = features / self.scale[:, None, None]
        scores = torch.einsum("bkij,bik->bij", features, vectors @ self.of_word + self.bias)
        scores = scores + torch.einsum("bkij,bjk->bij", features, vectors @ self.of_head)
        return scores.masked_fill(impossible, NEVER)


def fit(sentences: Sequence[Sentence], seed: int) -> Probe:
    """Train a probe by the negative log-likelihood of the gold heads, by AdamW with a rate that falls to 0."""
    pairs = sum(sentence.features[0].size for sentence in sentences)
    squares = sum(np.square(sentence.features, dtype=np.float64).sum((1, 2)) for sentence in sentences)
    scale = np.sqrt(squares / pairs).clip(1e-9).astype(np.float32)  # the root mean square of each feature
    probe = Probe(torch.from_numpy(scale), sentences[0].vectors.shape[1])
    optimizer = torch.optim.AdamW(probe.parameters(), lr=RATE, weight_decay=DECAY)
    by_length = sorted(sentences, key=lambda sentence: len(sentence.heads))
    batches = [by_length[i : i + BATCH] for i in range(0, len(by_length), BATCH)]
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, EPOCHS * len(batches))
    draw = np.random.default_rng(seed)
    for _ in range(EPOCHS):
        for n in draw.permutation(len(batches)):
            gold = [torch.from_numpy(sentence.heads) for sentence in batches[n]]
            heads = torch.nn.utils.rnn.pad_sequence(gold, batch_first=True, padding_value=ROOT).flatten()
            scores = probe(batches[n]).flatten(0, 1)
            loss = cross_entropy(scores, heads, ignore_index=ROOT, reduction="sum") / (heads != ROOT).sum().clamp(min=1)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
    return probe


def attach(sentences: Sequence[Sentence], seed: int) -> list[Counts]:
    """Predict the heads `[n]` of each sentence, with a probe trained on the folds that do not contain it."""
    predicted: dict[int, Counts] = {}
    numbers = folds(len(sentences), FOLDS, seed)
    for fold in range(FOLDS):
        probe = fit([sentences[n] for n in np.flatnonzero(numbers != fold).tolist()], seed)
        for n in np.flatnonzero(numbers == fold).tolist():
            with torch.inference_mode():
                predicted[n] = probe([sentences[n]])[0].argmax(1).numpy()
    return [predicted[n] for n in range(len(sentences))]


# Pairs of words.

NONE = ""  # the relation of two words neither of which depends on the other

WordPair = tuple[int, int, int, str]
"""The number of a sentence, two of its words in the order of the text, and their relation."""


def draw_pairs(trees: Sequence[Tree], seed: int) -> list[WordPair]:
    """Return all dependencies, and for each a random pair of the same sentence without one, if there are any left."""
    draw = np.random.default_rng(seed)
    pairs: list[WordPair] = []
    for n, tree in enumerate(trees):
        edges = {
            (min(i, head), max(i, head)): relation
            for i, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True))
            if head != ROOT
        }  # of a tree: no two words depend on each other
        unrelated = [(i, j) for j in range(len(tree.words)) for i in range(j) if (i, j) not in edges]
        drawn = draw.choice(len(unrelated), min(len(edges), len(unrelated)), replace=False) if unrelated else ()
        pairs += [(n, i, j, relation) for (i, j), relation in edges.items()]
        pairs += [(n, *unrelated[k], NONE) for k in drawn]
    return pairs


def vectors_of_pairs(attention: Sequence[Numbers], pairs: Sequence[WordPair]) -> Numbers:
    """Return the vectors of P pairs `[P, K]`, from the features of pairs of words in each sentence `[K, n, n]`."""
    return np.stack([attention[n][:, i, j] for n, i, j, _ in pairs])


def classify(features: Numbers, labels: Sequence[str], sentences: Counts, seed: int) -> Mask:
    """Tell which of P pairs a logistic regression of features `[P, K]` classifies correctly `[P]`.

    It is trained on other sentences than that of the pair, `sentences` `[P]`; if all features are 0, the most frequent
    label is predicted.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import PredefinedSplit, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model: Any = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    if not features.any():
        model = DummyClassifier(strategy="most_frequent")
    split = PredefinedSplit(folds(int(sentences.max()) + 1, FOLDS, seed)[sentences])
    right: Mask = cross_val_predict(model, features, labels, cv=split) == np.array(labels)
    return right


# The question.


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
    """
    shape = need_encoder(model)
    parsed = list(attend(model, trees))
    relations, total, right = find(parsed, fewest)
    if not total.any():
        raise DataError("no sentence with a dependency that the model can read", file=file)
    if probes and len(parsed) < FOLDS:
        message = f"probes need {FOLDS} sentences: the model can read {len(parsed)}"
        raise DataError(message, file=file, hint="‹no_probes=True› does without")
    draws, second = Draws(len(parsed), seed), halve(len(parsed), seed)
    rows = []
    for r, relation in enumerate(relations):
        words = total[:, r]
        offsets, by_offset = choose(right["offset"][:, r], second)
        row: list[Any] = [relation, int(words.sum())]
        gains: list[Any] = []
        for kind in MEASURES:
            candidates, by_head = choose(right[kind][:, r], second)
            row += [name_candidates(candidates, shape, DIRECTIONS), *draws.share(by_head, words)]
            gains += draws.share(by_head - by_offset, words)
        row.append(" ".join(dict.fromkeys(f"{OFFSETS[n]:+d}" for n in offsets)))
        rows.append([*row, *draws.share(by_offset, words), *gains])
    heads, more = "", ""
    for name, symbol in MEASURES.items():
        heads += f"{name}_head: best by {symbol} | {name}: % .1 | {name}_interval: interval by {symbol} .1 + | "
        more += f" | {name}_gain: gain over offset by {symbol} .1 + | {name}_gain_interval: its interval .1 +"
    left_out = len(trees) - len(parsed)
    relation_table = make_table(
        f"relation | words | {heads}offset_at: offset | offset: % .1 | offset_interval: interval of offset .1 +{more}",
        rows,
        "best: layer-head, and who attends (d: the dependent, h: its head); two where halves chose differently",
        "each half is scored by what is best on the other; intervals: 95 %, bootstrap over sentences",
        plural(len(parsed), "sentence") + (f"; {left_out:,} left out, which the model cannot read" if left_out else ""),
    )
    tables = {"relations": relation_table}
    if probes:
        tables["attachment"] = _attachment_table(model, parsed, draws, vectors, seed)
        tables["pairs"] = _pair_table(parsed, draws, seed)
    series = {"best head, a": "weight", "best head, ‖af‖": "norm", "best offset": "offset"}
    found = relation_table.rows
    heights = {name: [float(str(row[key])) for row in found] for name, key in series.items()}
    ends = {name: [row[f"{key}_interval"] for row in found] for name, key in series.items()}
    figure = partial(bars, relations, heights, ends, "heads of words found, %", "syntax")
    return Finding(tables, {"relations": figure})


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
    none = [words[:, :0] for words in embeddings]
    guesses = {
        "the word before": [np.arange(len(gold)) - 1 for gold in heads],
        "the word behind": [np.arange(len(gold)) + 1 for gold in heads],
    }
    for name, measure, words in (
        ("distance", None, none),
        ("distance + embeddings", None, embeddings),
        ("attention, a", "weight", none),
        ("attention, ‖af‖", "norm", none),
        ("attention, a + embeddings", "weight", embeddings),
        ("attention, ‖af‖ + embeddings", "norm", embeddings),
    ):
        features = [
            both_directions(sentence.attention[measure]) if measure else distances(len(sentence.there))
            for sentence in parsed
        ]
        guesses[name] = attach([Sentence(*parts) for parts in zip(features, heads, words, strict=True)], seed)
    total = np.array([(gold != ROOT).sum() for gold in heads])
    rows = []
    for name, guessed in guesses.items():
        pairs = zip(guessed, heads, strict=True)
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
    counts = Counter(relation for *_, relation in drawn)
    classes = [pair for pair in drawn if pair[-1] != NONE and counts[pair[-1]] >= FEWEST_OF_A_CLASS]
    rows = []
    for task, pairs, labels in (
        ("a dependency or none", drawn, [str(relation != NONE) for *_, relation in drawn]),
        ("which relation", classes, [relation for *_, relation in classes]),
    ):
        if len(set(labels)) < 2:
            continue
        sentences = np.array([pair[0] for pair in pairs])
        total = np.bincount(sentences, minlength=len(parsed))
        behind = [distances(len(sentence.there))[FARTHEST + 1 :] for sentence in parsed]
        features = {"most frequent class": np.zeros((len(pairs), 1), np.float32)}
        features["distance"] = vectors_of_pairs(behind, pairs)
        for name, symbol in MEASURES.items():
            attention = [both_directions(sentence.attention[name]) for sentence in parsed]
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


def answer(question: Syntax, request: Request) -> Answer:
    """Answer the question of `extract-align analyse syntax`."""
    if not question.no_probes:
        need("sklearn", "probes")
    trees = read_treebank(question.input, question.sentences)
    model = load_inspected(request)
    options = question.fewest, question.seed, question.vectors, not question.no_probes
    return syntax(model, trees, *options, name_shown(question.input)), {
        "model": model.name,
        "treebank": names_of(question.input),
        "n": len(trees),
        "vectors": names_of(question.vectors) or None,
        "probes": "none" if question.no_probes else None,
    }
