"""Tests whether a chunker's attention is exclusive, with adversaries, other seeds and uniform attention.

An adversary learns to predict what a trained model predicts while its attention moves away from that model's (Wiegreffe
and Pinter 2019, section 4, after Jain and Wallace 2019). Where it moves far, attention is not the only explanation.
Their classifiers become a tagger of one Transformer layer that returns its attention, or uses another's, and trains in
a minute on one core.

Letters: B sentences, T words of the longest, N words, H heads, S columns that a head attends to, d head size, D model
size, F features of a word, K tags.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata
from torch import Tensor, nn
from torch.nn.functional import nll_loss
from torch.nn.utils.rnn import pad_sequence

from align.analysis.commands.common import Answer, names_of, progress_of, set_threads
from align.analysis.commands.questions import Adversary
from align.analysis.data.chunks import Sentence, count_chunks, read_sentences
from align.analysis.maps import Doubles
from align.analysis.plots import curves
from align.analysis.similarity import js
from align.cli.loading import Request
from align.evaluation.metrics import estimate
from align.evaluation.tables import interval, percent
from align.view.findings import Finding, make_table

UNKNOWN = 1  # id of unknown values; 0 is padding
SUFFIX = 3  # length in letters of the suffix feature
WORDS_IN_BATCH, WORDS_IN_TEST_BATCH = 700, 2000  # maximum, padding included
NEVER = -1e4  # logarithm of a weight of 0: finite, so that it has a gradient
LOST = 0.05  # share of words that become the unknown word in training, so that suffix and shape are learnt
POSITIONS = 2.0  # factor of positions: with large positions a head finds the previous word more easily


# Losses and distances.


def log_kl(new: Tensor, old: Tensor) -> Tensor:
    """Return the KL divergence of `new` from `old`, finite logarithms `[..., S]`: `[...]`; it has no upper bound."""
    return (new.exp() * (new - old)).sum(-1)


def log_js(new: Tensor, old: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence of distributions, finite logarithms `[..., S]`: `[...]`, at most log 2."""
    middle = torch.logaddexp(new, old) - math.log(2)
    return (log_kl(new, middle) + log_kl(old, middle)) / 2


DIVERGENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"js": log_js, "kl": log_kl}


def adversarial_loss(
    logits: Tensor, original: Tensor, attention: Tensor, original_attention: Tensor, weight: float, divergence: str
) -> Tensor:
    """Return the loss of an adversary: mean over words of NLL(original, said) - weight * mean over heads of divergence.

    NLL is the cross-entropy with the whole distribution of the original, so that it is lowest where both are the same;
    the divergence, a key of DIVERGENCES, is that of the adversary's attention from the original's. Both models'
    outputs are log-probabilities `[N, K]`, and logarithms of attention weights `[N, H, S]`.
    """
    likelihood = -(original.exp() * logits).sum(-1).mean()
    away = DIVERGENCES[divergence](attention, original_attention).mean()
    return likelihood - weight * away


Output = tuple[NDArray[Any], NDArray[Any]]
"""A model's predictions for T words, probabilities `[T, K]`, and its attention `[H, T, S]`."""


class Distance(NamedTuple):
    """Distance of a model from the original, as means over words."""

    tvd: float  # total variation distance of predictions
    # Jensen-Shannon divergence of attention, each head compared with the original's head of the same number
    js: float
    # Jensen-Shannon divergence with heads matched to the original's so that the mean is lowest
    matched: float
    # Spearman's correlation of a row of attention with the original's; constant rows are left out
    ranks: float
    heads: Doubles  # `js` of each head `[H]`


def distance(original: Iterable[Output], adversary: Iterable[Output]) -> Distance:
    """Return the distance of a model from the original, from their outputs for the same sentences."""
    tvd, between, correlations = [], [], []
    for (predicted, attention), (other_predicted, other_attention) in zip(original, adversary, strict=True):
        tvd.append(np.abs(np.asarray(predicted, np.float64) - other_predicted).sum(-1) / 2)  # [T]
        between.append(js(attention[:, None], other_attention[None]))  # [H, H, T]
        first, second = (rankdata(x, axis=-1) - (x.shape[-1] + 1) / 2 for x in (attention, other_attention))
        with np.errstate(invalid="ignore"):
            correlation = (first * second).sum(-1) / np.sqrt((first**2).sum(-1) * (second**2).sum(-1))  # [H, T]
        correlations.append(correlation[np.isfinite(correlation)])
    heads = np.concatenate(between, -1).mean(-1)  # [H, H]
    matched = heads[linear_sum_assignment(heads)].mean()
    known = np.concatenate(correlations)
    ranks = float(known.mean()) if len(known) else math.nan
    own = np.diag(heads)
    return Distance(float(np.concatenate(tvd).mean()), float(own.mean()), float(matched), ranks, own)


