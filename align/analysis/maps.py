"""What questions about attention are asked of: a sentence's attention in one part of a model, whichever model it is.

Letters: L layers, H heads, T rows (what attends), S columns (what is attended to).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from align.core.types import Pair, Part

Numbers = NDArray[np.float32]

SPECIAL = -1
"""The word of a piece that is part of none: `</s>`, [CLS], a language."""


class Tokens(NamedTuple):
    """What a model reads on one side of a sentence.

    Attributes:
        pieces: as the model spells them.
        words: the word of each piece, from 0; SPECIAL for those of none.
        text: the user's own words.
    """

    pieces: tuple[str, ...]
    words: tuple[int, ...]
    text: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.pieces)


@dataclass(frozen=True)
class Maps:
    """Attention of one part of a model in one sentence, in all layers and heads.

    Attributes:
        rows: what attends, T pieces.
        columns: what is attended to, S pieces; in self-attention the same.
        weights: attention weights a `[L, H, T, S]`.
        vectors: norms of transformed vectors, `||f(x)||` `[L, H, S]`.
        together: norm of all heads' sum, `||sum_h a_h f_h(x)||` `[L, T, S]` (Kobayashi et al. 2020, eq. 5).
    """

    rows: Tokens
    columns: Tokens
    weights: Numbers
    vectors: Numbers
    together: Numbers

    @cached_property
    def norms(self) -> Numbers:
        """Norms of each head's weighted vectors, `||a f(x)||` `[L, H, T, S]`."""
        return self.weights * self.vectors[:, :, None]


@dataclass(frozen=True)
class Reading:
    """A sentence or a pair of them, and the attention to it: no maps where it is blank or too long for the model."""

    pair: Pair
    maps: Mapping[Part, Maps]


class States(NamedTuple):
    """A sentence's vectors on their way through an encoder.

    Attributes:
        pair: as given.
        tokens: its pieces; None where the sentence is blank or too long for the model.
        layers: what goes into the first layer, and what comes out of each `[L+1, S, D]`; None likewise.
    """

    pair: Pair
    tokens: Tokens | None
    layers: Numbers | None


class Inspected(Protocol):
    """A model that shows all its attention.

    Attributes:
        name: for the signature, with a fingerprint.
        shape: how many layers, and heads in each, its parts have.
    """

    name: str
    shape: Mapping[Part, tuple[int, int]]

    def read(self, pairs: Iterable[Pair], parts: Collection[Part]) -> Iterator[Reading]:
        """The attention to each pair, in order, N in = N out, a buffer of them at a time.

        Args:
            pairs: of a source and a target for a translation model, whose encoder needs no target; of one segment of
                text, or two, for an encoder.
            parts: which, of those in `shape`.
        """
        ...


class Layered(Inspected, Protocol):
    """A model that shows the vectors of its encoder, too."""

    def states(self, pairs: Iterable[Pair]) -> Iterator[States]:
        """The encoder's vectors of each pair's source, in order, N in = N out; for an encoder alone, of both segments.

        Args:
            pairs: as for `read`.
        """
        ...
