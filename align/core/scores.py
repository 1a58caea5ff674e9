"""Scores of words from attention, and links from scores: norms of vectors, pieces merged into words, soft scores.

Kobayashi et al. (EMNLP 2020) write the output of multi-head attention at target step t as
`y_t = sum_s sum_h a_h[t,s] f_h(x_s) + b_O` with `f_h(x) = (x W_V + b_V)_h W_O[h]`, and score the
source piece s by the norm of its term. All those norms follow from the inner products
`G_s[h,g] = f_h(x_s) . f_g(x_s)`: H*H numbers a source piece in place of T*D.

Letters: B batch, H heads, C cells, T target steps or pieces, S source pieces, d head size, D model size,
J target words, I source words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from math import log
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from align.core.backend import AttentionRecorder
from align.core.stream import BATCH_TOKENS, OnBatch, batches
from align.core.types import (
    Agreement,
    Batch,
    Cell,
    CrossAttention,
    Head,
    LinkScores,
    Null,
    Pieces,
    Place,
    Position,
    Score,
)


def head_products(out_proj: Tensor) -> list[Tensor]:
    """Return the products of output projections `[H, d, D]` that `gram` needs, whatever the text.

    For each head h they are `W_O[h] W_O[g]^T` of the heads g up to h, side by side `[d, (h+1)*d]`.
    """
    return [out_proj[h] @ out_proj[: h + 1].flatten(0, 1).T for h in range(len(out_proj))]


def gram(values: Tensor, products: Sequence[Tensor]) -> Tensor:
    """Return the inner products `G[b,s,h,g] = f_h(x_s) . f_g(x_s)`, symmetric `[B, S, H, H]`.

    They follow from value vectors with their bias `[B, H, S, d]` and the `head_products` of the output
    projections.
    """
    batch, heads, length, size = values.shape
    vectors = values.transpose(1, 2).reshape(batch * length, heads, size)  # [B*S, H, d]
    inner = torch.empty((batch * length, heads, heads), dtype=values.dtype, device=values.device)
    for h, between in enumerate(products):  # with this head and those before it; G is symmetric
        row = (vectors[:, h] @ between).view(-1, h + 1, size).mul_(vectors[:, : h + 1]).sum(2)  # [B*S, h+1]
        inner[:, h, : h + 1] = row
        inner[:, : h + 1, h] = row
    return inner.view(batch, length, heads, heads)


def vector_norms(weights: Tensor, gram: Tensor) -> Tensor:
    """Return the norm of the sum over heads, `||sum_h a_h f_h(x_s)|| = sqrt(a^T G_s a)` (Kobayashi et al. 2020, eq. 5).

    Weights are `[B, H, T, S]`, the result is `[B, T, S]`. Squares that are negative by rounding count as 0.
    """
    inner = gram.permute(2, 3, 0, 1).unsqueeze(3)  # [H, H, B, 1, S]
    squares = torch.zeros_like(weights[:, 0])  # [B, T, S]
    for h in range(weights.shape[1]):
        row = weights[:, h] * inner[h, h]  # [B, T, S]
        for g in range(h):
            row.addcmul_(weights[:, g], inner[h, g], value=2)  # G is symmetric: each pair of heads once
        squares.addcmul_(weights[:, h], row)
    return squares.clamp_(min=0).sqrt_()


def head_norms(weights: Tensor, gram: Tensor) -> Tensor:
    """Return the norm of each head by itself, `||a_h f_h(x_s)|| = a_h sqrt(G_s[h,h])` `[B, H, T, S]`."""
    return weights * source_norms(gram).unsqueeze(2)


def source_norms(gram: Tensor) -> Tensor:
    """Return the norm of each transformed vector, `||f_h(x_s)||`, without regard to attention `[B, H, S]`."""
    return gram.diagonal(dim1=2, dim2=3).clamp(min=0).sqrt().transpose(1, 2)


TINY = torch.finfo(torch.float32).tiny  # lower bound of a divisor, which also fits into bfloat16


def hide_eos(weights: Tensor, source_words: Tensor) -> Tensor:
    """Renormalise each head's weights `[B, H, T, S]` without the source's `</s>`.

    This equals masking `</s>` before the softmax, as SHIFT-ATT does (Chen et al., EMNLP 2020). `source_words`
    is the word of each source piece `[B, S]`, negative for `</s>` and pads.
    """
    of_words = weights * (source_words >= 0)[:, None, None, :]
    return of_words / of_words.sum(-1, keepdim=True).clamp_(min=TINY)


def weight_scores(attention: CrossAttention, heads: Sequence[Head]) -> Tensor:
    """Return attention weights a_h, and their mean for all heads together; see `CELL_SCORES`."""
    weights = attention.weights.float()
    return torch.stack([weights.mean(1) if head == "all" else weights[:, head - 1] for head in heads], dim=1)


def norm_scores(attention: CrossAttention, heads: Sequence[Head]) -> Tensor:
    """Return norms ||a_h f_h(x)||, and the norm of the sum for all heads together (Kobayashi et al. 2020, eq. 5)."""
    weights, values, out_proj = (x.float() for x in (attention.weights, attention.values, attention.out_proj))
    if "all" not in heads:
        single = [head - 1 for head in heads if head != "all"]
        if single == [*range(len(out_proj))]:
            return head_norms(weights, gram(values, attention.products or head_products(out_proj)))
        return head_norms(weights[:, single], gram(values[:, single], head_products(out_proj[single])))  # [B, C, T, S]
    inner = gram(values, attention.products or head_products(out_proj))  # [B, S, H, H]
    together = vector_norms(weights, inner)  # [B, T, S]
    by_head = head_norms(weights, inner) if len(heads) > 1 else weights  # [B, H, T, S]
    return torch.stack([together if head == "all" else by_head[:, head - 1] for head in heads], dim=1)


CELL_SCORES: dict[Score, Callable[[CrossAttention, Sequence[Head]], Tensor]] = {
    "norm": norm_scores,
    "weight": weight_scores,
}
"""Scores by name, of C heads from 1 or "all" together, in any number T of rows `[B, C, T, S]`, float32.

