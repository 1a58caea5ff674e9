"""Link a text with every layer, head, score and position in one pass, and count links and errors.

Letters: C cells (each layer's heads, and all of them together), J target words, I source words; arrays over all
settings are `[2, 2, C]`: score (as in SCORES), position (as in POSITIONS), cell.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from align.core.aligner import Aligner
from align.core.choice import all_cells
from align.core.consistency import CHOOSING_PAIRS, LinkedWords
from align.core.scores import best_words, each_cell
from align.core.stream import Encoded, SideNames, TooLong, chunks, cut, encode
from align.core.types import Cell, Gold, Pair, Position, Score, TextWarning
from align.evaluation.metrics import Counts, aer

SCORES: tuple[Score, ...] = tuple(dict.fromkeys(("weight", *get_args(Score))))  # weight before norm, new ones last
POSITIONS: tuple[Position, ...] = get_args(Position)

Words = NDArray[np.int64]  # the source word of each target word in every setting, -1 for none `[2, 2, C, J]`

Norms = NDArray[np.float64]
"""The sum of the norms over all target and source pieces, including `</s>` `[2, C]`, by position and cell."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """Sums over a text, for all settings."""

    cells: Sequence[Cell]  # C of them, by layer, all heads first
    reverse_cells: Sequence[Cell]  # C' of the reverse model; none without one
    counts: Counts | None  # |A∩S|, |A∩P|, |A|, |S| of each sentence [N, 2, 2, C, 4]; None without gold
    target_words: int  # in pairs that have links
    null: NDArray[np.int64]  # number of these words without a link, for which `</s>` has won [2, 2, C]
    norm: NDArray[np.float64]  # mean norm over all pairs of pieces, by position [2, C]
    consistency: NDArray[np.float64]  # lexical consistency, in nats per target word [2, 2, C], over the first pairs
    dice: NDArray[np.float64]  # agreement with the reverse model's links, 2|F∩R| / (|F|+|R|) [2, 2, C, C']
    pairs: int
    skipped: int  # pairs that were too long for the model, and have no links

    def rates(self) -> NDArray[np.float64]:
        """Return the AER of every setting over the whole text `[2, 2, C]`, shares of 1; NaN if undefined."""
        if self.counts is None:
            raise ValueError("no error rates: the sweep was made without gold")
        return aer(self.counts.sum(0))


class RuleChoice(NamedTuple):
    """The choice of one rule for a score and a position: an index of `Sweep.cells`, and one of its `reverse_cells`."""

    score: Score
    position: Position
    rule: str
    gold: bool
    cell: int
    reverse_cell: int | None = None


def _best(values: NDArray[np.float64], allowed: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the index of the largest allowed value; the first among equals."""
    best = np.argmax(np.where(allowed, values, -np.inf))
    return tuple(int(n) for n in np.unravel_index(best, values.shape))


def apply_rules(sweep: Sweep) -> Iterator[RuleChoice]:
    """Yield the choice of each rule for each score and position, among layers (all heads together) and among heads."""
    layers = np.array([cell.head == "all" for cell in sweep.cells])
    reverse_layers = np.array([cell.head == "all" for cell in sweep.reverse_cells], dtype=bool)
    rates = None if sweep.counts is None else sweep.rates()  # [2, 2, C]
    for p, position in enumerate(POSITIONS):
        for s, score in enumerate(SCORES):
            yield RuleChoice(score, position, "largest mean norm, layers", False, *_best(sweep.norm[p], layers))
            for among, allowed, reverse_allowed in (
                ("layers", layers, reverse_layers),
                ("heads", layers | True, reverse_layers | True),
            ):
                best = _best(sweep.consistency[s, p], allowed)
                yield RuleChoice(score, position, f"lexical consistency, {among}", False, *best)
                if sweep.reverse_cells:
                    best = _best(sweep.dice[s, p], allowed[:, None] & reverse_allowed)
                    yield RuleChoice(score, position, f"agreement of directions, {among}", False, *best)
                if rates is not None and np.isfinite(rates[s, p]).any():
                    best = _best(-np.nan_to_num(rates[s, p], nan=2.0), allowed)
                    yield RuleChoice(score, position, f"lowest AER, {among}", True, *best)