# The tagger.


def shape_of(word: str) -> str:
    """Return the shape of a word: A, a and 0 for runs of capitals, small letters and digits, others once per run."""
    kinds = ("A" if c.isupper() else "a" if c.isalpha() else "0" if c.isdigit() else c for c in word)
    return "".join(kind for kind, _ in groupby(kinds))[:6]


FEATURES: tuple[tuple[Callable[[str], str], int], ...] = (
    (str.lower, 2),
    (lambda word: word.lower()[-SUFFIX:], 3),
    (shape_of, 5),
)
"""Features of a word, the word itself first, each with the minimum count of a value that has its own vector."""


class Batch(NamedTuple):
    """Sentences of similar length."""

    features: Tensor  # ids `[B, T, F]`
    tags: Tensor  # ids `[B, T]`
    mask: Tensor  # mask of words that are not padding `[B, T]`
    numbers: list[int]  # indices of the sentences in their text, from 0


class Vocabulary:
    """Ids of the feature values and tags of a training text."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self._ids: list[dict[str, int]] = []
        for feature, least in FEATURES:
            seen = Counter(feature(word) for sentence in sentences for word in sentence.words)
            known = sorted(value for value, count in seen.items() if count >= least)
            self._ids.append({value: n for n, value in enumerate(known, UNKNOWN + 1)})
        self.sizes = [len(ids) + UNKNOWN + 1 for ids in self._ids]  # number of ids of each feature
        self.tags = sorted({tag for sentence in sentences for tag in sentence.tags})  # tag of each id

    def batches(self, sentences: Sequence[Sentence], words: int = WORDS_IN_BATCH) -> list[Batch]:
        """Return sentences in batches of similar length, of at most `words` words, padding included.

        A tag that is not in the training text has the id of the first tag: such text can be tagged, but not learnt.
        """
        groups: list[list[int]] = [[]]
        for n in sorted(range(len(sentences)), key=lambda n: len(sentences[n].words)):
            if groups[-1] and len(sentences[n].words) * (len(groups[-1]) + 1) > words:
                groups.append([])
            groups[-1].append(n)
        tag_ids = {tag: n for n, tag in enumerate(self.tags)}
        made = []
        for numbers in groups:
            words_of = [sentences[n].words for n in numbers]
            features = [torch.tensor([self._features(word) for word in text]) for text in words_of]
            tags = [torch.tensor([tag_ids.get(tag, 0) for tag in sentences[n].tags]) for n in numbers]
            lengths = torch.tensor([[len(text)] for text in words_of])
            padded = pad_sequence(features, batch_first=True)  # [B, T, F]
            mask = torch.arange(padded.shape[1]) < lengths
            made.append(Batch(padded, pad_sequence(tags, batch_first=True), mask, numbers))
        return made

    def _features(self, word: str) -> list[int]:
        return [ids.get(feature(word), UNKNOWN) for ids, (feature, _) in zip(self._ids, FEATURES, strict=True)]

    def best_tags(self, outputs: Sequence[Tagged], batches: Sequence[Batch]) -> list[list[str]]:
        """Return the most likely tag of each word, with sentences in the order of their text."""
        tags: dict[int, list[str]] = {}
        for output, batch in zip(outputs, batches, strict=True):
            for row, mask, number in zip(output.tags.argmax(-1), batch.mask, batch.numbers, strict=True):
                tags[number] = [self.tags[n] for n in row[mask].tolist()]
        return [tags[n] for n in range(len(tags))]


class Tagged(NamedTuple):
    """Log-probabilities of tags `[B, T, K]`, and logarithms of attention weights `[B, H, T, T]`, NEVER at padding."""

    tags: Tensor
    attention: Tensor


class Learning(NamedTuple):
    """Settings of the training."""

    heads: int = 4
    width: int = 128  # D
    epochs: int = 6
    rate: float = 4e-3  # peak learning rate; it rises over the first tenth of updates, and falls to 0
    drop: float = 0.2  # dropout
    seed: int = 1  # seed of weights, dropout, and the order of batches


def positions(count: int, width: int) -> Tensor:
    """Return sines and cosines of T positions `[T, D]` (Vaswani et al. 2017)."""
    angles = torch.arange(count)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))
    return torch.cat((angles.sin(), angles.cos()), 1)


class Embedding(nn.Module):
    """Embeds words: the sum of the vectors of their features, normalised."""

    def __init__(self, sizes: Sequence[int], learning: Learning) -> None:
        super().__init__()
        self.vectors = nn.ModuleList(nn.Embedding(size, learning.width) for size in sizes)
        for vectors in self.vectors:
            nn.init.normal_(vectors.weight, std=learning.width**-0.5)  # type: ignore[arg-type]
        self.norm = nn.LayerNorm(learning.width)
        self.drop = nn.Dropout(learning.drop)

    def forward(self, features: Tensor) -> Tensor:
        """Embed feature ids `[B, T, F]` as vectors `[B, T, D]`."""
        if self.training:
            lost = torch.rand(features.shape[:2]) < LOST
            features = torch.cat((features[..., :1].masked_fill(lost[..., None], UNKNOWN), features[..., 1:]), -1)
        x = torch.stack([vectors(features[..., n]) for n, vectors in enumerate(self.vectors)]).sum(0)  # [B, T, D]
        dropped: Tensor = self.drop(self.norm(x))
        return dropped


class Tagger(nn.Module):
    """One post-norm Transformer layer over words and their positions."""

    def __init__(self, vocabulary: Vocabulary, learning: Learning) -> None:
        super().__init__()
        width = learning.width
        self.heads = learning.heads
        self.embedding = Embedding(vocabulary.sizes, learning)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.drop = nn.Dropout(learning.drop)
        self.tag = nn.Linear(width, len(vocabulary.tags))

    def forward(self, batch: Batch, attention: Tensor | None = None) -> Tagged:
        """Tag a batch, if given with logarithms of attention weights in place of the layer's own `[B, H, T, T]`."""
        x = self.embedding(batch.features)
        x = x + POSITIONS * positions(*x.shape[1:])
        logs = attention
        if logs is None:
            queries, keys = _split(self.query(x), self.heads), _split(self.key(x), self.heads)
            scores = queries @ keys.transpose(2, 3) / math.sqrt(queries.shape[3])
            logs = scores.masked_fill(~batch.mask[:, None, None], NEVER).log_softmax(-1)
        context = logs.exp() @ _split(self.value(x), self.heads)  # [B, H, T, d]
        x = self.norms[0](x + self.drop(self.out(_join(context))))
        x = self.norms[1](x + self.drop(self.feed(x)))
        return Tagged(self.tag(x).log_softmax(-1), logs)


