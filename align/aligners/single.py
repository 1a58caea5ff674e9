"""Joins the pure parts and a recorder: pairs in, alignments out, lazily and in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

import torch
from torch import Tensor

from align.aligners.checks import warn_of_swapped, warn_of_unknown
from align.attention.consistency import MIN_PAIRS, LinkedWords
from align.attention.merging import collate, merge_words
from align.attention.scores import best_words, both_positions, cell_scores, hide_eos, shares, target_rows
from align.attention.soft import links_above, soft_scores
from align.backends.base import Recorder
from align.batching import BATCH_TOKENS, BUFFER, batches, chunks
from align.text.lines import number_pairs
from align.types import (
    Alignment,
    Batch,
    Cell,
    CrossAttention,
    Pair,
    PairError,
    Pieces,
    Position,
    Settings,
    Terms,
)

Item = tuple[Pair, Pieces | None, Literal["", "too long"]]
"""A pair, its pieces (None where there is nothing to align, or too much), and why it was left out."""

CALIBRATION_PAIRS = 1000
"""As many pairs, from the first buffer, decide on layer and head at most."""


class Aligner:
    """Word alignments out of a translation model's attention.

    Where `settings` leave layer or head on "auto", the first pairs decide by lexical consistency: up to 1,000 of the
    first buffer. With under 50 there the model's stored calibration does, and without one the layer at a third of
    the depth. What lexical consistency has chosen stays for all later calls.

    Threads may share an aligner: their calls take turns with the model. So may forked processes, a copy each.

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
        self.cell = cells[0] if len(cells) == 1 and self.settings.position != "both" else None
        self._settled = self.cell is not None
        self.reason = "as asked"
        self.terms = Terms()
        self._checked = False

    def candidates(self) -> list[Cell]:
        """The cells that the settings allow, lowest layer first, all heads before single ones.

        With both positions: those of the input position.

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
                before it come out first, as they do before any exception of `pairs` itself.
        """
        cell = None
        for chunk in chunks(map(self.encode, number_pairs(pairs)), self.buffer):
            self.warn_of_text(chunk)
            cell = cell or self.choose(chunk)
            yield from self.align_encoded(chunk, cell)

    def word_scores(self, source: str | Sequence[str], target: str | Sequence[str]) -> list[list[float]]:
        """The scores that links are read off, `[J][I+1]`, the last column being `</s>`.

        Without a choice of layer and head so far, the stored or default one is used.

        Raises:
            ValueError: a blank or too long side.
        """
        _, pieces, _ = self.encode(next(number_pairs([(source, target)])))
        if pieces is None:
            raise ValueError("one side is blank, or too long for the model")
        rows: list[list[float]] = self.score([pieces], self.cell or self._fallback()[0])[0].tolist()
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
            encoded = [(pair, pieces) for pair, pieces, _ in first if pieces]
            warn_of_unknown(self.recorder, self.terms, [pieces for _, pieces in encoded])
            warn_of_swapped(self.recorder, self.terms, encoded)
            self._checked = True

    def choose(self, chunk: Sequence[Item]) -> Cell | None:
        """Layer and head for a text that begins with this buffer of encoded pairs; `reason` says how.

        None where that is open, and nothing in the buffer can be aligned.
        """
        encoded = [(pair, pieces) for pair, pieces, _ in chunk if pieces]
        if self._settled:
            return self.cell
        if not encoded:
            return None
        if len(encoded) < MIN_PAIRS:
            self.cell, self.reason = self._fallback()
        else:
            some = encoded[:CALIBRATION_PAIRS]
            self.cell, self.reason = self._calibrate(some), f"by lexical consistency over {len(some):,} pairs"
            self._settled = True
        return self.cell

    def settle(self, cell: Cell, reason: str) -> None:
        """Take a layer and head that were chosen before, for a text that is gone on with.

        Raises:
            ValueError: the settings or the model do not allow them.
        """
        outputs = self._all_cells() if self.settings.position == "both" else [None]
        if replace(cell, output=None) not in self.candidates() or cell.output not in outputs:
            raise ValueError(f"{cell}: no such place in {self.recorder.name}, or not as asked")
        self.cell, self.reason, self._settled = cell, reason, True

    def align_encoded(self, chunk: Sequence[Item], cell: Cell | None) -> Iterator[Alignment]:
        """Align a buffer of encoded pairs: one alignment for each, in order.

        Args:
            chunk: what `encode` returns, or pieces made elsewhere.
            cell: layer and head to use, None only where there is nothing to align.
        """
        found: list[dict[tuple[int, int], float]] = [{} for _ in chunk]
        for numbers, some in self.batch(chunk):
            assert cell
            for n, links in zip(numbers, self.link(some, cell), strict=True):
                found[n] = links
        for (pair, _, skipped), scores in zip(chunk, found, strict=True):
            yield Alignment(pair, scores, skipped)

    def batch(self, chunk: Sequence[Item]) -> Iterator[tuple[list[int], list[Pieces]]]:
        """What of a buffer can be aligned, in batches of like length: places in the buffer, and the pieces there."""
        places = [place for place, (_, pieces, _) in enumerate(chunk) if pieces]
        encoded = [pieces for _, pieces, _ in chunk if pieces]
        for numbers in batches([(len(pieces.source), len(pieces.target)) for pieces in encoded], self.batch_tokens):
            yield [places[n] for n in numbers], [encoded[n] for n in numbers]

    def score(self, some: Sequence[Pieces], cell: Cell) -> Tensor:
        """The word scores that links are read off, of a batch at a layer and head `[B, J, I+1]`."""
        places: dict[Position, list[Cell]] = (
            {"input": [cell], "output": [cell.output]} if cell.output else {self._position: [cell]}
        )
        found = {
            position: scores[:, 0] for position, _, scores in self._scores(collate(some, self.recorder.pad), places)
        }
        return both_positions(found["input"], found["output"]) if cell.output else found[self._position]

    def link(self, some: Sequence[Pieces], cell: Cell) -> list[dict[tuple[int, int], float]]:
        """The links of each pair of a batch at a layer and head, each with its score.

        This is the soft one where the settings have a threshold, and else its share of the target word's row.
        """
        scores, null = self.score(some, cell), self.settings.null
        if self.settings.threshold is not None:
            return links_above(soft_scores(shares(scores, null)), self.settings.threshold)
        index, share = (best.tolist() for best in best_words(scores, null))
        return [
            {(i, j): score for j, (i, score) in enumerate(zip(words, parts, strict=True)) if i >= 0}
            for words, parts in zip(index, share, strict=True)
        ]

    def _calibrate(self, encoded: Sequence[tuple[Pair, Pieces]]) -> Cell:
        """The most consistent of the cells that the settings allow, in each position."""
        places = {self._position: self.candidates()}
        if self.settings.position == "both":
            places["output"] = self._all_cells()
        linked: dict[Position, LinkedWords[Cell]] = {position: LinkedWords() for position in places}
        for numbers, some in self.batch([(pair, pieces, "") for pair, pieces in encoded]):
            pairs = [encoded[n][0] for n in numbers]
            for position, cells, scores in self._scores(collate(some, self.recorder.pad), places):
                index = best_words(scores, self.settings.null)[0].cpu().numpy()  # [B, C, J]
                linked[position].add(pairs, dict(zip(cells, index.swapaxes(0, 1), strict=True)))
        target_words = sum(len(pair.target) for pair, _ in encoded)
        best = {position: words.most_consistent(target_words) for position, words in linked.items()}
        return self._together(best[self._position], best.get("output"))

    def _scores(
        self, batch: Batch, places: Mapping[Position, Sequence[Cell]]
    ) -> Iterator[tuple[Position, list[Cell], Tensor]]:
        """Word scores of a batch, a layer and position at a time: its cells C, and `[B, C, J, I+1]` for them."""
        layers = sorted({cell.layer for cells in places.values() for cell in cells})
        for attention in self.recorder.record(batch, layers):
            device = attention.weights.device
            source_words, target_words = batch.source_words.to(device), batch.target_words.to(device)
            for position, cells in places.items():
                layer_cells = [cell for cell in cells if cell.layer == attention.layer]
                if not layer_cells:
                    continue
                with torch.inference_mode():  # closed before each yield: it would hold for the caller too
                    weights = target_rows(attention.weights, position)  # [B, H, T, S]
                    if self.settings.null == "mask":
                        weights = hide_eos(weights, source_words)
                    kept = CrossAttention(attention.layer, weights, attention.values, attention.out_proj)
                    scores = cell_scores(kept, [cell.head for cell in layer_cells], self.settings.score)
                    merged = merge_words(scores, source_words, target_words, batch.words)
                yield position, layer_cells, merged

    @property
    def _position(self) -> Position:
        """The position that layer and head of the settings are of."""
        return "input" if self.settings.position == "both" else self.settings.position

    def _all_cells(self) -> list[Cell]:
        heads = (None, *range(1, self.recorder.heads + 1))
        return [Cell(*cell) for cell in product(range(1, self.recorder.layers + 1), heads)]

    def _together(self, cell: Cell, output: Cell | None) -> Cell:
        """The cell to read, with the output position's in it where both positions are read."""
        return replace(cell, output=output) if self.settings.position == "both" else cell

    def _fallback(self) -> tuple[Cell, str]:
        """The cell to use where there is too little text to choose by, and why: stored, else a third of the way up."""
        candidates, score = self.candidates(), self.settings.score
        output = self._calibration.get((score, "output"))
        above = Cell(*output) if output else None
        stored = self._calibration.get((score, self._position))
        if stored and Cell(*stored) in candidates:
            cell = Cell(*stored)
            reason = f"the model's own calibration, under {MIN_PAIRS} pairs in the buffer to choose by"
        else:
            third = max(1, round(self.recorder.layers / 3))
            cell = next((cell for cell in candidates if cell.layer == third), candidates[0])
            reason = f"the default, under {MIN_PAIRS} pairs in the buffer to choose by"
        if above not in self._all_cells():
            above = Cell(min(cell.layer + 1, self.recorder.layers), None)
        return self._together(cell, above), reason
