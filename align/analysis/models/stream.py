"""Runs pairs through a model: reads ahead, batches by length, and restores the input order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from align.analysis.maps import Maps, Tokens
from align.analysis.recording import LayerAttention
from align.core.stream import BUFFER, batches, chunks
from align.core.types import Pair

Input = TypeVar("Input")
Output = TypeVar("Output")


class Encoded(NamedTuple, Generic[Input]):
    """A pair and the model's input for it.

    Attributes:
        pair: the input pair.
        input: its pieces.
        lengths: number of pieces of source and target.
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
    """Yield a model's output for each pair, in input order.

    Args:
        pairs: any number of pairs.
        encode: returns the model's input; None if it is empty or too long.
        run: runs a batch through the model, with one output per input.
        blank: returns the output for a pair without input.
        batch_tokens: pieces in a batch, padding included.
    """
    for chunk in chunks(pairs, BUFFER // 4):  # outputs of all layers are large
        outputs: dict[int, Output] = {}
        inputs: dict[int, Encoded[Input]] = {}
        for n, pair in enumerate(chunk):
            if encoded := encode(pair):
                inputs[n] = encoded
            else:
                outputs[n] = blank(pair)
        numbers = list(inputs)
        for batch in batches([inputs[n].lengths for n in numbers], batch_tokens):
            chosen = [numbers[n] for n in batch]
            outputs |= zip(chosen, run([inputs[n] for n in chosen]), strict=True)
        yield from (outputs[n] for n in range(len(chunk)))


def sentence_maps(layers: Sequence[LayerAttention], number: int, rows: Tokens, columns: Tokens) -> Maps:
    """Return the attention of some layers in one sentence of a batch.

    Args:
        layers: layers of one part of the model, lowest first.
        number: index of the sentence in the batch, from 0.
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