`align.core.types.Score` lists the names, too."""


def target_rows(scores: Tensor, position: Position) -> Tensor:
    """Return the row of each target piece `[..., T, S]`, from one row for each decoder step `[..., T+1, S]`.

    Step t reads piece t-1 (step 0 reads `</s>`) and predicts piece t. In the output position a piece is aligned by the
    step that predicts it, in the input position by the step that reads it.
    """
    return scores[..., 1:, :] if position == "input" else scores[..., :-1, :]


def both_positions(read: Tensor, predicted: Tensor) -> Tensor:
    """Combine the word scores of both positions: `a b^0.5` of a row's shares.

    Attention when a word is predicted is a worse guide than when it is read, but errs in other places. The
    exponent was chosen on German–English gold; eval/results/bundled.variants.tsv has others. `read` has the
    scores of the input position, `predicted` of the output position, `[..., J, I+1]` like the result; the
    last column is `</s>`.
    """
    a, b = (
        scores / scores.sum(-1, keepdim=True).clamp_(min=TINY) for scores in (read.clamp(min=0), predicted.clamp(min=0))
    )
    return a * b.sqrt_()


def best_words(scores: Tensor, null: Null) -> tuple[Tensor, Tensor]:
    """Return the best source word of every target word, -1 for none, and its share of the row `[..., J]`.

    The last column of the scores `[..., J, I+1]` is `</s>`, which may win with "eos", and is otherwise no
    candidate.
    """
    eos = scores.shape[-1] - 1
    candidates = scores if null == "eos" else scores[..., :eos]
    top, index = candidates.max(-1)
    total = candidates.clamp(min=0).sum(-1)
    unaligned = (index == eos) | ~(total > 0)  # no score at all: a target word without pieces
    return index.masked_fill(unaligned, -1), top / total.clamp(min=TINY)


def shares(scores: Tensor, null: Null) -> Tensor:
    """Return each source word's share of its row's total over the candidates of `best_words` `[..., J, I]`.

    It is from 0 to 1, and 0 in a row without any score.
    """
    positive = scores.nan_to_num(nan=0.0).clamp_(min=0)
    words = positive[..., :-1]
    total = (positive if null == "eos" else words).sum(-1, keepdim=True)
    return words / total.clamp_(min=TINY)


NULL = -1
PAD = -2


def _pad(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    columns = np.array([*zip_longest(*rows, fillvalue=fill)], dtype=np.int64).reshape(-1, len(rows))
    return torch.from_numpy(columns.T.copy())


def collate(pairs: Sequence[Pieces], pad: int) -> Batch:
    """Return a batch of pairs that have at least one piece on either side, on the CPU."""
    return Batch(
        source=_pad([p.source for p in pairs], pad),
        source_words=_pad([p.source_words for p in pairs], PAD),
        target=_pad([p.target for p in pairs], pad),
        target_words=_pad([p.target_words for p in pairs], PAD),
        words=(max(p.words[0] for p in pairs), max(p.words[1] for p in pairs)),
    )


def merge_sources(scores: Tensor, source_words: Tensor, count: int) -> Tensor:
    """Sum scores `[B, C, T, S]` over the pieces of each of I source words, and of `</s>`, the last column.

    `source_words` is the word of each piece `[B, S]`, NULL for `</s>`, PAD for a pad. A source word without
    pieces has -1, below every score, so that it never wins `[B, C, T, I+1]`.
    """
    columns = torch.cat((torch.arange(count), torch.tensor([NULL]))).to(source_words.device)
    into_source = (source_words.unsqueeze(-1) == columns).float()  # [B, S, I+1]
    merged = scores @ into_source.unsqueeze(1)  # [B, C, T, I+1]
    return merged.masked_fill_((into_source.sum(1) == 0)[:, None, None, :], -1)


def merge_targets(scores: Tensor, target_words: Tensor, count: int) -> Tensor:
    """Average scores `[B, C, T, N]` over the pieces of each of J target words, 0 without any `[B, C, J, N]`.

    `target_words` is the word of each piece `[B, T]`, PAD for a pad.
    """
    columns = torch.arange(count, device=target_words.device)
    into_target = (target_words.unsqueeze(-1) == columns).float()  # [B, T, J]
    merged = into_target.transpose(1, 2).unsqueeze(1) @ scores  # [B, C, J, N]
    merged /= into_target.sum(1).clamp_(min=1)[:, None, :, None]
    return merged


def in_batches(
    read: Callable[[Sequence[Pieces]], Tensor], pairs: Sequence[Pieces], tokens: int, on_batch: OnBatch | None
) -> Tensor:
    """Return the word scores of B pairs `[B, J, I+1]`, as `read` returns them for batches of at most `tokens` pieces.

    Words that a pair does not have score 0 or less. What follows takes all pairs at once, since its many small steps
    cost more than their arithmetic.
    """
    parts, order = list[Tensor](), list[int]()
    for numbers in batches([(len(pair.source), len(pair.target)) for pair in pairs], tokens):
        parts.append(read([pairs[n] for n in numbers]))
        order += numbers
        if on_batch:
            on_batch(len(numbers))
    rows, columns = (max(part.shape[axis] for part in parts) for axis in (1, 2))
    if len(parts) == 1:
        scores = parts[0]
    else:
        scores = parts[0].new_zeros((len(order), rows, columns))
        for part, places in zip(parts, torch.split(scores, [*map(len, parts)]), strict=True):
            places[:, : part.shape[1], : part.shape[2] - 1] = part[..., :-1]
            places[:, : part.shape[1], -1] = part[..., -1]
    if order == sorted(order):
        return scores
    return scores.index_select(0, torch.tensor(np.argsort(order), device=scores.device))


SHARPNESS = 0.5
"""Mean share of a target word's best source word in its row, over a pair; chosen on German–English gold."""

