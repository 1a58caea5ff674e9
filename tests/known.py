"""A model whose attention is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from align import Cell, Pair
from align.core.text import IdPair
from align.core.types import Batch, CrossAttention, Pieces, Search
from align.models.ids import pieces_of

HEAD = 3
RIGHT = Cell(2, HEAD)


class KnownTranslator:
    """Translates numbers into the same numbers, the last one first."""

    longest = 100

    def __init__(self, search: Search) -> None:
        self.search = search

    def __call__(self, sources: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        return [tuple(str(piece - 10) for piece in reversed(source[:-1])) for source in sources]


class KnownRecorder:
    """Three layers of three heads; all attend at random but one, which reads the source word of the same number.

    Words are numbers; "-" is a word without a piece.
    """

    name, text, dtype, device = "known", "numbers", "float32", "cpu"
    layers, heads, max_positions = 3, 3, (100, 100)
    pad, unk = 1, 3
    languages = ("numbers", "numbers")
    raw = multilingual = prompted = False

    def encode(self, pair: Pair) -> Pieces:
        if isinstance(pair, IdPair):
            return pieces_of(pair, ({2}, {2}), self.pad, [2], (1000, 1000))
        source = [(int(word) + 10, i) for i, word in enumerate(pair.source) if word != "-"]
        target = [(int(word) + 10, j) for j, word in enumerate(pair.target) if word != "-"]
        return Pieces(
            [*(n for n, _ in source), 2], [*(i for _, i in source), -1],
            [n for n, _ in target], [j for _, j in target], (len(pair.source), len(pair.target)),
        )  # fmt: skip

    def spell(self, pair: Pair) -> tuple[list[list[str]], list[list[str]]]:
        source, target = ([[word] * (word != "-") for word in side] for side in (pair.source, pair.target))
        return source, target

    def record(self, batch: Batch, layers: Sequence[int]) -> Iterator[CrossAttention]:
        generator = torch.Generator().manual_seed(int(batch.source.sum()))
        size, steps, length = batch.source.shape[0], batch.target.shape[1] + 1, batch.source.shape[1]
        copies = (batch.target.unsqueeze(2) == batch.source.unsqueeze(1)).float()  # [B, T, S]
        copies = torch.nn.functional.pad(copies, (0, 0, 1, 0))  # read at the step after </s>
        for layer in layers:
            weights = torch.rand(size, 3, steps, length, generator=generator)
            if layer == RIGHT.layer:
                weights[:, HEAD - 1] = copies + 1e-3
            weights *= (batch.source != self.pad)[:, None, None, :]
            yield CrossAttention(layer, weights, torch.ones(size, 3, length, 1), torch.ones(3, 1, 1))

    def translator(self, search: Search, batch_tokens: int) -> KnownTranslator:
        return KnownTranslator(search)