class Probe(nn.Module):
    """A perceptron over a word's vector and a bag of the sentence's vectors, weighted by the attention passed to it.

    It has no positions: all that it learns about a word's neighbours comes through that attention (Wiegreffe and Pinter
    2019, section 3.3).
    """

    def __init__(self, vocabulary: Vocabulary, learning: Learning) -> None:
        super().__init__()
        width = learning.width
        self.heads = learning.heads
        self.embedding = Embedding(vocabulary.sizes, learning)
        self.value = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Dropout(learning.drop))
        self.tag = nn.Linear(2 * width, len(vocabulary.tags))

    def forward(self, batch: Batch, attention: Tensor) -> Tagged:
        """Tag a batch with these logarithms of attention weights `[B, H, T, T]`."""
        x = self.embedding(batch.features)
        bags = _join(attention.exp() @ _split(self.value(x), self.heads))  # [B, T, D]
        return Tagged(self.tag(self.feed(torch.cat((x, bags), -1))).log_softmax(-1), attention)


def _split(x: Tensor, heads: int) -> Tensor:
    """Split heads: `[B, T, D]` to `[B, H, T, d]`."""
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def _join(x: Tensor) -> Tensor:
    """Join heads: `[B, H, T, d]` to `[B, T, D]`."""
    return x.transpose(1, 2).flatten(2)


