"""Joins the pure parts and a recorder: pairs in, alignments out, lazily and in order."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from align.calibrate import MIN_PAIRS, Vocabulary, calibrate
from align.extract import best_words, cell_scores, hide_eos, target_rows
from align.recorders.base import Recorder
from align.stream import BATCH_TOKENS, BUFFER, batches, chunks, number_pairs
from align.types import Alignment, Batch, Cell, CrossAttention, Pair, PairError, Pieces, Settings, Terms, TextWarning
from align.words import collate, merge_words


class _Best(NamedTuple):
    """The best source words of a batch in some cells of one layer.

    `words` is the source word of each target word, -1 for none `[B, C, J]`; `share` what it holds of the
    row's score `[B, C, J]`; `places` says where in the buffer the batch's pairs are.
    """

    places: list[int]
    cells: list[Cell]
    words: NDArray[np.int64]
    share: NDArray[np.float32]


Item = tuple[Pair, Pieces | None, Literal["", "too long"]]
"""A pair, its pieces (None where there is nothing to align, or too much), and why it was left out."""

UNKNOWN_SHARE, UNKNOWN_AMONG = 0.1, 100
SWAPPED_SHARE, SWAPPED_AMONG = 0.8, 200


class Aligner:
    """Word alignments out of a translation model's attention.

    Where `settings` leave layer or head on "auto", the first buffer of pairs decides by lexical consistency;
    with under 50 pairs there the model's stored calibration does, and without one the layer at a third of the
    depth. What lexical consistency has chosen stays for all later calls.

    Args:
        recorder: the model.
        settings: what to read off its attention.
        calibration: the model's stored choices, (score, position) to (layer, head or None).
        buffer: pairs to read ahead, to sort them by length; one buffer is held in memory.
        batch_tokens: pieces in a batch, pads included.
        too_long: what to do with pairs that the model has no positions for: "stop" raises, "blank" leaves
            them without links.

    Attributes:
        cell: layer and head of the last results; None before any where they are on "auto".
        reason: how the cell was chosen, for messages.
        terms: what messages call the model and its sides.

    Raises:
        ValueError: a layer or head that the model does not have; a size below 1; another word for `too_long`.
    """

    def __init__(
        self,
        recorder: Recorder,
        settings: Settings | None = None,
        *,
        calibration: Mapping[tuple[str, str], tuple[int, int | None]] | None = None,
        buffer: int = BUFFER,
        batch_tokens: int = BATCH_TOKENS,
        too_long: str = "stop",
    ) -> None:
        if too_long not in ("stop", "blank"):
            raise ValueError(f"too_long is one of stop, blank; not {too_long!r}")
        if buffer < 1 or batch_tokens < 1:
            raise ValueError(f"buffer and batch_tokens are numbers from 1; not {buffer} and {batch_tokens}")
        self.recorder = recorder
        self.settings = settings or Settings()
        self.buffer = buffer
        self.batch_tokens = batch_tokens
        self.too_long = too_long
        self._calibration = calibration or {}
        cells = self.candidates()
        self.cell = cells[0] if len(cells) == 1 else None
        self._settled = self.cell is not None
        self.reason = "as asked"
        self.terms = Terms()
        self._checked = False

    def candidates(self) -> list[Cell]:
        """The cells that the settings allow, lowest layer first, all heads before single ones.

        Raises:
            ValueError: none, because the model is smaller than that.
        """
        layer, head = self.settings.layer, self.settings.head
        for name, value, most in (("layer", layer, self.recorder.layers), ("head", head, self.recorder.heads)):
            if isinstance(value, int) and value > most:
                raise ValueError(f"{name} {value} is out of range: {self.recorder.name} has {most} {name}s")
        layers = range(1, self.recorder.layers + 1) if layer == "auto" else [layer]
        heads: Sequence[int | None] = [None, *range(1, self.recorder.heads + 1)]
        if head != "auto":
            heads = [None if head == "all" else head]
        return [Cell(*cell) for cell in product(layers, heads)]

    def align(self, source: str | Sequence[str], target: str | Sequence[str]) -> Alignment:
        """Align one pair of sentences, given as strings (words at spaces) or as words."""
        return next(self([(source, target)]))

    def __call__(self, pairs: Iterable[Pair | tuple[str | Sequence[str], str | Sequence[str]]]) -> Iterator[Alignment]:
        """Align pairs: one alignment for each, in order, a buffer at a time.

        Raises:
            PairError: a pair that is longer than the model takes, unless `too_long` is "blank". The pairs
                before it come out first, as they do before any ValueError of `pairs` itself.
        """
        cell = None
        for chunk in chunks(map(self.encode, number_pairs(pairs)), self.buffer):
            self.warn_of_text(chunk)
            cell = yield from self.align_encoded(chunk, cell)

    def word_scores(self, source: str | Sequence[str], target: str | Sequence[str]) -> list[list[float]]:
        """The scores that links are read off, `[J][I+1]`, the last column being `</s>`.

        Without a choice of layer and head so far, the stored or default one is used.

        Raises:
            ValueError: a blank or too long side.
        """
        _, pieces, _ = self.encode(next(number_pairs([(source, target)])))
        if pieces is None:
            raise ValueError("one side is blank, or too long for the model")
        batch = collate([pieces], self.recorder.pad)
        scores = next(self._scores(batch, [self.cell or self._fallback()[0]]))[1]
        rows: list[list[float]] = scores[0, 0].tolist()
        return rows

    def encode(self, pair: Pair) -> Item:
        """A pair with its pieces, if it has any and the model takes so many.

        Raises:
            PairError: more than the model takes, unless `too_long` is "blank".
        """
        if pair.blank:
            return pair, None, ""
        pieces = self.recorder.encode(pair)
        if not pieces.target or len(pieces.source) < 2:
            return pair, None, ""
        sides = zip((self.terms.source, self.terms.target), (len(pieces.source), len(pieces.target) + 1), strict=True)
        for (side, length), most in zip(sides, self.recorder.max_positions, strict=True):
            if length > most:
                if self.too_long == "blank":
                    return pair, None, "too long"
                raise PairError(
                    pair.id,
                    f"{side} has {length:,} pieces with </s>, {self.terms.model} takes {most:,}: "
                    "shorten it, or leave such lines without links (--too-long blank)",
                )
        return pair, pieces, ""

    def warn_of_text(self, first: Sequence[Item]) -> None:
        """Say so, once, where a buffer of encoded pairs does not look like what the model was trained on."""
        if not self._checked:
            self._warn_of_unknown([pieces for _, pieces, _ in first if pieces])
            self._warn_of_swapped([(pair, pieces) for pair, pieces, _ in first if pieces])
            self._checked = True

    def _warn_of_unknown(self, encoded: Sequence[Pieces]) -> None:
        """Say so where much of the first buffer is not in the model's dictionary."""
        sources = [number for pieces in encoded for number in pieces.source[:-1]]  # without </s>
        targets = [number for pieces in encoded for number in pieces.target]
        names = self.terms
        for side, own, ids in ((names.source, "source", sources), (names.target, "target", targets)):
            share = ids.count(self.recorder.unk) / max(1, len(ids))
            if len(ids) >= UNKNOWN_AMONG and share > UNKNOWN_SHARE:
                warnings.warn(
                    f"{share:.0%} of the {side} pieces in the first {len(encoded):,} pairs are unknown to "
                    f"{names.model}: is this side its {own} language, and are dictionary, case and subwords its own?",
                    TextWarning,
                    stacklevel=4,
                )

    def _warn_of_swapped(self, encoded: Sequence[tuple[Pair, Pieces]]) -> None:
        """Say so where the text takes clearly fewer pieces the other way round: a side knows its own language best."""
        some = encoded[:SWAPPED_AMONG]
        as_given = sum(len(pieces.source) + len(pieces.target) for _, pieces in some)
        turned = [self.recorder.encode(Pair(pair.target, pair.source, pair.id)) for pair, _ in some]
        swapped = sum(len(pieces.source) + len(pieces.target) for pieces in turned)
        if as_given >= UNKNOWN_AMONG and swapped < SWAPPED_SHARE * as_given:
            warnings.warn(
                f"the text takes {as_given:,} pieces of {self.terms.model}, and {swapped:,} with its sides swapped: "
                f"is the source first, and does {self.terms.model} translate from the {self.terms.source}?",
                TextWarning,
                stacklevel=4,
            )

    def align_encoded(self, chunk: Sequence[Item], cell: Cell | None = None) -> Generator[Alignment, None, Cell | None]:
        """Align a buffer of encoded pairs: one alignment for each, in order.

        Args:
            chunk: what `encode` returns, or pieces made elsewhere.
            cell: layer and head to use; where they are open (None, and settings that say "auto") this buffer decides.

        Returns:
            The cell that was used, once all alignments are out.
        """
        if cell is None and self._settled:
            cell = self.cell
        pairs = [pair for pair, _, _ in chunk]
        places = [place for place, (_, pieces, _) in enumerate(chunk) if pieces]
        encoded = [pieces for _, pieces, _ in chunk if pieces]
        if cell is None and 0 < len(encoded) < MIN_PAIRS:
            cell, self.reason = self._fallback()
        cells = self.candidates() if cell is None else [cell]
        found: list[_Best] = []
        for numbers in batches([(len(pieces.source), len(pieces.target)) for pieces in encoded], self.batch_tokens):
            batch = collate([encoded[n] for n in numbers], self.recorder.pad)
            for layer_cells, scores in self._scores(batch, cells):
                index, share = (best.cpu().numpy() for best in best_words(scores, self.settings.null))
                found.append(_Best([places[n] for n in numbers], layer_cells, index, share))
        if cell is None and encoded:
            cell = calibrate(_linked_words(pairs, found), sum(len(pairs[place].target) for place in places))
            self._settled, self.reason = True, f"by lexical consistency over {len(encoded):,} pairs"
        self.cell = cell
        scores_of = {}
        for best in found:
            if cell in best.cells:
                c = best.cells.index(cell)
                for b, place in enumerate(best.places):
                    scores_of[place] = _link_scores(best.words[b, c], best.share[b, c], len(pairs[place].target))
        for place, (pair, _, skipped) in enumerate(chunk):
            yield Alignment(pair, scores_of.get(place, {}), skipped)
        return cell

    def _scores(self, batch: Batch, cells: Sequence[Cell]) -> Iterator[tuple[list[Cell], Tensor]]:
        """Word scores of a batch, a layer at a time: its cells C, and `[B, C, J, I+1]` for them."""
        for attention in self.recorder.record(batch, sorted({cell.layer for cell in cells})):
            layer_cells = [cell for cell in cells if cell.layer == attention.layer]
            device = attention.weights.device
            source_words, target_words = batch.source_words.to(device), batch.target_words.to(device)
            with torch.inference_mode():  # closed before each yield: it would hold for the caller too
                weights = target_rows(attention.weights, self.settings.position)  # [B, H, T, S]
                if self.settings.null == "mask":
                    weights = hide_eos(weights, source_words)
                kept = CrossAttention(attention.layer, weights, attention.values, attention.out_proj)
                scores = cell_scores(kept, [cell.head for cell in layer_cells], self.settings.score)
                merged = merge_words(scores, source_words, target_words, batch.words)
            yield layer_cells, merged

    def _fallback(self) -> tuple[Cell, str]:
        """The cell to use where there is too little text to choose by, and why: stored, else a third of the way up."""
        candidates = self.candidates()
        stored = self._calibration.get((self.settings.score, self.settings.position))
        if stored and Cell(*stored) in candidates:
            return Cell(*stored), f"the model's own calibration, under {MIN_PAIRS} pairs in the buffer to choose by"
        third = max(1, round(self.recorder.layers / 3))
        cell = next((cell for cell in candidates if cell.layer == third), candidates[0])
        return cell, f"the default, under {MIN_PAIRS} pairs in the buffer to choose by"


def _link_scores(index: NDArray[np.int64], share: NDArray[np.float32], words: int) -> dict[tuple[int, int], float]:
    """Links of one pair with their scores, out of rows that may be padded."""
    pairs = zip(index[:words].tolist(), share[:words].tolist(), strict=True)
    return {(i, j): score for j, (i, score) in enumerate(pairs) if i >= 0}


def _linked_words(
    pairs: Sequence[Pair], found: Sequence[_Best]
) -> dict[Cell, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """What `calibrate` takes: each cell's linked source and target words, by number."""
    vocabularies = Vocabulary(), Vocabulary()
    linked: dict[Cell, tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]] = {}
    for places, cells, index, _ in found:
        sources = [vocabularies[0].numbers(pairs[place].source) for place in places]
        targets = [vocabularies[1].numbers(pairs[place].target) for place in places]
        for c, cell in enumerate(cells):
            of_source, of_target = linked.setdefault(cell, ([], []))
            for b, (source, target) in enumerate(zip(sources, targets, strict=True)):
                words = index[b, c, : len(target)]
                of_source.append(source[words[words >= 0]])
                of_target.append(target[words >= 0])
    return {cell: (np.concatenate(source), np.concatenate(target)) for cell, (source, target) in linked.items()}