POWERS = 0.5, 4.0  # limits of the power that rows are raised to: a pair of a few words does not justify more
ALONE = 0.1  # weight of a link without linked neighbours, where a neighbour weighs its score
MIN_AGREEMENT = 1e-3  # least agreement of a word: a few words without a partner do not decide alone


def sharpen(scores: Tensor, null: Null, sharpness: float = SHARPNESS) -> Tensor:
    """Return shares of rows that are as sharp in one pair as in another.

    One head puts nearly all of its attention on one word, another spreads it out; norm and weight of the same head
    differ, and short sentences differ from long ones. No threshold suits all of them. So the rows of a pair are raised
    to one power, within POWERS, at which the largest share of a row has a given mean. The best word of each row stays
    the best. Introduced here; eval/results/bundled.defaults.tsv has figures.

    The last column of the scores `[B, J, I+1]` is `</s>`, which has a share with "eos". The result is `[B, J,
    I]`, from 0 to 1; rows without any score are ignored, and 0.
    """
    rows = scores.nan_to_num(nan=0.0).clamp_(min=0)
    if null != "eos":
        rows[..., -1] = 0
    top = rows.amax(-1, keepdim=True)
    scored = top >= TINY
    logs = (rows / top.clamp(min=TINY)).clamp_(min=TINY).log_().masked_fill_(~scored, 0)  # parts of a row's largest
    raised = logs.mul_(_powers(logs, scored[..., 0], sharpness)[:, None, None]).exp_() * ((rows > 0) & scored)
    return shares(raised, null)


