"""Link a text with every layer, head, score and position in one pass, and count links and errors.

Letters: C cells (each layer's heads, and all of them together), J target words, I source words; arrays over all
settings are `[2, 2, C]`: score (as in SCORES), position (as in POSITIONS), cell.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from align.core.aligner import Aligner
from align.core.choice import all_cells
from align.core.consistency import CHOOSING_PAIRS, LinkedWords
from align.core.scores import best_words, each_cell
from align.core.stream import Encoded, SideNames, chunks, cut, encode
from align.core.types import Gold, Pair, Pieces, Position, TextWarning
from align.evaluation.swept import POSITIONS, SCORES, Sweep


def shares_of_cells(aligner: Aligner, pairs: Sequence[Pair], position: Position) -> list[bytes]:
    """Return the share of each source word in its target word's scores, in every cell, for weight and norm.

    Args:
        aligner: aligner of the model; of its settings only `null` and the batch size matter.
        pairs: all of which are held in memory.
        position: decoder step that a target word's attention is read from.

    Returns:
        For each pair unsigned bytes, hundredths `[2, C, J, I+1]`: score (as in SCORES), cell (as in `all_cells`),
        target word, source word with `</s>` last; empty for one that is blank, or too long for the model.

    Warns:
        TextWarning: the text does not look like what the model was trained on.
    """
    recorder, null = aligner.forward.recorder, aligner.forward.settings.null
    cells = all_cells(recorder)
    encoded = [encode(recorder, pair, "blank") for pair in pairs]
    for warning in aligner.check.begin(aligner.forward, encoded, None, SideNames()) if aligner.check else ():
        warnings.warn(warning, TextWarning, stacklevel=2)
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


class CellLinks(NamedTuple):
    """The links of one pair in all settings.

    `words` is the source word of each target word, -1 for none `[2, 2, C, J]`; `norms` the sum of the norms over
    all target and source pieces, including `</s>` `[2, C]` by position and cell; `pieces` the number of summed pairs of
    pieces.
    """

    pair: Pair
    words: NDArray[np.int64]
    norms: NDArray[np.float64]
    pieces: int


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
    null, norms, pieces = np.zeros(shape, dtype=np.int64), np.zeros(shape[1:]), 0
    words = LinkedWords(shape)
    agreement = _Agreement(len(cells), len(reverse_cells))
    number = skipped = target_words = choosing = 0
    checked = False
    for chunk in chunks(pairs, aligner.buffer, lambda pair: pair.memory()):
        encoded = _encode(aligner, chunk, check=not checked)
        linked = link_all(aligner, encoded)
        swapped = [Pair(pair.target, pair.source, pair.id, origin=pair.origin) for pair in chunk] if reverse else []
        linked_back = link_all(reverse, _encode(reverse, swapped, check=not checked)) if reverse else None
        checked = checked or any(item.pieces for item in encoded)
        for pair, links in zip(chunk, linked, strict=True):
            back = next(linked_back) if linked_back else None
            if gold is not None and number < len(gold):
                counts.append(_count(links, gold[number], shape))
            number += 1
            if links is None:
                skipped += not pair.blank
                continue
            target_words += len(pair.target)
            null += (links.words < 0).sum(-1)
            norms += links.norms
            pieces += links.pieces
            if choosing < CHOOSING_PAIRS:
                words.add(pair, links.words)
                choosing += 1
            if back is not None:
                agreement.add(links, back)
    if gold is not None and number != len(gold):
        raise ValueError(f"the text has {number:,} sentence pairs, the gold {len(gold):,}")
    return Sweep(
        cells=cells,
        reverse_cells=reverse_cells,
        counts=None if gold is None else np.array(counts).reshape(-1, *shape, 4),
        target_words=target_words,
        null=null,
        norm=norms / max(1, pieces),
        consistency=words.consistency(),
        dice=agreement.dice(),
        pairs=number,
        skipped=skipped,
    )


def _count(links: CellLinks | None, gold: Gold, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return |A∩S|, |A∩P|, |A|, |S| in every setting `[2, 2, C, 4]`."""
    counts = np.zeros((*shape, 4), dtype=np.int64)
    counts[..., 3] = len(gold.sure)
    if links is None:
        return counts
    targets = np.arange(len(links.pair.target))
    for kind, marks in enumerate((gold.sure, gold.possible)):
        marked = np.zeros((len(targets), len(links.pair.source) + 1), dtype=bool)  # the last column is no link
        for i, j in marks:
            marked[j, i] = True
        counts[..., kind] = marked[targets, links.words].sum(-1)
    counts[..., 2] = (links.words >= 0).sum(-1)
    return counts


