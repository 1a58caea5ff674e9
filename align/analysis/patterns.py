"""Patterns of attention maps: vertical, diagonal, both, block, or heterogeneous (Kovaleva et al. 2019).

In the paper, annotators labelled 400 maps and a network trained on them labelled the rest. This module uses a rule
instead, based on how much of the attention goes to certain cells:

- stripes: the tenth of the columns, at least one, with the most attention in total;
- band: three neighbouring diagonals, whose middle one is at most two pieces before or after a row's own piece, chosen
  to get the most attention; cells in stripes are excluded. In cross-attention, where rows and columns differ, a row's
  own piece is at the same relative position in the other text;
- blocks: the cells whose row and column are in the same segment, only for texts with two segments, as BERT reads them.

Each is a share p of all attention, and is compared with q, the share that the same cells would get if every piece
attended equally to all that it may attend to: `score = (p - q) / (1 - q)` is 0 for such uniform attention, and 1 if
nothing else gets attention. With a threshold t, 0.5 by default, a map is

1. vertical + diagonal, if stripes and band both have at least t/2;
2. vertical, if stripes have at least t;
3. diagonal, if the band has at least t;
4. block, if blocks have at least t;
5. heterogeneous otherwise.

Letters: L layers, H heads, T rows, S columns, N texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import tee

import numpy as np
from numpy.typing import NDArray

from align.analysis.commands.common import Answer
from align.analysis.commands.questions import Patterns
from align.analysis.maps import MEASURES, SPECIAL, Counts, Doubles, Inspected, Maps, Mask, Tokens, measured
from align.analysis.plots import attention_maps, bars
from align.analysis.resampling import Draws
from align.cli.loading import Request
from align.core.errors import DataError, plural
from align.core.types import Pair, Part
from align.view.findings import Finding, make_table

PATTERNS = ("vertical", "diagonal", "vertical + diagonal", "block", "heterogeneous")
VERTICAL, DIAGONAL, BOTH, BLOCK, HETEROGENEOUS = range(len(PATTERNS))

THRESHOLD = 0.5
SHORTEST = 8  # minimum rows and columns of a map; in smaller maps most cells are in the band
CENTRES = (0, -1, 1, -2, 2)
"""Offsets in pieces of the band's middle from a row's own piece; the first wins on ties."""

STRIPE = 10  # columns per stripe
LONGEST_SHOWN = 25  # maximum rows and columns of maps to draw


def score(values: NDArray[np.float32], seen: Mask, segments: Counts | None = None) -> Doubles:
    """Return the scores of the maps of one text: of stripes, of the band, and of blocks `[3, L, H]`.

    Args:
        values: weights or norms `[L, H, T, S]`.
        seen: which columns each row may attend to `[T, S]`.
        segments: the segment of each piece of self-attention `[S]`; None if there is only one, whose score is 0.
    """
    shares = values.astype(np.float64) * seen
    shares /= np.maximum(shares.sum(3, keepdims=True), 1e-12)  # norms do not sum to 1
    chance = seen / seen.sum(1, keepdims=True)  # [T, S]
    rows, columns = seen.shape

    def above_chance(cells: Mask) -> Doubles:
        p = (shares * cells).sum(3).mean(2)
        q = (chance * cells).sum(-1).mean(-1)
        above: Doubles = (p - q) / np.maximum(1 - q, 1e-12)
        return above

    count = -(-columns // STRIPE)
    ranks = np.argsort(-shares.mean(2), axis=2, kind="stable").argsort(axis=2)  # [L, H, S]
    stripes = (ranks < count)[:, :, None]  # [L, H, 1, S]
    bands = np.stack([band(rows, columns, centre) for centre in CENTRES])  # [5, T, S]
    near = bands[np.einsum("lhts,cts->lhc", shares, bands).argmax(2)]  # [L, H, T, S]
    blocks = np.zeros(shares.shape[:2])
    if segments is not None:
        blocks = above_chance(segments == segments[:, None])
    return np.stack((above_chance(stripes), above_chance(near & ~stripes), blocks))


def band(rows: int, columns: int, centre: int) -> Mask:
    """Return the cells near a diagonal `[T, S]`, `centre` columns after the main one."""
    places = np.arange(rows) * ((columns - 1) / max(1, rows - 1)) + centre
    near: Mask = np.abs(places[:, None] - np.arange(columns)) <= 1
    return near


def name(scores: Doubles, threshold: float = THRESHOLD) -> Counts:
    """Return the index into PATTERNS of each head's pattern `[L, H]`, from its scores `[3, L, H]`."""
    stripes, near, blocks = scores
    conditions = [
        (stripes >= threshold / 2) & (near >= threshold / 2),
        stripes >= threshold,
        near >= threshold,
        blocks >= threshold,
    ]
    return np.select(conditions, [BOTH, VERTICAL, DIAGONAL, BLOCK], HETEROGENEOUS)


def typical(scores: Doubles) -> Doubles:
    """Return how typical each head's map is of each pattern `[5, L, H]`, from its scores `[3, L, H]`."""
    stripes, near, blocks = scores
    return np.stack([
        stripes - np.maximum(near, 0),
        near - np.maximum(stripes, 0),
        np.minimum(stripes, near),
        blocks - np.maximum(np.maximum(stripes, near), 0),
        -scores.max(0),
    ])  # fmt: skip


