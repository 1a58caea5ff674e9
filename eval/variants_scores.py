"""Scores of word pairs in every way that `variants` tries: the library's functions, and beside them what it has not.

Letters: H heads, T target pieces, S source pieces, d head size, D model size, J target words, I source words. Each
pair is a batch of its own, so that all shapes begin with 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from common import chosen_cell
from torch import Tensor
from torch.nn.functional import conv2d

from align import Aligner, Pair
from align.core.consistency import LinkedWords
from align.core.merging import collate, merge_words
from align.core.norms import gram, head_norms, head_products
from align.core.scores import TINY, best_words, cell_scores, hide_eos, shares, target_rows
from align.core.settings import Null
from align.core.soft import claims, sharpen, soft_scores
from align.core.types import Batch, Cell, CrossAttention, Links, Position
from align.models.recorder import ModelRecorder

Scores = list[Tensor]
"""Scores of all pairs, each `[1, J, I]`."""

Merge = tuple[str, str]
"""How scores of a source and of a target word's pieces become the word's, by their names in JOIN."""

JOIN: dict[str, Callable[[Tensor, int], Tensor]] = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}
MERGE: Merge = ("sum", "mean")


def normalised(attention: CrossAttention, gain: Tensor) -> CrossAttention:
    """Attention whose vectors are as the layer norm behind it leaves them, but for a factor that a row shares."""
    out_proj = attention.out_proj  # [H, d, D]
    return replace(attention, out_proj=(out_proj - out_proj.mean(-1, keepdim=True)) * gain)


def l1_norms(attention: CrossAttention, cell: Cell) -> Tensor:
    """The sum of absolute values in place of the norm `[1, T, S]`."""
    vectors = torch.einsum("bhsd,hdD->bhsD", attention.values, attention.out_proj)
    weights = attention.weights
    if cell.head != "all":
        return weights[:, cell.head - 1] * vectors[:, cell.head - 1].abs().sum(-1)[:, None]
    return torch.einsum("bhts,bhsD->btsD", weights, vectors).abs().sum(-1)


def summed_norms(attention: CrossAttention, cell: Cell) -> Tensor:
    """The sum of all heads' norms, in place of the norm of their sum `[1, T, S]`; of one head there is but one."""
    if cell.head != "all":
        return norms(attention, cell)
    return head_norms(attention.weights, gram(attention.values, head_products(attention.out_proj))).sum(1)


def norms(attention: CrossAttention, cell: Cell) -> Tensor:
    """The library's norms `[1, T, S]`."""
    return cell_scores(attention, [cell.head], "norm")[:, 0]


SCORES: dict[str, Callable[[CrossAttention, Cell, Tensor], Tensor]] = {
    "norm": lambda attention, cell, gain: norms(attention, cell),
    "weight": lambda attention, cell, gain: cell_scores(attention, [cell.head], "weight")[:, 0],
    "l1 norm": lambda attention, cell, gain: l1_norms(attention, cell),
    "norm after layer norm": lambda attention, cell, gain: norms(normalised(attention, gain), cell),
    "l1 norm after layer norm": lambda attention, cell, gain: l1_norms(normalised(attention, gain), cell),
    "sum of heads' norms": lambda attention, cell, gain: summed_norms(attention, cell),
}
"""Scores of pieces `[1, T, S]` out of a layer's attention, T rows, at a cell; the gain is its layer norm's `[D]`."""


def merge_by(scores: Tensor, batch: Batch, merge: Merge) -> Tensor:
    """Scores of words `[1, J, I+1]`, the last column being `</s>`; of words without a piece 0."""
    over_source, over_target = (JOIN[name] for name in merge)
    sources, targets = batch.words
    source_words = batch.source_words[0].where(batch.source_words[0] >= 0, sources)
    by_source = scores.new_zeros(scores.shape[1], sources + 1)  # [T, I+1]
    for i in set(source_words.tolist()):
        by_source[:, i] = over_source(scores[0, :, source_words == i], 1)
    words = scores.new_zeros(1, targets, sources + 1)
    for j in set(batch.target_words[0].tolist()):
        words[0, j] = over_target(by_source[batch.target_words[0] == j], 0)
    return words