class _Agreement:
    """Counts the links of two directions, and the links in common."""

    def __init__(self, cells: int, reverse_cells: int) -> None:
        shape = (len(SCORES), len(POSITIONS))
        self._same = np.zeros((*shape, cells, reverse_cells), dtype=np.int64)
        self._links = np.zeros((*shape, cells, 1), dtype=np.int64)
        self._reverse_links = np.zeros((*shape, 1, reverse_cells), dtype=np.int64)

    def add(self, links: CellLinks, reverse: CellLinks) -> None:
        targets = np.arange(links.words.shape[-1])
        for s in range(len(SCORES)):
            for p in range(len(POSITIONS)):
                of_forward = links.words[s, p]  # [C, J] source words
                of_reverse = reverse.words[s, p]  # [C', I] target words
                returned = of_reverse[:, np.maximum(of_forward, 0)]  # [C', C, J]
                same = (returned == targets) & (of_forward >= 0)
                self._same[s, p] += same.sum(-1).T
                self._links[s, p, :, 0] += (of_forward >= 0).sum(-1)
                self._reverse_links[s, p, 0] += (of_reverse >= 0).sum(-1)

    def dice(self) -> NDArray[np.float64]:
        """Return 2|F∩R| / (|F|+|R|) for every pair of cells `[2, 2, C, C']`, 0 where neither has a link."""
        dice: NDArray[np.float64] = 2 * self._same / np.maximum(1, self._links + self._reverse_links)
        return dice


def _encode(aligner: Aligner, pairs: Sequence[Pair], check: bool) -> list[Encoded]:
    """Encode a buffer of pairs; with `check`, warn if the text does not match the model."""
    encoded = [encode(aligner.forward.recorder, pair, aligner.too_long) for pair in pairs]
    for warning in aligner.check.begin(aligner.forward, encoded, None, SideNames()) if check and aligner.check else ():
        warnings.warn(warning, TextWarning, stacklevel=3)  # the caller of `sweep`
    return encoded


def link_all(aligner: Aligner, encoded: Sequence[Encoded]) -> Iterator[CellLinks | None]:
    """Yield links of a buffer of pairs in every setting, in order; None for a pair that is blank or too long."""
    linked: list[CellLinks | None] = [None] * len(encoded)
    for numbers, batch in cut(encoded, aligner.batch_tokens):
        words, norms = _link(aligner, batch)
        for b, n in enumerate(numbers):
            pair, pieces = encoded[n].pair, batch[b]
            pairs_of_pieces = len(pieces.source) * len(pieces.target)
            linked[n] = CellLinks(pair, words[b, ..., : len(pair.target)], norms[b], pairs_of_pieces)
    yield from linked


def _link(aligner: Aligner, batch: Sequence[Pieces]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the best words of B pairs in every setting `[B, 2, 2, C, J]`, and sums of norms `[B, 2, C]`."""
    cells = all_cells(aligner.forward.recorder)
    longest = max(pieces.words[1] for pieces in batch)
    words = np.zeros((len(batch), len(SCORES), len(POSITIONS), len(cells), longest), dtype=np.int64)
    norms = np.zeros((len(batch), len(POSITIONS), len(cells)))
    pieces_of_words = np.stack([np.bincount(pieces.target_words, minlength=longest) for pieces in batch])  # [B, J]
    cells_by_position = dict.fromkeys(POSITIONS, cells)
    for part in each_cell(aligner.forward.recorder, batch, cells_by_position, SCORES, aligner.forward.settings.null):
        s, p = SCORES.index(part.score), POSITIONS.index(part.position)
        first = cells.index(part.cells[0])
        where = slice(first, first + len(part.cells))
        words[:, s, p, where] = best_words(part.words, aligner.forward.settings.null)[0].cpu().numpy()
        if part.score == "norm":  # word scores are means over pieces, here summed again; words of no piece have -1
            by_word = part.words.clamp(min=0).sum(-1).double().cpu().numpy()  # [B, C, J]
            norms[:, p, where] = (by_word * pieces_of_words[:, None]).sum(-1)
    return words, norms
