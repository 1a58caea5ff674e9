"""Pairs through a model: read ahead, in batches of like length, and out again in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from align.analysis.maps import Maps, Tokens
from align.analysis.recording import LayerAttention
from align.core.batching import BUFFER, batches, chunks
from align.core.types import Pair

Input = TypeVar("Input")
Output = TypeVar("Output")


class Encoded(NamedTuple, Generic[Input]):
    """A pair, and what the model reads of it.

    Attributes:
        pair: as given.
        input: its pieces.
        lengths: how many, of source and target.
    """

    pair: Pair
    input: Input
    lengths: tuple[int, int]


def in_order(
    pairs: Iterable[Pair],
    encode: Callable[[Pair], Encoded[Input] | None],
    run: Callable[[Sequence[Encoded[Input]]], Iterable[Output]],
    blank: Callable[[Pair], Output],
    batch_tokens: int,
) -> Iterator[Output]:
    """What a model makes of each pair, N in = N out.

    Args:
        pairs: any number of them.
        encode: what the model reads; None where that is nothing, or too long.
        run: a batch through the model, one output for each.
        blank: the output for a pair of which the model reads nothing.
        batch_tokens: pieces in a batch, pads included.
    """
    for chunk in chunks(pairs, BUFFER // 4):  # what comes of all layers is large
        found: dict[int, Output] = {}
        there: dict[int, Encoded[Input]] = {}
        for n, pair in enumerate(chunk):
            if encoded := encode(pair):
                there[n] = encoded
            else:
                found[n] = blank(pair)
        numbers = list(there)
        for batch in batches([there[n].lengths for n in numbers], batch_tokens):
            chosen = [numbers[n] for n in batch]
            found |= zip(chosen, run([there[n] for n in chosen]), strict=True)
        yield from (found[n] for n in range(len(chunk)))


def sentence_maps(layers: Sequence[LayerAttention], number: int, rows: Tokens, columns: Tokens) -> Maps:
    """What layers attend to in one sentence of a batch.

    Args:
        layers: of one part of the model, lowest first.
        number: the sentence's, from 0.
        rows: what attends.
        columns: what is attended to.
    """
    t, s = len(rows), len(columns)
    return Maps(
        rows,
        columns,
        np.stack([layer.weights[number, :, :t, :s].numpy(force=True) for layer in layers]),
        np.stack([layer.vectors[number, :, :s].numpy(force=True) for layer in layers]),
        np.stack([layer.together[number, :t, :s].numpy(force=True) for layer in layers]),
    )
