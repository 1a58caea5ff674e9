"""The least that aligners on a multilingual encoder cost: its forward pass over both sides, with random weights."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from align import Pair

TOKEN = re.compile(r"\w+|[^\w\s]")
"""What BERT cuts before it cuts words into pieces."""

BATCH_PIECES = 2000

POSITIONS = 512


class Shape(NamedTuple):
    """An encoder's sizes."""

    pieces: int = 119_547
    width: int = 768
    heads: int = 12
    hidden: int = 3_072


MBERT = Shape()


class Encoder(nn.Module):
    """Layers as BERT's, with random weights.

    Args:
        shape: sizes.
        layers: how many.
    """

    def __init__(self, shape: Shape, layers: int) -> None:
        super().__init__()
        self._words = nn.Embedding(shape.pieces, shape.width)
        self._positions = nn.Embedding(POSITIONS, shape.width)
        self._norm = nn.LayerNorm(shape.width)
        layer = nn.TransformerEncoderLayer(shape.width, shape.heads, shape.hidden, activation="gelu", batch_first=True)
        self._layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.eval()

    def forward(self, pieces: Tensor, pads: Tensor) -> Tensor:
        """What comes out for pieces `[B, S]`, of which these are pads `[B, S]`: `[B, S, D]`."""
        places = torch.arange(pieces.shape[1])
        embedded = self._norm(self._words(pieces) + self._positions(places))  # [B, S, D]
        found: Tensor = self._layers(embedded, src_key_padding_mask=pads)
        return found


def lengths(sentences: Sequence[Sequence[str]]) -> list[int]:
    """How many pieces each has at least: a piece for a word or sign, and one at either end."""
    return [min(POSITIONS, 2 + len(TOKEN.findall(" ".join(words)))) for words in sentences]


def batch_lengths(sizes: Sequence[int]) -> list[list[int]]:
    """Lengths in batches of like ones, of at most 2,000 pieces, pads included."""
    found: list[list[int]] = [[]]
    for size in sorted(sizes):
        if found[-1] and size * (len(found[-1]) + 1) > BATCH_PIECES:
            found.append([])
        found[-1].append(size)
    return found


@torch.inference_mode()
def forward_seconds(pairs: Sequence[Pair], layers: int, threads: int, shape: Shape = MBERT) -> float:
    """Time of the pass over both sides of a text, once the model is there and warm.

    Args:
        pairs: the text.
        layers: of the encoder.
        threads: of torch.
        shape: sizes of the encoder.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model = Encoder(shape, layers)
        sides = ([pair.source for pair in pairs], [pair.target for pair in pairs])
        batches = [batch for side in sides for batch in batch_lengths(lengths(side))]
        inputs = []
        for batch in batches:
            pads = torch.arange(max(batch)) >= torch.tensor(batch)[:, None]  # [B, S]
            inputs.append((torch.randint(shape.pieces, pads.shape), pads))
        model(*inputs[0])
        start = time.perf_counter()
        for batch_input in inputs:
            model(*batch_input)
        return time.perf_counter() - start
    finally:
        torch.set_num_threads(before)
