"""Attention of one sentence in one part of any model: the data that all analyses of attention read.

Letters: L layers, H heads, T rows (what attends), S columns (what is attended to).
"""

from __future__ import annotations

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


@dataclass(frozen=True)
class Reading:
    """A sentence or a pair of them, and its attention; without maps if it is blank or too long for the model."""

    pair: Pair
    maps: Mapping[Part, Maps]


class States(NamedTuple):
    """Vectors of a sentence in all layers of an encoder."""

    pair: Pair  # the input
    tokens: Tokens | None  # its pieces; None if the sentence is blank or too long for the model
    # input of the first layer, and output of each layer `[L+1, S, D]`; None if `tokens` is None
    layers: Numbers | None


class Encoded(NamedTuple):
    """A pair, the model's input for it, and the number of pieces of source and target."""

    pair: Pair
    input: Any
    lengths: tuple[int, int]


class Inspected:
    """A model that provides all its attention, and the vectors of its encoder.

    Pairs are read ahead, batched by length, and returned in input order. A subclass implements `encode`, `read_batch`
    and `batch_states`.

    Attributes:
        name: name in the signature, with a fingerprint.
        shape: number of layers and of heads per layer, by part.
        left_out: number of pairs whose attention was asked for in vain, for they are blank or too long.
        too_long: number of those that are too long.
    """

    name: str
    shape: Mapping[Part, tuple[int, int]]
    batch_tokens: int = BATCH_TOKENS
    left_out = too_long = 0

    def read(self, pairs: Iterable[Pair], parts: Collection[Part]) -> Iterator[Reading]:
        """Yield the attention of each pair, in input order, one reading per pair; reads a buffer at a time.

        Args:
            pairs: source and target for a translation model, whose encoder needs no target; for an encoder one or two
                segments of text.
            parts: parts to read, from those in `shape`.
        """
        decoded = bool({"decoder", "cross"} & set(parts))
        for pair, maps in self._in_order(pairs, decoded, lambda batch: self.read_batch(batch, parts)):
            if maps is None:
                self.left_out += 1
                self.too_long += bool(pair.source and (pair.target or not decoded))
            yield Reading(pair, maps or {})

    def states(self, pairs: Iterable[Pair]) -> Iterator[States]:
        """Yield the encoder's vectors of each pair's source, in input order; for an encoder alone, of both segments."""
        for pair, found in self._in_order(pairs, False, self.batch_states):
            yield States(pair, *(found or (None, None)))

    def encode(self, pair: Pair, decoded: bool = False) -> Encoded | None:
        """Return the model's input, with that of the decoder or without; None if it is empty or too long."""
        raise NotImplementedError

    def read_batch(self, batch: Sequence[Encoded], parts: Collection[Part]) -> Iterable[Mapping[Part, Maps]]:
        """Yield the attention of each input."""
        raise NotImplementedError

    def batch_states(self, batch: Sequence[Encoded]) -> Iterable[tuple[Tokens, Numbers]]:
        """Yield the pieces of each input, and their vectors `[L+1, S, D]`."""
        raise NotImplementedError

    def _in_order(
        self, pairs: Iterable[Pair], decoded: bool, run: Callable[[Sequence[Encoded]], Iterable[Output]]
    ) -> Iterator[tuple[Pair, Output | None]]:
        """Yield each pair with what `run` returns for it; with None if it has no input."""
        for chunk in chunks(pairs, BUFFER // 4):  # outputs of all layers are large
            inputs = {n: encoded for n, pair in enumerate(chunk) if (encoded := self.encode(pair, decoded))}
            places, outputs = list(inputs), dict[int, Output]()
            for batch in batches([encoded.lengths for encoded in inputs.values()], self.batch_tokens):
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
    """Merge attention between pieces into attention between words (Clark et al. 2019).

    Attention to a word's pieces is summed, attention from them is averaged. Special pieces belong to no word.

    Args:
        values: weights or norms, `[..., T, S]`.
        rows: the T pieces that attend, of J words.
        columns: the S pieces that are attended to, of I words.

    Returns:
        From J words to I words `[..., J, I]`; 0 from and to a word without a piece.
    """
    part_of = membership(rows.words, len(rows.text))  # [T, J]
    part_of /= np.maximum(part_of.sum(0), 1)
    merged: Numbers = part_of.T @ (values @ membership(columns.words, len(columns.text)))  # [..., J, I]
    return merged


def has_piece(tokens: Tokens) -> NDArray[np.bool_]:
    """Return which of the N words have a piece `[N]`."""
    return np.isin(np.arange(len(tokens.text)), tokens.words)