@dataclass
class PartPatterns:
    """Patterns of one part of a model."""

    part: Part
    threshold: float
    # indices into PATTERNS for each text, by measure, N arrays `[L, H]`
    names: dict[str, list[Counts]] = field(default_factory=lambda: {measure: [] for measure in MEASURES})
    # by pattern, how typical the most typical map by weights is, its layer and head, and the text's maps
    examples: dict[int, tuple[float, tuple[int, int], Maps]] = field(default_factory=dict)
    short: int = 0  # number of texts that were skipped as too short

    def add(self, pair: Pair, maps: Maps) -> None:
        """Classify the maps of a text."""
        t, s = len(maps.rows), len(maps.columns)
        if min(t, s) < SHORTEST:
            self.short += 1
            return
        seen = np.tri(t, s) > 0 if self.part == "decoder" else np.ones((t, s), bool)
        segments = segments_of(maps.columns, pair) if self.part == "encoder" else None
        for measure, values in measured(maps).items():
            scores = score(values, seen, segments)
            names = name(scores, self.threshold)
            self.names[measure].append(names)
            if measure != "weight" or max(t, s) > LONGEST_SHOWN:
                continue
            for pattern, typicality in enumerate(typical(scores)):
                candidates = np.where(names == pattern, typicality, -np.inf)
                layer, head = map(int, np.unravel_index(candidates.argmax(), candidates.shape))
                best = self.examples[pattern][0] if pattern in self.examples else -np.inf
                if candidates[layer, head] > best:
                    self.examples[pattern] = float(candidates[layer, head]), (layer, head), maps

    def shares(self, measure: str) -> Doubles:
        """Return one-hot patterns of each text `[N, 5, L, H]`."""
        names = np.array(self.names[measure])[:, None]  # [N, 1, L, H]
        shares: Doubles = (names == np.arange(len(PATTERNS))[:, None, None]).astype(np.float64)
        return shares


def segments_of(tokens: Tokens, pair: Pair) -> Counts | None:
    """Return the segment of each piece if the encoder reads both sides of a pair, else None.

    A special piece belongs to the segment that it follows; the first special piece to the first segment.
    """
    if not pair.target or len(tokens.text) != len(pair.source) + len(pair.target):
        return None
    segment, segments = 0, []
    for word in tokens.words:
        segment = segment if word == SPECIAL else int(word >= len(pair.source))
        segments.append(segment)
    return np.array(segments)


def patterns(
    model: Inspected, pairs: Iterable[Pair], parts: Sequence[Part], threshold: float = THRESHOLD, seed: int = 1
) -> Finding:
    """Classify the attention maps of a text; see the module for the threshold."""
    by_part = {part: PartPatterns(part, threshold) for part in parts}
    pairs, read = tee(pairs)
    for pair, maps_of_parts in zip(pairs, model.read(read, parts), strict=True):
        for part, maps in maps_of_parts.items():
            by_part[part].add(pair, maps)
    if not all(part_patterns.names["weight"] for part_patterns in by_part.values()):
        raise DataError(f"there is no line of {SHORTEST} pieces or more that the model can read")
    rows, layers, heads, figures = [], [], [], {}
    for part, found in by_part.items():
        draws = Draws(len(found.names["weight"]), seed)
        of_layers = []  # [5, L] by each measure
        for measure, symbol in MEASURES.items():
            shares = found.shares(measure)  # [N, 5, L, H]
            of_texts = [draws.share(share, np.ones_like(share)) for share in shares.mean((2, 3)).T]
            values, intervals = zip(*of_texts, strict=True)
            rows.append([part, symbol, *values, *intervals, len(shares)])
            of_layers.append(100 * shares.mean((0, 3)))
            layers += [[part, layer, symbol, *row] for layer, row in enumerate(of_layers[-1].T, 1)]
            of_heads = 100 * shares.mean(0)  # [5, L, H]
            heads += [[part, i + 1, j + 1, symbol, *of_heads[:, i, j]] for i, j in np.ndindex(of_heads.shape[1:])]
        by_layer = np.stack(of_layers, -1)  # [5, L, 2]
        names = [f"{layer + 1} {symbol}" for layer in range(by_layer.shape[1]) for symbol in MEASURES.values()]
        heights = {key: [float(share) for share in by_layer[n].ravel()] for n, key in enumerate(PATTERNS)}
        figures[f"{part}.shares"] = partial(bars, names, heights, {}, "maps of a layer, %", part)
        panels = {
            f"{PATTERNS[pattern]} ({i + 1}-{j + 1})": (
                maps.weights[i, j].astype(np.float64), maps.rows.pieces, maps.columns.pieces
            )
            for pattern, (_, (i, j), maps) in sorted(found.examples.items())
        }  # fmt: skip
        if panels:
            figures[f"{part}.examples"] = partial(attention_maps, panels, f"{part}: the most typical maps (layer-head)")
    notes = ["shares of the maps of all heads in all texts; intervals: 95 %, bootstrap over texts"]
    if not all(found.examples for found in by_part.values()):
        notes.append(f"no map is drawn of texts of more than {LONGEST_SHOWN} pieces")
    if short := sum(found.short for found in by_part.values()):
        notes.append(
            f"{plural(short, 'text')} left out that a part has fewer than {SHORTEST} pieces of, counted by part"
        )
    headings = ("vertical", "diagonal", "both", "block", "other")
    columns = " | ".join(f"{key}: {head}, % .1" for key, head in zip(PATTERNS, headings, strict=True))
    ends = " | ".join(f"{key} interval: {key}, interval .1 +" for key in PATTERNS)
    tables = {
        "parts": make_table(f"part | measure | {columns} | {ends} | texts", rows, *notes),
        "layers": make_table(f"part | layer | measure | {columns}", layers),
        "heads": make_table(f"part | layer | head | measure | {columns}", heads, wide=True),
    }
    return Finding(tables, figures)


def answer(question: Patterns, request: Request) -> Answer:
    """Answer the question of `extract-align analyse patterns`."""
    return question.ask(request, partial(patterns, threshold=question.threshold, seed=question.seed))