def shares_of_cells(aligner: Aligner, pairs: Sequence[Pair], position: Position) -> list[bytes]:
    """Return the share of each source word in its target word's scores, in every cell, for weight and norm.

    For each pair these are unsigned bytes, hundredths `[2, C, J, I+1]`: score (as in SCORES), cell (as in
    `all_cells`), target word, source word with `</s>` last; empty for one that is blank, or too long for the
    model. Of the aligner's settings only `null` and the batch size matter.
    """
    recorder, null = aligner.forward.recorder, aligner.forward.settings.null
    cells = all_cells(recorder)
    encoded = _encode(aligner, pairs, "blank")
    results = [b""] * len(pairs)
    for numbers, batch in cut(encoded, aligner.batch_tokens):
        longest_source, longest_target = (max(pieces.words[side] for pieces in batch) for side in (0, 1))
        shape = (len(batch), len(SCORES), len(cells), longest_target, longest_source + 1)
        shares = np.zeros(shape, dtype=np.uint8)
        for part in each_cell(recorder, batch, {position: cells}, SCORES, null):
            first = cells.index(part.cells[0])
            known = part.words.float().clamp(min=0)  # words of no piece have -1
            sums = known.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)  # a row without scores is 0
            hundredths = (100 * known / sums).round().byte()
            shares[:, SCORES.index(part.score), first : first + len(part.cells)] = hundredths.cpu().numpy()
        for n, pieces, of_pair in zip(numbers, batch, shares, strict=True):
            source, target = pieces.words
            of_words = [*range(source), longest_source]  # the last column of the batch is </s>
            results[n] = of_pair[:, :, :target, of_words].tobytes()
    return results


def sweep(
    aligner: Aligner, pairs: Iterable[Pair], gold: Sequence[Gold] | None = None, reverse: Aligner | None = None
) -> Sweep:
    """Link a text in every setting, in one pass, and count.

    Args:
        aligner: of its settings only `null` and the sizes matter.
        gold: links of each pair, all of them within it; None for no counts.
        reverse: a model of the reverse direction, for agreement.
    """
    cells, reverse_cells = all_cells(aligner.forward.recorder), all_cells(reverse.forward.recorder) if reverse else []
    shape = (len(SCORES), len(POSITIONS), len(cells))
    counts: list[NDArray[np.int64]] = []
    null, norm, pieces = np.zeros(shape, dtype=np.int64), np.zeros(shape[1:]), 0
    same = np.zeros((*shape, len(reverse_cells)), dtype=np.int64)  # links in common with the reverse model
    linked = np.zeros((*shape, 1), dtype=np.int64)
    linked_back = np.zeros((*shape[:2], 1, len(reverse_cells)), dtype=np.int64)
    words = LinkedWords(shape)
    number = skipped = target_words = choosing = 0
    checked = False
    for chunk in chunks(pairs, aligner.buffer, lambda pair: pair.memory()):
        encoded = _encode(aligner, chunk, aligner.too_long, check=not checked)
        of_reverse: list[tuple[Words, Norms] | None] = [None] * len(chunk)
        if reverse:
            swapped = [Pair(pair.target, pair.source, pair.id, origin=pair.origin) for pair in chunk]
            of_reverse = _link(reverse, _encode(reverse, swapped, reverse.too_long, check=not checked))
        checked = checked or any(item.pieces for item in encoded)
        for item, links, back in zip(encoded, _link(aligner, encoded), of_reverse, strict=True):
            pair = item.pair
            if gold is not None and number < len(gold):
                counts.append(_count(pair, links and links[0], gold[number], shape))
            number += 1
            if links is None or item.pieces is None:
                skipped += bool(item.skipped)
                continue
            target_words += len(pair.target)
            null += (links[0] < 0).sum(-1)
            norm += links[1]
            pieces += len(item.pieces.source) * len(item.pieces.target)
            if choosing < CHOOSING_PAIRS:
                words.add(pair, links[0])
                choosing += 1
            if back is not None:
                same += _links_in_common(links[0], back[0])
                linked += (links[0] >= 0).sum(-1)[..., None]
                linked_back += (back[0] >= 0).sum(-1)[..., None, :]
    if gold is not None and number != len(gold):
        raise ValueError(f"the text has {number:,} sentence pairs, the gold {len(gold):,}")
    return Sweep(
        cells=cells,
        reverse_cells=reverse_cells,
        counts=None if gold is None else np.array(counts).reshape(-1, *shape, 4),
        target_words=target_words,
        null=null,
        norm=norm / max(1, pieces),
        consistency=words.consistency(),
        dice=2 * same / np.maximum(1, linked + linked_back),  # 0 where neither has a link
        pairs=number,
        skipped=skipped,
    )


