"""Runs pairs through a model: reads ahead, batches by length, and restores the input order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from align.analysis.maps import Maps, Numbers, Reading, States, Tokens
from align.analysis.recording import LayerAttention
from align.core.stream import BATCH_TOKENS, BUFFER, batches, chunks
from align.core.types import Pair, Part

Input = TypeVar("Input")
Output = TypeVar("Output")


class Encoded(NamedTuple, Generic[Input]):
    """A pair, the model's input for it, and the number of pieces of source and target."""

    pair: Pair
    input: Input
    lengths: tuple[int, int]


class BatchedModel(ABC, Generic[Input]):
    """A model that reads pairs in batches of so many pieces; see `Inspected`.

    Attributes:
        left_out: number of pairs whose attention was asked for in vain, for they are blank or too long.
        too_long: number of those that are too long.
    """

    name: str
    shape: Mapping[Part, tuple[int, int]]
    batch_tokens: int = BATCH_TOKENS
    left_out = too_long = 0

    def read(self, pairs: Iterable[Pair], parts: Collection[Part]) -> Iterator[Reading]:
        """See `Inspected.read`."""
        decoded = bool({"decoder", "cross"} & set(parts))
        for pair, maps in self._in_order(pairs, decoded, lambda batch: self.read_batch(batch, parts)):
            if maps is None:
                self.left_out += 1
                self.too_long += bool(pair.source and (pair.target or not decoded))
            yield Reading(pair, maps or {})

    def states(self, pairs: Iterable[Pair]) -> Iterator[States]:
        """See `Inspected.states`."""
        for pair, found in self._in_order(pairs, False, self.batch_states):
            yield States(pair, *(found or (None, None)))

    @abstractmethod
    def encode(self, pair: Pair, decoded: bool = False) -> Encoded[Input] | None:
        """Return the model's input, with that of the decoder or without; None if it is empty or too long."""

    @abstractmethod
    def read_batch(self, batch: Sequence[Encoded[Input]], parts: Collection[Part]) -> Iterator[Mapping[Part, Maps]]:
        """Yield the attention of each input."""

    @abstractmethod
    def batch_states(self, batch: Sequence[Encoded[Input]]) -> Iterator[tuple[Tokens, Numbers]]:
        """Yield the pieces of each input, and their vectors `[L+1, S, D]`."""

    def _in_order(
        self, pairs: Iterable[Pair], decoded: bool, run: Callable[[Sequence[Encoded[Input]]], Iterable[Output]]
    ) -> Iterator[tuple[Pair, Output | None]]:
        """Yield each pair with what `run` says of it; with None if it has no input."""
        for chunk in chunks(pairs, BUFFER // 4):  # outputs of all layers are large
            encoded = [self.encode(pair, decoded) for pair in chunk]
            inputs = [item for item in encoded if item]
            outputs: dict[int, Output] = {}
            for batch in batches([item.lengths for item in inputs], self.batch_tokens):
                outputs |= zip(batch, run([inputs[n] for n in batch]), strict=True)
            numbers = iter(range(len(inputs)))
            yield from (
                (pair, outputs[next(numbers)] if item else None) for pair, item in zip(chunk, encoded, strict=True)
            )


def sentence_maps(layers: Sequence[LayerAttention], number: int, rows: Tokens, columns: Tokens) -> Maps:
    """Return the attention of the layers of one part, lowest first, in the sentence of this number in a batch."""
    t, s = len(rows), len(columns)
    weights = np.stack([layer.weights[number, :, :t, :s].numpy(force=True) for layer in layers])
    vectors = np.stack([layer.vectors[number, :, :s].numpy(force=True) for layer in layers])
    return Maps(rows, columns, weights, vectors)
