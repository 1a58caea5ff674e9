"""Norms against weights: how much attention pieces get, how much they contribute (Kobayashi et al. 2020, section 4).

The output of attention is a sum of vectors `a f(x)`. A piece with a large attention weight `a` contributes little where
its transformed vector `f(x)` is short. This module measures both factors and their product for each kind of piece.

Letters: L layers, H heads, T rows, S columns.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from scipy.stats import spearmanr

from align.analysis.commands.common import Answer
from align.analysis.commands.questions import Mixing
from align.analysis.maps import SPECIAL, Doubles, Inspected, Maps, Tokens
from align.analysis.plots import scatter
from align.cli.loading import Request
from align.core.types import Pair, Part
from align.models.ids import BEGINNINGS, CONTINUED, ENDING
from align.view.findings import Finding, make_table

INSIDE = "##"  # prefix of BERT's WordPiece for all pieces of a word except the first
STOPS = (".", ",")

PUNCTUATION, REST = ". and ,", "rest"


def bare(piece: str) -> str:
    """Return a piece without the marks of a word's beginning or end."""
    for mark in (*BEGINNINGS, INSIDE):
        piece = piece.removeprefix(mark) or piece
    for mark in (CONTINUED, ENDING):
        piece = piece.removesuffix(mark) or piece
    return piece


def categories(tokens: Tokens) -> list[str]:
    """Return the kind of each piece: the name of a special piece, PUNCTUATION, or REST (section 4 of the paper)."""
    return [
        piece if word == SPECIAL else PUNCTUATION if bare(piece) in STOPS else REST
        for piece, word in zip(tokens.pieces, tokens.words, strict=True)
    ]


FACTORS = ("weight", "vector", "norm")  # the factors a and ||f(x)||, and their product ||a f(x)||
SYMBOLS = ("a", "‖f‖", "‖af‖")  # symbols of the factors in tables
SHOWN = 2000  # points of each category in a figure
ALL = "all"  # name for all categories together
POINTS = 100_000  # pairs of pieces per part and category that are sampled for a correlation


class Sample:
    """A uniform sample of fixed size from a stream of unknown length."""

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._numbers = size, np.random.default_rng(seed)
        self._keys: Doubles = np.zeros(0)
        self.items: Doubles = np.zeros((0, 2))

    def add(self, items: Doubles) -> None:
        """Offer items `[N, 2]`; the items with the lowest random keys stay."""
        keys = np.concatenate((self._keys, self._numbers.random(len(items))))
        items = np.concatenate((self.items, items))
        if len(keys) > self._size:
            lowest = np.argpartition(keys, self._size)[: self._size]
            keys, items = keys[lowest], items[lowest]
        self._keys, self.items = keys, items


class PartMixing:
    """Measurements in one part of a model, by factor and by category of the pieces that are attended to."""

    def __init__(self, part: Part, shape: tuple[int, int], seed: int = 1) -> None:
        self.part, self.shape = part, shape
        self.pairs: Counter[str] = Counter()  # pairs of pieces by category
        self.totals: dict[str, Doubles] = {}  # sums of the factors over these, by category `[3, L, H]`
        self.squares = np.zeros(len(FACTORS))  # sums of squares over all pairs, layers and heads
        self.lowest, self.highest = np.full(len(FACTORS), np.inf), np.full(len(FACTORS), -np.inf)
        # pairs of a and ||f(x)||, by category, and of ALL
        self.samples: defaultdict[str, Sample] = defaultdict(lambda: Sample(POINTS, seed))
        self.counts: Counter[str] = Counter()  # how often each piece was attended to
        # for each piece, sums over columns of a, ||f(x)|| and ||a f(x)||, averaged over layers, heads and rows
        self.by_piece: defaultdict[str, Doubles] = defaultdict(lambda: np.zeros(len(FACTORS)))

    def add(self, maps: Maps) -> None:
        """Add a sentence: all pairs of a row and a column that it may attend to (in a decoder, up to the row)."""
        kinds = np.array(categories(maps.columns))
        weights = maps.weights.astype(np.float64)
        values = np.empty((len(FACTORS), *weights.shape))  # [3, L, H, T, S]
        values[0], values[1] = weights, maps.vectors[:, :, None]
        np.multiply(values[0], values[1], out=values[2])
        seen = np.tri(*weights.shape[2:]) > 0 if self.part == "decoder" else np.ones(weights.shape[2:], bool)
        for kind in (*dict.fromkeys(kinds), ALL):
            chosen = values[..., seen if kind == ALL else seen & (kinds == kind)]  # [3, L, H, N]
            self.samples[kind].add(chosen[:2].reshape(2, -1).T)
            if kind != ALL:
                self.pairs[kind] += chosen.shape[3]
                self.totals[kind] = self.totals.get(kind, 0) + chosen.sum(3)
        by_factor = values[..., seen].reshape(len(FACTORS), -1)
        self.squares += (by_factor**2).sum(1)
        self.lowest = np.minimum(self.lowest, by_factor.min(1))
        self.highest = np.maximum(self.highest, by_factor.max(1))
        means = (values * seen).sum(3).mean((1, 2)) / seen.sum(0)  # [3, S]
        for column, piece in enumerate(maps.columns.pieces):
            self.counts[piece] += 1
            self.by_piece[piece] += means[:, column]

    def means(self, kind: str) -> Doubles:
        """Return the mean of each factor over pairs of pieces `[3, L, H]`."""
        return self.totals[kind] / self.pairs[kind]

    def shares(self, kind: str) -> Doubles:
        """Return the category's share of all weights, of all vector norms and of all weighted norms `[3, L, H]`."""
        shares: Doubles = self.totals[kind] / sum(self.totals.values())
        return shares

    def spread(self, factor: str) -> tuple[float, float, float, float, float]:
        """Return mean, deviation, deviation divided by mean, lowest and highest of a factor (table 1 of the paper)."""
        n = FACTORS.index(factor)
        count = self.pairs.total() * int(np.prod(self.shape))
        mean = float(sum(total[n].sum() for total in self.totals.values())) / count
        deviation = float(np.sqrt(max(0.0, self.squares[n] / count - mean**2)))
        return mean, deviation, deviation / mean, float(self.lowest[n]), float(self.highest[n])

    def correlation(self, kind: str) -> float:
        """Return Spearman's rank correlation of weight and vector norm, in one category or in ALL."""
        return spearman(*self.samples[kind].items.T)[0]

    def rank_correlation(self, factor: str) -> float:
        """Return Spearman's rank correlation of a factor with the frequency rank of pieces (1 = most frequent)."""
        n = FACTORS.index(factor)
        means = [self.by_piece[piece][n] / count for piece, count in self.counts.items()]
        return spearman(-np.array(list(self.counts.values())), np.array(means))[0]


