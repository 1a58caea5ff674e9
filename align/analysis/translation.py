"""Translation models of any backend as `Inspected`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from align.analysis.maps import Maps, Reading, Tokens
from align.attention.merging import NULL, collate
from align.backends.base import OpenRecorder
from align.backends.transformer.inside import Inside, LayerAttention
from align.text.batching import BATCH_TOKENS, BUFFER, batches, chunks
from align.types import Pair, Part, Pieces


class TranslationModel:
    """A translation model whose encoder, decoder and cross-attention are shown; see `Inspected`.

    The decoder's rows are its steps: the first reads what the model's decoder starts with, usually `</s>`.

    Args:
        recorder: the model.
        batch_tokens: pieces in a batch.

    Attributes:
        recorder: the same.
    """

    def __init__(self, recorder: OpenRecorder, batch_tokens: int = BATCH_TOKENS) -> None:
        self.recorder = recorder
        self.name = recorder.name
        self._inside = Inside(recorder.transformer)
        self.shape: Mapping[Part, tuple[int, int]] = self._inside.shape
        self._batch_tokens = batch_tokens

    def read(self, pairs: Iterable[Pair], parts: Collection[Part]) -> Iterator[Reading]:
        """See `Inspected.read`."""
        for chunk in chunks(pairs, BUFFER // 4):  # maps of all layers are large
            encoded = [self._encode(pair, parts) for pair in chunk]
            found = {n: Reading(chunk[n], {}) for n, pieces in enumerate(encoded) if pieces is None}
            there = [n for n, pieces in enumerate(encoded) if pieces]
            sides = [(len(pieces.source), len(pieces.target)) for pieces in encoded if pieces]
            for batch in batches(sides, self._batch_tokens):
                numbers = [there[n] for n in batch]
                found |= dict(zip(numbers, self._read([(chunk[n], encoded[n]) for n in numbers], parts), strict=True))
            yield from (found[n] for n in range(len(chunk)))

    def _encode(self, pair: Pair, parts: Collection[Part]) -> Pieces | None:
        """The pieces of a pair, if there are any and the model takes so many."""
        if not pair.source or ({"decoder", "cross"} & set(parts) and not pair.target):
            return None
        pieces = self.recorder.encode(pair)
        most = self.recorder.max_positions
        fits = len(pieces.source) <= most[0] and len(pieces.target) < most[1]
        return pieces if fits and max(pieces.source_words) >= 0 else None

    def _read(self, batch: Sequence[tuple[Pair, Pieces | None]], parts: Collection[Part]) -> Iterator[Reading]:
        pieces = [one for _, one in batch if one]
        source, steps = self.recorder.padded(collate(pieces, self.recorder.pad))
        given = steps if {"decoder", "cross"} & set(parts) else None
        recorded = list(self._inside.record(source, given, parts))
        layers = {part: [layer for layer in recorded if layer.part == part] for part in parts}
        for n, (pair, _) in enumerate(batch):
            sides = self._tokens(pair, pieces[n])
            yield Reading(pair, {part: _maps(found, n, part, sides) for part, found in layers.items()})

    def _tokens(self, pair: Pair, pieces: Pieces) -> tuple[Tokens, Tokens]:
        """What the encoder and what the decoder reads."""
        spelt = self.recorder.spell(pair)
        start = self.recorder.start
        ids: tuple[Sequence[int], ...] = (pieces.source, [*start, *pieces.target])
        words = (pieces.source_words, [*(NULL for _ in start), *pieces.target_words])
        source, target = (
            Tokens(_names(ids[side], words[side], spelt[side], self.recorder.special[side]), tuple(words[side]), text)
            for side, text in enumerate((pair.source, pair.target))
        )
        return source, target


def _names(
    ids: Sequence[int], words: Sequence[int], spelt: Sequence[Sequence[str]], special: Mapping[int, str]
) -> tuple[str, ...]:
    """How pieces are written, special ones by their names."""
    rest = [iter(pieces) for pieces in spelt]
    return tuple(special.get(n, f"<{n}>") if word < 0 else next(rest[word]) for n, word in zip(ids, words, strict=True))


def _maps(layers: Sequence[LayerAttention], number: int, part: Part, sides: tuple[Tokens, Tokens]) -> Maps:
    """What layers attend to in one sentence of a batch."""
    rows, columns = sides[part != "encoder"], sides[part == "decoder"]
    t, s = len(rows), len(columns)
    return Maps(
        rows,
        columns,
        np.stack([layer.weights[number, :, :t, :s].numpy(force=True) for layer in layers]),
        np.stack([layer.vectors[number, :, :s].numpy(force=True) for layer in layers]),
        np.stack([layer.together[number, :t, :s].numpy(force=True) for layer in layers]),
    )
