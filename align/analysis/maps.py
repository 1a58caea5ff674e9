"""Attention of one sentence in one part of any model: the data that all analyses of attention read.

Letters: L layers, H heads, T rows (what attends), S columns (what is attended to).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from align.core.errors import DataError
from align.core.stream import BATCH_TOKENS, BUFFER, batches, chunks
from align.core.types import Pair, Part

Numbers = NDArray[np.float32]
Doubles = NDArray[np.float64]
Counts = NDArray[np.int64]  # numbers of things, and places among them
Mask = NDArray[np.bool_]
Output = TypeVar("Output")

SPECIAL = -1  # word number of a piece that belongs to no word: `</s>`, [CLS], a language token


class Tokens(NamedTuple):
    """A model's input on one side of a sentence."""

    pieces: tuple[str, ...]  # the pieces in the model's spelling
    words: tuple[int, ...]  # the word of each piece, from 0; SPECIAL for pieces that belong to no word
    text: tuple[str, ...]  # the user's words

    def __len__(self) -> int:
        return len(self.pieces)


@dataclass(frozen=True)
class Maps:
    """Attention of one part of a model in one sentence, in all layers and heads."""

    rows: Tokens  # the T pieces that attend
    columns: Tokens  # the S pieces that are attended to; in self-attention the same
    weights: Numbers  # attention weights a `[L, H, T, S]`
    vectors: Numbers  # norms of transformed vectors, `||f(x)||` `[L, H, S]`

    @cached_property
    def norms(self) -> Numbers:
        """Norms of each head's weighted vectors, `||a f(x)||` `[L, H, T, S]`."""
        return self.weights * self.vectors[:, :, None]


States = tuple[Tokens, Numbers]
"""A sentence's pieces, and their vectors: input of the first layer, and output of each `[L+1, S, D]`."""


class Encoded(NamedTuple):
    """A pair, the model's input for it, and the number of pieces of source and target."""

    pair: Pair
    input: Any
    lengths: tuple[int, int]


class Inspected(ABC):
    """A model that provides all its attention, and the vectors of its encoder.

    Pairs are read ahead, batched by length, and returned in input order.
    """

    name: str  # name in the signature, with a fingerprint
    shape: Mapping[Part, tuple[int, int]]  # number of layers and of heads per layer, by part
    left_out = 0  # number of pairs whose attention was asked for in vain: blank, too long or without pieces
    too_long = 0  # number of pairs that `encode` has found too long

    def read(self, pairs: Iterable[Pair], parts: Collection[Part]) -> Iterator[Mapping[Part, Maps]]:
        """Yield the attention of each pair, in input order, by part; empty if it has none.

        Args:
            pairs: source and target for a translation model, whose encoder needs no target; for an encoder one or two
                segments of text.
            parts: parts to read, from those in `shape`.
        """
        decoded = bool({"decoder", "cross"} & set(parts))
        for _, maps in self._in_order(pairs, decoded, lambda batch: self.read_batch(batch, parts)):
            if maps is None:
                self.left_out += 1
            yield maps or {}

    def states(self, pairs: Iterable[Pair]) -> Iterator[States | None]:
        """Yield the encoder's vectors of each pair's source, in input order; for an encoder alone, of both segments.

        None for a pair that is blank, too long for the model or without pieces.
        """
        for _, states in self._in_order(pairs, False, self.batch_states):
            yield states

    @abstractmethod
    def encode(self, pair: Pair, decoded: bool = False) -> Encoded | None:
        """Return the model's input, with that of the decoder or without; None if it is empty or too long."""

    @abstractmethod
    def read_batch(self, batch: Sequence[Encoded], parts: Collection[Part]) -> Iterable[Mapping[Part, Maps]]:
        """Yield the attention of each input."""

    @abstractmethod
    def batch_states(self, batch: Sequence[Encoded]) -> Iterable[States]:
        """Yield the vectors of each input."""

    def _in_order(
        self, pairs: Iterable[Pair], decoded: bool, run: Callable[[Sequence[Encoded]], Iterable[Output]]
    ) -> Iterator[tuple[Pair, Output | None]]:
        """Yield each pair with what `run` returns for it; with None if it has no input."""
        for chunk in chunks(pairs, BUFFER // 4):  # outputs of all layers are large
            inputs = {n: encoded for n, pair in enumerate(chunk) if (encoded := self.encode(pair, decoded))}
            places, outputs = list(inputs), dict[int, Output]()
            for batch in batches([encoded.lengths for encoded in inputs.values()], BATCH_TOKENS):
                numbers = [places[n] for n in batch]
                outputs |= zip(numbers, run([inputs[n] for n in numbers]), strict=True)
            yield from ((pair, outputs.get(n)) for n, pair in enumerate(chunk))


def need_encoder(model: Inspected) -> tuple[int, int]:
    """Return the number of layers of a model's encoder, and of heads in each."""
    if "encoder" not in model.shape:
        raise DataError(f"{model.name} has no attention of the encoder: there is {', '.join(model.shape)}")
    return model.shape["encoder"]


# Heads are read in two directions: by what attends, and by what is attended to. A candidate is
# one of C heads of all layers in one of these: 0 to C-1 in the first direction, C to 2C-1 in the second.

MEASURES = {"weight": "a", "norm": "‖af‖"}  # measures and their symbols in tables


def measured(maps: Maps) -> dict[str, Numbers]:
    """Return attention by each measure `[L, H, T, S]`."""
    return {"weight": maps.weights, "norm": maps.norms}


def name_candidates(numbers: Sequence[int], shape: tuple[int, int], directions: tuple[str, str]) -> str:
    """Return the names of candidates without repetition: layer-head and direction, e.g. `3-1 d>h`."""
    names = []
    for number in numbers:
        direction, head = divmod(number, shape[0] * shape[1])
        names.append(f"{head // shape[1] + 1}-{head % shape[1] + 1} {directions[direction]}")
    return " ".join(dict.fromkeys(names))


def membership(words: Sequence[int], count: int) -> Numbers:
    """Return which of P pieces is part of which of N words `[P, N]`."""
    part_of: Numbers = (np.asarray(words)[:, None] == np.arange(count)).astype(np.float32)
    return part_of


def between_words(values: Numbers, rows: Tokens, columns: Tokens) -> Numbers:
    """Merge attention between pieces into attention between words, `[..., T, S]` to `[..., J, I]`.

    Attention to a word's pieces is summed, attention from them is averaged (Clark et al. 2019). It is 0 from and to a
    word without a piece.
    """
    part_of = membership(rows.words, len(rows.text))  # [T, J]
    part_of /= np.maximum(part_of.sum(0), 1)
    merged: Numbers = part_of.T @ (values @ membership(columns.words, len(columns.text)))  # [..., J, I]
    return merged


def has_piece(tokens: Tokens) -> Mask:
    """Return which of the N words have a piece `[N]`."""
    return np.isin(np.arange(len(tokens.text)), tokens.words)