def _count(pair: Pair, words: Words | None, gold: Gold, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return |A∩S|, |A∩P|, |A|, |S| in every setting `[2, 2, C, 4]`, for the source words of `_link`."""
    counts = np.zeros((*shape, 4), dtype=np.int64)
    counts[..., 3] = len(gold.sure)
    if words is None:
        return counts
    targets = np.arange(len(pair.target))
    for kind, marks in enumerate((gold.sure, gold.possible)):
        marked = np.zeros((len(targets), len(pair.source) + 1), dtype=bool)  # the last column is no link
        for i, j in marks:
            marked[j, i] = True
        counts[..., kind] = marked[targets, words].sum(-1)
    counts[..., 2] = (words >= 0).sum(-1)
    return counts


def _links_in_common(words: Words, back: Words) -> NDArray[np.int64]:
    """Return the number of links that source words `[2, 2, C, J]` and target words `[2, 2, C', I]` share."""
    targets = np.arange(words.shape[-1])
    same = np.zeros((*words.shape[:3], back.shape[2]), dtype=np.int64)
    for s, p in np.ndindex(words.shape[:2]):
        returned = back[s, p][:, np.maximum(words[s, p], 0)]  # [C', C, J]
        same[s, p] = ((returned == targets) & (words[s, p] >= 0)).sum(-1).T
    return same


def _encode(aligner: Aligner, pairs: Sequence[Pair], too_long: TooLong, check: bool = True) -> list[Encoded]:
    """Encode a buffer of pairs; with `check`, warn if the text does not match the model."""
    encoded = [encode(aligner.forward.recorder, pair, too_long) for pair in pairs]
    for warning in aligner.check.begin(aligner.forward, encoded, None, SideNames()) if check and aligner.check else ():
        warnings.warn(warning, TextWarning, stacklevel=3)  # the caller of the public function
    return encoded


def _link(aligner: Aligner, encoded: Sequence[Encoded]) -> list[tuple[Words, Norms] | None]:
    """Link a buffer of pairs in every setting; None for a pair that is blank or too long."""
    recorder, null = aligner.forward.recorder, aligner.forward.settings.null
    cells = all_cells(recorder)
    linked: list[tuple[Words, Norms] | None] = [None] * len(encoded)
    for numbers, batch in cut(encoded, aligner.batch_tokens):
        longest = max(pieces.words[1] for pieces in batch)
        words = np.zeros((len(batch), len(SCORES), len(POSITIONS), len(cells), longest), dtype=np.int64)
        norms = np.zeros((len(batch), len(POSITIONS), len(cells)))
        # [B, J]
        pieces_of_words = np.stack([np.bincount(pieces.target_words, minlength=longest) for pieces in batch])
        for part in each_cell(recorder, batch, dict.fromkeys(POSITIONS, cells), SCORES, null):
            s, p = SCORES.index(part.score), POSITIONS.index(part.position)
            first = cells.index(part.cells[0])
            where = slice(first, first + len(part.cells))
            words[:, s, p, where] = best_words(part.words, null)[0].cpu().numpy()
            if part.score == "norm":
                # word scores are means over pieces, here summed again; words of no piece have -1
                by_word = part.words.clamp(min=0).sum(-1).double().cpu().numpy()  # [B, C, J]
                norms[:, p, where] = (by_word * pieces_of_words[:, None]).sum(-1)
        for b, n in enumerate(numbers):
            linked[n] = words[b, ..., : len(encoded[n].pair.target)], norms[b]
    return linked