def _powers(logs: Tensor, scored: Tensor, sharpness: float) -> Tensor:
    """Return the power of each pair `[B]`, by the logarithms `[B, J, I]` of the rows that count `[B, J]`."""
    goal = log(sharpness / (1 - sharpness))
    count = scored.sum(1).clamp_(min=1)
    power = torch.ones_like(count, dtype=logs.dtype)
    # Newton steps on the mean's log odds, which are nearly a straight line: after five the error of the power is below
    # float32's precision, except in ties.
    for _ in range(5):
        raised = (logs * power[:, None, None]).exp_()
        total = raised.sum(-1)  # the largest share of a row is one part of this
        mean = ((scored / total).sum(1) / count).clamp_(1e-6, 1 - 1e-6)
        growth = -(scored * raised.mul_(logs).sum(-1) / total**2).sum(1) / count
        step = (mean.logit() - goal) * mean * (1 - mean) / growth.clamp_(min=TINY)
        power = (power - step).clamp_(*POWERS)
    return power


def soft_scores(forward: Tensor, reverse: Tensor | None = None) -> Tensor:
    """Return how well two words match each other, by both directions and by their neighbours.

    The product of both directions, `p = f r`, requires them to agree. `c(p)` normalises it by the competing words of
    either side, so that a link of two words without competitors scores 1 however unsure the models are:

        c(p)[j,i] = p[j,i] / sqrt(sum_i' p[j,i'] sum_j' p[j',i])

    Neighbours of linked words are likely to be linked. So the result is `c` of `p sqrt(ALONE + n)`, where n is the sum
    of `c(p)` over the up to eight cells around a link. Introduced here; eval/results/bundled.variants.tsv has figures.

    f (`forward`) are the shares of the source words for each target word `[B, J, I]`, r (`reverse`) those of
    the target words for each source word `[B, I, J]`; with one model `p = f f`. The result is `[B, J, I]`,
    from 0 to 1.
    """
    first = forward.double()  # claims multiply four shares, which float32 may not have room for
    product = first * (first if reverse is None else reverse.double().transpose(1, 2))
    weights = around(claims(product).to(forward)).add_(ALONE).sqrt_()
    return claims(product.mul_(weights)).to(forward)


def claims(products: Tensor) -> Tensor:
    """Return the geometric mean of each product's shares of its row and of its column `[B, J, I]`."""
    both = products.sum(2, keepdim=True) * products.sum(1, keepdim=True)
    return products / both.sqrt_().clamp_(min=torch.finfo(products.dtype).tiny)


def around(scores: Tensor) -> Tensor:
    """Return for each cell of `[B, J, I]` the sum of the up to eight cells that touch it."""

    def three(scores: Tensor) -> Tensor:  # each cell with its two neighbours in the row: faster than pooling
        sums = scores.clone()
        sums[..., 1:] += scores[..., :-1]
        sums[..., :-1] += scores[..., 1:]
        return sums

    return three(three(scores).mT).mT.sub_(scores).clamp_(min=0)