def uniform(batch: Batch, heads: int) -> Tensor:
    """Return logarithms of weights that are the same for all words of a sentence `[B, H, T, T]`."""
    logs = torch.where(batch.mask, 0.0, NEVER).log_softmax(-1)  # [B, T]
    return logs[:, None, None].expand(-1, heads, batch.mask.shape[1], -1)


def learn(
    kind: Callable[[Vocabulary, Learning], nn.Module],
    vocabulary: Vocabulary,
    batches: Sequence[Batch],
    learning: Learning,
    loss: Callable[[Tagged, Batch, int], Tensor] | None = None,
    attention: Sequence[Tensor] | None = None,
) -> Any:
    """Train a new Tagger or Probe; on one thread the result depends on nothing random but the seed.

    Args:
        loss: of a model's output for a batch and the batch's number; None for that of the batch's own tags.
        attention: logarithms of attention weights in each batch, in place of the model's own.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(learning.seed)
        model = kind(vocabulary, learning).train()
        optimizer = torch.optim.Adam(model.parameters(), learning.rate, (0.9, 0.98))
        updates = learning.epochs * len(batches)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda n: min(10 * (n + 1) / updates, (updates - n) / updates)
        )
        for _ in range(learning.epochs):
            for n in torch.randperm(len(batches)).tolist():
                batch = batches[n]
                output = model(batch, attention[n] if attention else None)
                losses = loss(output, batch, n) if loss else nll_loss(output.tags[batch.mask], batch.tags[batch.mask])
                optimizer.zero_grad()
                torch.autograd.backward(losses)
                optimizer.step()
                schedule.step()
    return model.eval().requires_grad_(False)


@torch.no_grad()
def read(model: nn.Module, batches: Iterable[Batch], attention: Sequence[Tensor] | None = None) -> list[Tagged]:
    """Return a model's output for each batch, with its own attention or the given one."""
    return [model(batch, attention[n] if attention else None) for n, batch in enumerate(batches)]


# The question.


