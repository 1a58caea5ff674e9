"""Maps made by hand, and a model that gives them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from align.analysis.maps import SPECIAL, Inspected, Maps, Reading, States, Tokens
from align.core.types import Pair, Part


def tokens(pieces: str) -> Tokens:
    """Pieces with spaces between; those that begin with ## go on the word before, </s> and [CLS] are special."""
    words, text = list[int](), list[str]()
    for piece in pieces.split():
        if piece.startswith(("[", "<")):
            words.append(SPECIAL)
        elif piece.startswith("##"):
            text[-1] += piece[2:]
            words.append(len(text) - 1)
        else:
            text.append(piece)
            words.append(len(text) - 1)
    return Tokens(tuple(pieces.split()), tuple(words), tuple(text))


def random_maps(rows: Tokens, columns: Tokens, shape: tuple[int, int] = (2, 3), seed: int = 1) -> Maps:
    """Attention at random, whose rows add up to 1."""
    numbers = np.random.default_rng(seed)
    weights = numbers.random((*shape, len(rows), len(columns)))
    weights /= weights.sum(-1, keepdims=True)
    vectors = numbers.random((*shape, len(columns))) + 0.5
    return Maps(rows, columns, weights.astype(np.float32), vectors.astype(np.float32))


class MadeModel(Inspected):
    """A model that gives maps made beforehand, one after the other; see `align.analysis.maps.Inspected`."""

    def __init__(self, maps: Sequence[Mapping[Part, Maps]], shape: tuple[int, int] = (2, 3)) -> None:
        self.name = "made:de-en@0000000"
        self.shape: Mapping[Part, tuple[int, int]] = dict.fromkeys(maps[-1], shape)
        self._maps = maps

    def read(self, pairs: Iterable[Pair], parts: Collection[Part]) -> Iterator[Reading]:
        """The maps of these parts, whatever the pairs are."""
        for pair, maps in zip(pairs, self._maps, strict=True):
            yield Reading(pair, {part: maps[part] for part in parts if part in maps})

    def states(self, pairs: Iterable[Pair]) -> Iterator[States]:
        """Nobody asks for vectors."""
        raise AssertionError("is not asked for")