def agreements(forward: Tensor, reverse: Tensor | None, batch: Sequence[Pieces]) -> list[Agreement]:
    """Return how well both directions agree on partners of the words of each pair, as a measure of translations.

    `sum_i f[j,i] r[i,j]` is the chance that both directions link target word j to the same source word, if each draws
    one from its shares; and so for source words. The result is the geometric mean over the words of a side, with at
    least MIN_AGREEMENT each. With one model the target words compete for each source word by their squared shares,
    `r[i,j] = f[j,i]^2 / sum_j' f[j',i]^2`. Introduced here; eval/results/scores.tsv has figures, and
    eval/results/scores.definitions.tsv those of other r. f and r are those of `soft_scores`.
    """
    if reverse is None:
        squares = forward.square()
        transposed = squares / squares.sum(1, keepdim=True).clamp_(min=TINY)
    else:
        transposed = reverse.mT
    product = forward * transposed  # [B, J, I]
    means = []
    for side, axis in ((1, 2), (0, 1)):
        counts = torch.tensor([pair.words[side] for pair in batch], device=product.device)
        logs = product.sum(axis).clamp_(MIN_AGREEMENT, 1).log_()  # [B, J] or [B, I]; a rounded sum may exceed 1
        padding = torch.arange(logs.shape[1], device=logs.device) >= counts[:, None]
        means.append((logs.masked_fill_(padding, 0).sum(1) / counts).exp_().tolist())
    return list(zip(*means, strict=True))


def split_links(
    numbers: NDArray[Any], sources: NDArray[Any], targets: NDArray[Any], scores: NDArray[Any], count: int
) -> list[LinkScores]:
    """Return the links of each of `count` pairs, given all of them, in order, with the numbers of their pairs `[K]`.

    In each pair source words ascend, and for each of them the target words.
    """
    links = zip(zip(sources.tolist(), targets.tolist(), strict=True), scores.tolist(), strict=True)
    return [dict(islice(links, of_pair)) for of_pair in np.bincount(numbers, minlength=count).tolist()]


def links_above(scores: Tensor, threshold: float) -> list[LinkScores]:
    """Return the links of each pair of a batch `[B, J, I]` whose scores exceed the threshold."""
    by_source = scores.mT
    chosen = (by_source > threshold).nonzero(as_tuple=True)
    pairs, sources, targets, above = (part.cpu().numpy() for part in (*chosen, by_source[chosen]))
    return split_links(pairs, sources, targets, above, len(scores))


LinkResult = tuple[LinkScores, Agreement | None]  # links of a pair, and its agreement if they are soft

Scorer = Callable[[Tensor, "Tensor | None", Sequence[Pieces]], Tensor]
"""Returns scores as `soft_scores` does, for pairs of (I, J) words: `align.models.link_scorer` has one."""


def soft_links(
    forward: Tensor, reverse: Tensor | None, threshold: float, batch: Sequence[Pieces], scorer: Scorer | None
) -> list[LinkResult]:
    """Return the links of each pair whose scores, or `soft_scores`, exceed a threshold, and the pair's agreement."""
    links = links_above(scorer(forward, reverse, batch) if scorer else soft_scores(forward, reverse), threshold)
    return list(zip(links, agreements(forward, reverse, batch), strict=True))


def best_links(scores: Tensor, null: Null) -> list[LinkResult]:
    """Return the link of each target word to its best source word, with its share of the row `[B, J, I+1]`."""
    index, share = (best.cpu().numpy() for best in best_words(scores, null))
    pairs, targets = (index >= 0).nonzero()
    targets = targets[np.lexsort((targets, index[pairs, targets], pairs))]
    links = split_links(pairs, index[pairs, targets], targets, share[pairs, targets], len(scores))
    return [(of_pair, None) for of_pair in links]


class CellScores(NamedTuple):
    """Word scores of a batch in C cells of a layer `[B, C, J, I+1]`; the last column is `</s>`."""

    score: Score
    position: Position
    cells: Sequence[Cell]
    words: Tensor


