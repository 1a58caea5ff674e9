"""Scores of word pairs in every way that `eval/variants.py` tries, in plain numpy, a pair at a time.

Letters: H heads, T target pieces, S source pieces, d head size, D model size, J target words, I source words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from align import Aligner, Pair
from align.aligners.encoding import encode
from align.aligners.single import choose_for
from align.attention.merging import collate
from align.types import Cell, Links, Pieces

Array = Any
"""A numpy array of floats, of the shape that is said beside it."""

SCORES = ("norm", "weight", "l1 norm", "norm after layer norm", "l1 norm after layer norm", "sum of heads' norms")
TINY = 1e-12


class Recorded(NamedTuple):
    """One layer of one pair: attention weights `[H, T+1, S]`, value vectors `[H, S, d]`, and its pieces."""

    weights: Array
    values: Array
    pieces: Pieces


class Way:
    """One direction: what a model's decoder attends to in each pair, and the cell that it would be read at.

    Args:
        aligner: of the model; left on "auto", as it comes.
        pairs: with the model's source first.
    """

    def __init__(self, aligner: Aligner, pairs: list[Pair]) -> None:
        place = choose_for(aligner, [encode(aligner.recorder, pair, "blank") for pair in pairs]).place
        self.cell, self.heads = place.cells()["input"], aligner.recorder.heads
        recorder: Any = aligner.recorder
        self.layers: dict[int, list[Recorded]] = {}
        self.out_proj: dict[int, Array] = {}
        for pair in pairs:
            pieces = recorder.encode(pair)
            batch = collate([pieces], recorder.pad)
            for found in recorder.record(batch, [self.cell.layer, min(self.cell.layer + 1, recorder.layers)]):
                kept = Recorded(found.weights[0].numpy(), found.values[0].numpy(), pieces)
                self.layers.setdefault(found.layer, []).append(kept)
                self.out_proj[found.layer] = found.out_proj.numpy()
        norms = [layer.encoder_attn_layer_norm.weight.detach().numpy() for layer in recorder.model.decoder.layers]
        self.gains: dict[int, Array] = dict(enumerate(norms, 1))

    def shares(
        self,
        score: str = "norm",
        cell: Cell | None = None,
        position: str = "input",
        null: str = "eos",
        merge: tuple[str, str] = ("sum", "mean"),
    ) -> list[Array]:
        """Shares of each target word's row for every pair `[J, I]`, as `align.attention.scores.shares` has them."""
        cell = cell or self.cell
        found = []
        for one in self.layers[cell.layer]:
            rows = self._merge(self._score(one, score, cell, position, null == "mask"), one.pieces, merge)
            total = (rows if null == "eos" else rows[:, :-1]).sum(1, keepdims=True)
            found.append(rows[:, :-1] / np.maximum(total, TINY))
        return found

    def _score(self, one: Recorded, score: str, cell: Cell, position: str, mask: bool) -> Array:
        """Scores of pieces `[T, S]`."""
        weights = one.weights[:, 1:] if position == "input" else one.weights[:, :-1]
        if mask:
            weights = weights * (np.array(one.pieces.source_words) >= 0)
            weights = weights / np.maximum(weights.sum(-1, keepdims=True), TINY)
        if score == "weight":
            return weights.mean(0) if cell.head == "all" else weights[cell.head - 1]
        out_proj = self.out_proj[cell.layer]  # [H, d, D]
        if "after layer norm" in score:  # linear but for a factor that a row's scores share
            out_proj = (out_proj - out_proj.mean(-1, keepdims=True)) * self.gains[cell.layer]
        vectors = np.einsum("hsd,hdD->hsD", one.values, out_proj)
        if score == "sum of heads' norms" and cell.head == "all":
            return (weights * np.linalg.norm(vectors, axis=-1)[:, None]).sum(0)
        order = 1 if score.startswith("l1") else 2
        if cell.head != "all":
            return weights[cell.head - 1] * np.linalg.norm(vectors[cell.head - 1], order, axis=-1)
        return np.linalg.norm(np.einsum("hts,hsD->tsD", weights, vectors), order, axis=-1)

    @staticmethod
    def _merge(scores: Array, pieces: Pieces, merge: tuple[str, str]) -> Array:
        """Scores of words `[J, I+1]`, the last column being `</s>`."""
        words = pieces.words
        columns = np.array([word if word >= 0 else words[0] for word in pieces.source_words])
        join: dict[str, Any] = {"sum": np.sum, "mean": np.mean, "max": np.max}
        by_source = np.zeros((len(scores), words[0] + 1), np.float32)
        for i in set(columns.tolist()):
            by_source[:, i] = join[merge[0]](scores[:, columns == i], axis=1)
        found = np.zeros((words[1], words[0] + 1), np.float32)
        rows = np.array(pieces.target_words)
        for j in set(pieces.target_words):
            found[j] = join[merge[1]](by_source[rows == j], axis=0)
        return found

    def piece_links(self) -> list[Links]:
        """The best source piece of each target piece, and the words that these are parts of."""
        found = []
        for one in self.layers[self.cell.layer]:
            best = self._score(one, "norm", self.cell, "input", False).argmax(1)
            words = [(one.pieces.source_words[s], one.pieces.target_words[t]) for t, s in enumerate(best)]
            found.append(frozenset((i, j) for i, j in words if i >= 0))
        return found


def claims(product: Array) -> Array:
    """`align.attention.soft.soft_scores` of one pair `[J, I]`."""
    return product / np.sqrt(np.maximum(product.sum(1, keepdims=True) * product.sum(0, keepdims=True), TINY))