def exclusive(
    train: Sequence[Sentence],
    test: Sequence[Sentence],
    options: Adversary,
    say: Callable[[str], None] = lambda name: None,
    learning: Learning | None = None,
) -> Finding:
    """Train a chunker and its adversaries, and measure how far attention can move."""
    settings = (learning or Learning())._replace(epochs=options.epochs, seed=options.seed)
    vocabulary = Vocabulary(train)
    batches, test_batches = vocabulary.batches(train), vocabulary.batches(test, WORDS_IN_TEST_BATCH)
    even, test_even = ([uniform(batch, settings.heads) for batch in text] for text in (batches, test_batches))
    original_outputs: list[Output] = []

    def score(outputs: Sequence[Tagged]) -> dict[str, Any]:
        counts = count_chunks([sentence.tags for sentence in test], vocabulary.best_tags(outputs, test_batches))
        f1 = estimate(counts[:, [0, 0, 1, 2]], "f1")  # as links, all of which are sure
        return {"f1": percent(f1.value), "interval": interval(percent(f1.low), percent(f1.high))}

    def measure(
        name: str, tagger: nn.Module, attention: Sequence[Tensor] | None = None, weight: float | None = None
    ) -> dict[str, Any]:
        outputs = read(tagger, test_batches, attention)
        row = {"model": name, "lambda": weight, **score(outputs), **dict.fromkeys(Distance._fields), "side": ""}
        if original_outputs:
            row |= distance(original_outputs, _sentences(outputs, test_batches))._asdict()
        say(f"{name}: F1 {row['f1'] or 0:.1f}")
        return row

    taggers = [learn(Tagger, vocabulary, batches, settings)]  # the original, then the adversaries
    original = measure("original", taggers[0])
    original_outputs += _sentences(read(taggers[0], test_batches), test_batches)
    others = [
        measure(f"seed {seed}", learn(Tagger, vocabulary, batches, settings._replace(seed=seed)))
        for seed in options.other_seeds
    ]
    near = float(np.mean([row["tvd"] for row in others])) if options.threshold is None else options.threshold
    others.append(measure("uniform", learn(Tagger, vocabulary, batches, settings, attention=even), test_even))

    # Adversaries learn from the original's predictions, with the next seed, and away from its attention.
    expected = read(taggers[0], batches)
    adversaries = []
    for weight in sorted(options.lambdas):

        def loss(output: Tagged, batch: Batch, number: int, weight: float = weight) -> Tensor:
            said, of_original = (
                (tagged.tags[batch.mask], tagged.attention.transpose(1, 2)[batch.mask])  # [N, K] and [N, H, T]
                for tagged in (output, expected[number])
            )
            return adversarial_loss(said[0], of_original[0], said[1], of_original[1], weight, options.divergence)

        taggers.append(learn(Tagger, vocabulary, batches, settings._replace(seed=settings.seed + 1), loss))
        adversaries.append(measure(f"adversary {weight:g}", taggers[-1], weight=weight))

    # The safe point is the largest JSD of attention among the adversaries that say nearly the same.
    safe = max((row for row in adversaries if row["tvd"] <= near), key=itemgetter("js"), default=None)
    for row in adversaries:
        row["side"] = "safe point" if row is safe else "before" if safe and row["js"] <= safe["js"] else "beyond"
    origin = "that of the other seeds" if options.threshold is None else "as asked for"
    point = "no safe point: no adversary has a TVD"
    if safe:
        point = f"safe point: JSD {safe['js']:.3f} ({safe['model']}), the largest with a TVD"

    # Perceptrons that are guided by frozen attention.
    attention = {"uniform": (even, test_even)}
    for row, tagger in zip((original, *adversaries), taggers, strict=True):
        if any(row is guide for guide in (original, safe, adversaries[-1])):
            of_train, of_test = (read(tagger, text) for text in (batches, test_batches))
            attention[row["model"]] = [out.attention for out in of_train], [out.attention for out in of_test]
    probes = []
    for name, (known, test_known) in attention.items():
        probe = learn(Probe, vocabulary, batches, settings, attention=known)
        probes.append({"attention": name, **score(read(probe, test_batches, test_known))})

    tables = {
        "models": make_table(
            "model | lambda + | f1: F1, % .1 | interval: 95 % interval .1 | tvd: TVD .3 | js: JSD .3 | "
            "matched: JSD, matched .3 | ranks: rank corr. .2 | side: safe",
            (original, *others, *adversaries),
            "TVD of tags, JSD of attention (nats, at most 0.693) and rank correlation: from the original, means over "
            "words",
            "matched: each head against the most similar original head; rank corr.: Spearman, of each row of attention",
            f"{point} of at most {near:.3f}, {origin}",
        ),
        "probes": make_table(
            "attention: attention of | f1: F1, % .1 | interval: 95 % interval .1",
            probes,
            "probes: perceptrons without positions, guided by the frozen attention of a model",
        ),
    }

    def points(rows: Iterable[dict[str, Any]], y: str) -> Doubles:
        return np.array([[row["js"], row[y]] for row in rows])

    lines = {"adversaries": points(adversaries, "tvd")} | {row["model"]: points([row], "tvd") for row in others}
    lines["threshold"] = np.array([[0.0, near], [max(row["js"] for row in adversaries), near]])
    ranks = {"adversaries": points(adversaries, "ranks")}
    figures = {
        "curve": partial(curves, lines, "JSD of attention, nats", "TVD of predictions", ""),
        "ranks": partial(curves, ranks, "JSD of attention, nats", "rank correlation of attention", ""),
    }
    return Finding(tables, figures)


def _sentences(outputs: Sequence[Tagged], batches: Sequence[Batch]) -> Iterator[Output]:
    """Yield a model's output for each sentence, without padding."""
    for output, batch in zip(outputs, batches, strict=True):
        probabilities, attention = output.tags.exp().numpy(), output.attention.exp().numpy()
        for b, t in enumerate(batch.mask.sum(1).tolist()):
            yield probabilities[b, :t], attention[b, :, :t, :t]


def answer(question: Adversary, request: Request) -> Answer:
    """Answer the question of `extract-align analyse adversary`."""
    train, test = read_sentences(question.train), read_sentences(question.test)
    set_threads(request)
    return exclusive(train, test, question, progress_of(request)), {
        "train": f"{names_of(question.train)}({len(train)})",
        "test": f"{names_of(question.test)}({len(test)})",
        "lambda": ",".join(f"{weight:g}" for weight in sorted(question.lambdas)),
        "threshold": "seeds" if question.threshold is None else f"{question.threshold:g}",
        "seeds": ",".join(map(str, question.other_seeds)),
    }