def each_cell(
    recorder: AttentionRecorder,
    batch: Sequence[Pieces],
    cells_by_position: Mapping[Position, Sequence[Cell]],
    scores: Sequence[Score],
    null: Null,
) -> Iterator[CellScores]:
    """Yield the word scores of a batch, layer by layer; everything that is read from a model passes here.

    For each layer, lowest first, score and position come the cells of that layer in the order given. "mask"
    renormalises attention without `</s>`.
    """
    collated = collate(batch, recorder.pad)
    layers = sorted({cell.layer for cells in cells_by_position.values() for cell in cells})
    for attention in recorder.record(collated, layers):
        if attention.weights.shape[2] != collated.target.shape[1] + 1:
            raise ValueError(f"{recorder.name} gave {attention.weights.shape[2]} rows, where each step has one")
        here = {p: [cell for cell in cells if cell.layer == attention.layer] for p, cells in cells_by_position.items()}
        here = {position: cells for position, cells in here.items() if cells}
        heads = list(dict.fromkeys(cell.head for cells in here.values() for cell in cells))
        only = next(iter(here)) if len(here) == 1 else None
        parts = []
        with torch.inference_mode():  # which must not last until the caller asks for the next part
            source_words, target_words = (
                words.to(attention.weights.device) for words in (collated.source_words, collated.target_words)
            )
            # [B, H, T, S], or for both positions T+1 rows, which are the T below
            weights = target_rows(attention.weights, only) if only else attention.weights
            if null == "mask":
                weights = hide_eos(weights, source_words)
            rows = replace(attention, weights=weights)
            of_heads = [CELL_SCORES[score](rows, heads) for score in scores]  # [B, heads, T, S]
            pieces = torch.cat(of_heads, dim=1)  # [B, scores x heads, T, S]
            merged = merge_sources(pieces, source_words, collated.words[0])  # [B, scores x heads, T, I+1]
            for position, cells in here.items():
                of_position = merged if only else target_rows(merged, position)
                words = merge_targets(of_position, target_words, collated.words[1])  # [B, scores x heads, J, I+1]
                for score, of_score in zip(scores, words.chunk(len(scores), dim=1), strict=True):
                    chosen = [heads.index(cell.head) for cell in cells]
                    of_cells = of_score if chosen == list(range(len(heads))) else of_score[:, chosen]
                    parts.append(CellScores(score, position, cells, of_cells))
        yield from parts


@dataclass(frozen=True)
class AttentionReader:
    """Reads word scores and links from a model's attention, as `Settings` describe.

    A `scorer` gives the soft scores in place of `soft_scores`.
    """

    recorder: AttentionRecorder
    score: Score = "norm"
    null: Null = "eos"
    threshold: float | None = None
    scorer: Scorer | None = None

    def scores(
        self, pairs: Sequence[Pieces], place: Place, tokens: int = BATCH_TOKENS, on_batch: OnBatch | None = None
    ) -> Tensor:
        """Return the word scores of B pairs `[B, J, I+1]`; the last column is `</s>`. See `in_batches`."""
        cells = {position: [cell] for position, cell in place.cells().items()}

        def read(batch: Sequence[Pieces]) -> Tensor:
            parts = each_cell(self.recorder, batch, cells, [self.score], self.null)
            words = {part.position: part.words[:, 0] for part in parts}
            if len(words) == 2:
                return both_positions(words["input"], words["output"])
            return next(iter(words.values()))

        return in_batches(read, pairs, tokens, on_batch)

    def shares(
        self, pairs: Sequence[Pieces], place: Place, tokens: int = BATCH_TOKENS, on_batch: OnBatch | None = None
    ) -> Tensor:
        """Return each source word's share of its row, sharpened, of B pairs `[B, J, I]`; see `in_batches`."""
        return sharpen(self.scores(pairs, place, tokens, on_batch), self.null)

    def links(
        self, pairs: Sequence[Pieces], place: Place, tokens: int = BATCH_TOKENS, on_batch: OnBatch | None = None
    ) -> list[LinkResult]:
        """Return the links of each pair, and the agreement if they are soft; see `in_batches`.

        The score of a link is that of its words, or without a threshold its share of the target word's row.
        """
        if self.threshold is not None:
            shares = self.shares(pairs, place, tokens, on_batch)
            return soft_links(shares, None, self.threshold, pairs, self.scorer)
        return best_links(self.scores(pairs, place, tokens, on_batch), self.null)
