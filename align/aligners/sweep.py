"""Every layer, head, score and position in one pass over a text: what each would link, and how good that is.

Letters: C cells (each layer's heads, and all of them together), J target words, I source words; arrays over all
settings are `[2, 2, C]`: score (as in SCORES), position (as in POSITIONS), cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from align.aligners.single import Aligner
from align.aligners.swept import POSITIONS, SCORES, Sweep
from align.attention.consistency import Vocabulary, lexical_consistency
from align.attention.merging import collate, merge_sources, merge_targets
from align.attention.scores import best_words, cell_scores, hide_eos, target_rows
from align.batching import batches, chunks
from align.types import Batch, Cell, CrossAttention, Gold, Null, Pair

CONSISTENCY_PAIRS = 2000
"""Pairs at the start of the text that lexical consistency is computed from: more change nothing but memory."""


class Linked(NamedTuple):
    """What all settings link in one pair.

    `words` is the source word of each target word, -1 for none `[2, 2, C, J]`; `norms` the sum of the norms over
    all target and source pieces, `</s>` among them `[2, C]` by position and cell; `pieces` how many were summed.
    """

    pair: Pair
    words: NDArray[np.int64]
    norms: NDArray[np.float64]
    pieces: int


def all_cells(aligner: Aligner) -> list[Cell]:
    """Each layer's heads, and all of them together first."""
    heads = (None, *range(1, aligner.recorder.heads + 1))
    return [Cell(layer, head) for layer in range(1, aligner.recorder.layers + 1) for head in heads]


def sweep(
    aligner: Aligner, pairs: Iterable[Pair], gold: Sequence[Gold] | None = None, reverse: Aligner | None = None
) -> Sweep:
    """Link a text in every setting, in one pass, and count.

    Args:
        aligner: the model; of its settings only `null` and the sizes count.
        pairs: the text.
        gold: links of each pair, all of them within it; None for no counts.
        reverse: a model of the other direction, for agreement.

    Raises:
        ValueError: another number of pairs than gold has.
        PairError: a pair that is too long, unless the aligner leaves such pairs without links.
    """
    found = Sweep(all_cells(aligner), all_cells(reverse) if reverse else [])
    shape = (len(SCORES), len(POSITIONS), len(found.cells))
    found.null = np.zeros(shape, dtype=np.int64)
    norms, pieces = np.zeros((len(POSITIONS), len(found.cells))), 0
    counts: list[NDArray[np.int64]] = []
    words = _LinkedWords()
    agreement = _Agreement(len(found.cells), len(found.reverse_cells))
    for chunk in chunks(pairs, aligner.buffer):
        back = link_all(reverse, [Pair(pair.target, pair.source, pair.id) for pair in chunk]) if reverse else None
        for pair, links in zip(chunk, link_all(aligner, chunk), strict=True):
            other = next(back) if back else None
            if gold is not None and found.pairs < len(gold):
                counts.append(_count(links, gold[found.pairs], shape))
            found.pairs += 1
            found.skipped += links is None and not pair.blank
            if links is None:
                continue
            found.target_words += len(pair.target)
            found.null += (links.words < 0).sum(-1)
            norms += links.norms
            pieces += links.pieces
            if found.pairs <= CONSISTENCY_PAIRS:
                words.add(links)
            if other is not None:
                agreement.add(links, other)
    if gold is not None and found.pairs != len(gold):
        raise ValueError(f"the text has {found.pairs:,} sentence pairs, the gold {len(gold):,}")
    found.counts = np.array(counts).reshape(-1, *shape, 4) if gold is not None else None
    found.norm = norms / max(1, pieces)
    found.consistency = words.consistency(shape)
    found.dice = agreement.dice()
    return found