class Way:
    """One direction: what a model's decoder attends to in each pair, and the cell that it would be read at.

    Args:
        aligner: of the model; left on "auto", as it comes.
        pairs: with the model's source first.

    Raises:
        ValueError: the model has no layer norm to look at, or no pair can be aligned.
    """

    def __init__(self, aligner: Aligner, pairs: Sequence[Pair]) -> None:
        recorder = aligner.forward.recorder
        if not (isinstance(recorder, ModelRecorder) and recorder.backend == "fairseq"):
            raise ValueError(f"{recorder.name}: some variants look at a fairseq model's layer norms")
        self.cell = chosen_cell(aligner, pairs)
        self.heads = recorder.heads
        self.next_layer = Cell(min(self.cell.layer + 1, recorder.layers), "all")
        self.pairs = pairs
        layers = sorted({self.cell.layer, self.next_layer.layer})
        self._batches = [collate([recorder.encode(pair)], recorder.pad) for pair in pairs]
        recorded = [{found.layer: found for found in recorder.record(batch, layers)} for batch in self._batches]
        self._attention = {layer: [found[layer] for found in recorded] for layer in layers}
        decoder = recorder.transformer.decoder.layers
        blocks = {layer: decoder[layer - 1].cross_block for layer in layers}
        self._gains = {layer: block.norm.weight for layer, block in blocks.items() if block}

    def shares(
        self,
        score: str = "norm",
        cell: Cell | None = None,
        position: Position = "input",
        null: Null = "eos",
        merge: Merge = MERGE,
    ) -> Scores:
        """What each source word holds of its target word's row, sharpened."""
        return [sharpen(words, null) for words in self.word_scores(score, cell, position, null, merge)]

    def rows(self, cell: Cell | None = None, position: Position = "input") -> Scores:
        """What each source word, and `</s>`, holds of its target word's row, not sharpened `[1, J, I+1]`."""
        return [with_null(shares(words, "eos")) for words in self.word_scores(cell=cell, position=position)]

    def word_scores(
        self,
        score: str = "norm",
        cell: Cell | None = None,
        position: Position = "input",
        null: Null = "eos",
        merge: Merge = MERGE,
    ) -> list[Tensor]:
        """Scores of words for every pair `[1, J, I+1]`, the last column being `</s>`."""
        found = []
        for n, batch in enumerate(self._batches):
            pieces = self._piece_scores(n, score, cell or self.cell, position, null)
            if merge == MERGE:
                found.append(merge_words(pieces[:, None], batch.source_words, batch.target_words, batch.words)[:, 0])
            else:
                found.append(merge_by(pieces, batch, merge))
        return found

    def _piece_scores(self, n: int, score: str, cell: Cell, position: Position, null: Null) -> Tensor:
        """Scores of the pieces of one pair `[1, T, S]`."""
        attention = self._attention[cell.layer][n]
        weights = target_rows(attention.weights, position)
        if null == "mask":
            weights = hide_eos(weights, self._batches[n].source_words)
        return SCORES[score](replace(attention, weights=weights), cell, self._gains[cell.layer])

    def piece_links(self) -> list[Links]:
        """The best source piece of each target piece, and the words that these are parts of."""
        found = []
        for n, batch in enumerate(self._batches):
            best = self._piece_scores(n, "norm", self.cell, "input", "eos")[0].argmax(1)  # [T]
            words = zip(batch.source_words[0, best].tolist(), batch.target_words[0].tolist(), strict=True)
            found.append(frozenset((i, j) for i, j in words if i >= 0))
        return found

    def second_head(self) -> Cell:
        """The head of the chosen layer whose links are the most consistent but for the head that was chosen."""
        cells = [Cell(self.cell.layer, head) for head in range(1, self.heads + 1) if head != self.cell.head]
        scores = [self.word_scores(cell=cell) for cell in cells]
        linked = LinkedWords((len(cells),))
        for pair, *words in zip(self.pairs, *scores, strict=True):
            linked.add(pair, best_words(torch.cat(words), "eos")[0].numpy())  # [C, J]
        return cells[int(linked.consistency().argmax())]


def soft(forward: Scores, reverse: Scores) -> Scores:
    """Soft scores of every pair."""
    return [soft_scores(f, r) for f, r in zip(forward, reverse, strict=True)]


KERNELS = {
    "the two of the diagonal": [[1, 0, 0], [0, 0, 0], [0, 0, 1]],
    "four beside": [[0, 1, 0], [1, 0, 1], [0, 1, 0]],
    "six": [[1, 1, 0], [1, 0, 1], [0, 1, 1]],
    "eight": [[1, 1, 1], [1, 0, 1], [1, 1, 1]],
}
"""Which neighbours of a link count."""


def soft_near(forward: Scores, reverse: Scores, near: str, least: float, power: float) -> Scores:
    """Soft scores of every pair with other neighbours, or with a weight that grows otherwise."""
    found = []
    for f, r in zip(forward, reverse, strict=True):
        product = f.double() * r.mT
        kernel = product.new_tensor(KERNELS[near])[None, None]
        beside = conv2d(claims(product)[:, None], kernel, padding=1)[:, 0]
        found.append(claims(product * (least + beside) ** power).float())
    return found


def with_null(row_shares: Tensor) -> Tensor:
    """Shares with those of `</s>`, which has what is left of a row `[1, J, I+1]`."""
    return torch.cat([row_shares, (1 - row_shares.sum(-1, keepdim=True)).clamp(min=0)], -1)


def best(word_scores: Sequence[Tensor]) -> list[Links]:
    """Each target word's best source word, unless `</s>` has more than it."""
    index = [best_words(words, "eos")[0][0].tolist() for words in word_scores]  # J each
    return [frozenset((i, j) for j, i in enumerate(row) if i >= 0) for row in index]


FORMULAS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "2fr/(f+r)": lambda f, r: 2 * f * r / (f + r).clamp(min=TINY),
    "sqrt(fr)": lambda f, r: (f * r).sqrt(),
    "(f+r)/2": lambda f, r: (f + r) / 2,
    "min(f,r)": torch.minimum,
    "soft of sqrt(fr)": lambda f, r: soft_scores((f * r).sqrt()),
    "soft of 2fr/(f+r)": lambda f, r: soft_scores(2 * f * r / (f + r).clamp(min=TINY)),
    "soft of (f+r)/2": lambda f, r: soft_scores((f + r) / 2),
}
"""Scores out of both directions' shares, each `[1, J, I]`."""