def spearman(a: Doubles, b: Doubles) -> tuple[float, float]:
    """Return Spearman's rank correlation and its p-value; NaN if either input is constant."""
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return np.nan, np.nan
    result = spearmanr(a, b)
    return float(result.statistic), float(result.pvalue)


def measure(model: Inspected, pairs: Iterable[Pair], parts: Sequence[Part], seed: int = 1) -> dict[Part, PartMixing]:
    """Measure the factors in a text."""
    mixed = {part: PartMixing(part, model.shape[part], seed) for part in parts}
    for by_part in model.read(pairs, parts):
        for part, maps in by_part.items():
            mixed[part].add(maps)
    if not all(part.counts for part in mixed.values()):
        raise ValueError("there is no line that the model can read")
    return mixed


def mixing(model: Inspected, pairs: Iterable[Pair], parts: Sequence[Part], seed: int = 1) -> Finding:
    """Return tables and figures of weights and norms for each kind of piece; see `measure`."""
    categories, heads, dispersion, correlations = [], [], [], []
    figures = {}
    for part, measured in measure(model, pairs, parts, seed).items():
        for kind, pairs_of_kind in measured.pairs.items():
            shares = 100 * measured.shares(kind)  # [3, L, H]
            means, of_part = measured.means(kind).mean((1, 2)), shares.mean((1, 2))
            categories.append([part, kind, pairs_of_kind, *means, of_part[0], of_part[2]])
            heads += [[part, i + 1, j + 1, kind, *shares[::2, i, j]] for i, j in np.ndindex(measured.shape)]
        for factor, symbol in zip(FACTORS, SYMBOLS, strict=True):
            dispersion.append([part, symbol, *measured.spread(factor), measured.rank_correlation(factor)])
        for kind, sample in measured.samples.items():
            correlations.append([part, kind, measured.correlation(kind), len(sample.items)])
        samples = {kind: sample.items[:SHOWN] for kind, sample in measured.samples.items() if kind != ALL}
        figures[f"{part}.points"] = partial(scatter, samples, "attention weight a", "norm of the vector, ‖f(x)‖", part)
    shares_of = "weight_share: share of a, % .1 | norm_share: of ‖af‖, % .1"
    tables = {
        "categories": make_table(
            "part | category | pieces + | weight: mean a .3 | vector: mean ‖f‖ .3 | norm: mean ‖af‖ .3 | " + shares_of,
            categories,
            "means over layers, heads and pairs of pieces; shares: of each head's sum",
        ),
        "heads": make_table(f"part | layer | head | category | {shares_of}", heads, wide=True),
        "dispersion": make_table(
            "part | factor | mean .3 | deviation: SD .3 | cv: CV .2 | lowest: min .3 | highest: max .3 | "
            "rank: Spearman with frequency rank .2",
            dispersion,
            "CV: SD by mean, over all layers, heads and pairs; rank: 1 is the most frequent piece",
        ),
        "correlation": make_table(
            "part | category | spearman: Spearman of a and ‖f‖ .2 | points",
            correlations,
            f"over pairs of pieces in all layers and heads, at most {POINTS:,} drawn at random",
        ),
    }
    return Finding(tables, figures)


def answer(question: Mixing, request: Request) -> Answer:
    """Answer the question of `extract-align analyse mixing`."""
    return question.ask(request, partial(mixing, seed=question.seed))