def _count(links: Linked | None, gold: Gold, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """|A∩S|, |A∩P|, |A|, |S| in every setting `[2, 2, C, 4]`."""
    counts = np.zeros((*shape, 4), dtype=np.int64)
    counts[..., 3] = len(gold.sure)
    if links is None:
        return counts
    targets = np.arange(len(links.pair.target))
    for kind, some in enumerate((gold.sure, gold.possible)):
        marked = np.zeros((len(targets), len(links.pair.source) + 1), dtype=bool)  # the last column is no link
        for i, j in some:
            marked[j, i] = True
        counts[..., kind] = marked[targets, links.words].sum(-1)
    counts[..., 2] = (links.words >= 0).sum(-1)
    return counts


class _LinkedWords:
    """Linked words of the first pairs, by number, in all settings at once."""

    def __init__(self) -> None:
        self._vocabularies = Vocabulary(), Vocabulary()
        self._sources: list[NDArray[np.int64]] = []
        self._targets: list[NDArray[np.int64]] = []
        self._words: list[NDArray[np.int64]] = []
        self._length = 0

    def add(self, links: Linked) -> None:
        """Keep one pair's links; source words are numbered through the whole text."""
        self._sources.append(self._vocabularies[0].numbers(links.pair.source))
        self._targets.append(self._vocabularies[1].numbers(links.pair.target))
        self._words.append(np.where(links.words >= 0, links.words + self._length, -1))
        self._length += len(links.pair.source)

    def consistency(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Lexical consistency of every setting `[2, 2, C]`."""
        if not self._words:
            return np.zeros(shape)
        sources, targets = np.concatenate(self._sources), np.concatenate(self._targets)
        words = np.concatenate(self._words, axis=-1).reshape(-1, len(targets))
        values = [lexical_consistency(sources[w[w >= 0]], targets[w >= 0], len(targets)) for w in words]
        return np.array(values).reshape(shape)


class _Agreement:
    """Links of two directions: how many there are, and how many are the same."""

    def __init__(self, cells: int, reverse_cells: int) -> None:
        shape = (len(SCORES), len(POSITIONS))
        self._same = np.zeros((*shape, cells, reverse_cells), dtype=np.int64)
        self._links = np.zeros((*shape, cells, 1), dtype=np.int64)
        self._reverse_links = np.zeros((*shape, 1, reverse_cells), dtype=np.int64)

    def add(self, links: Linked, reverse: Linked) -> None:
        """Count one pair."""
        targets = np.arange(links.words.shape[-1])
        for s in range(len(SCORES)):
            for p in range(len(POSITIONS)):
                forward, backward = links.words[s, p], reverse.words[s, p]  # [C, J] source words, [C', I] target words
                returned = backward[:, np.maximum(forward, 0)]  # [C', C, J]
                same = (returned == targets) & (forward >= 0)
                self._same[s, p] += same.sum(-1).T
                self._links[s, p, :, 0] += (forward >= 0).sum(-1)
                self._reverse_links[s, p, 0] += (backward >= 0).sum(-1)

    def dice(self) -> NDArray[np.float64]:
        """2|F∩R| / (|F|+|R|) for every pair of cells `[2, 2, C, C']`, 0 where neither has a link."""
        dice: NDArray[np.float64] = 2 * self._same / np.maximum(1, self._links + self._reverse_links)
        return dice


def link_all(aligner: Aligner, pairs: Sequence[Pair]) -> Iterator[Linked | None]:
    """Links of a buffer of pairs in every setting, in order; None for a pair that is blank or too long."""
    items = [aligner.encode(pair) for pair in pairs]
    aligner.warn_of_text(items)
    pieces = [some for _, some, _ in items]
    places = [place for place, some in enumerate(pieces) if some]
    encoded = [some for some in pieces if some]
    found: list[Linked | None] = [None] * len(pairs)
    for numbers in batches([(len(some.source), len(some.target)) for some in encoded], aligner.batch_tokens):
        batch = collate([encoded[n] for n in numbers], aligner.recorder.pad)
        layers = range(1, aligner.recorder.layers + 1)
        parts = [
            _link_layer(attention, batch, aligner.settings.null) for attention in aligner.recorder.record(batch, layers)
        ]
        words, norms = (np.concatenate(part, axis=3 - which) for which, part in enumerate(zip(*parts, strict=True)))
        for b, n in enumerate(numbers):
            pair, some = pairs[places[n]], encoded[n]
            found[places[n]] = Linked(
                pair, words[b, ..., : len(pair.target)], norms[b], len(some.source) * len(some.target)
            )
    yield from found


@torch.inference_mode()
def _link_layer(attention: CrossAttention, batch: Batch, null: Null) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """One layer: the best words `[B, 2, 2, C, J]`, and sums of norms `[B, 2, C]`."""
    device = attention.weights.device
    source_words, target_words = batch.source_words.to(device), batch.target_words.to(device)
    weights = hide_eos(attention.weights, source_words) if null == "mask" else attention.weights
    kept = CrossAttention(attention.layer, weights, attention.values, attention.out_proj)
    heads = (None, *range(1, weights.shape[1] + 1))
    scores = torch.stack([cell_scores(kept, heads, score) for score in SCORES], dim=1)  # [B, 2, C, T+1, S]
    present = (target_words >= 0).float()[:, None, :]  # [B, 1, T]
    by_row = scores[:, SCORES.index("norm")].sum(-1, keepdim=True)  # [B, C, T+1, 1]
    merged = merge_sources(scores.flatten(1, 2), source_words, batch.words[0])  # [B, 2C, T+1, I+1]
    words: list[Tensor] = []
    norms: list[Tensor] = []
    for position in POSITIONS:
        rows = merge_targets(target_rows(merged, position), target_words, batch.words[1])  # [B, 2C, J, I+1]
        best = best_words(rows, null)[0]  # [B, 2C, J]
        words.append(best.view(len(best), len(SCORES), len(heads), -1))
        norms.append((target_rows(by_row, position)[..., 0] * present).sum(-1))
    return torch.stack(words, dim=2).cpu().numpy(), torch.stack(norms, dim=1).double().cpu().numpy()
