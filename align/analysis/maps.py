"""What questions about attention are asked of: a sentence's attention in one part of a model, whichever model it is.

Letters: L layers, H heads, T rows (what attends), S columns (what is attended to).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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


# Heads look for something in two directions: by what attends, and by what is attended to. A candidate is
# one of C heads of all layers in one of these: 0 to C-1 in the first direction, C to 2C-1 in the second.

MEASURES = {"weight": "a", "norm": "‖af‖"}
"""Each measure, and what tables call it."""


def measured(maps: Maps) -> dict[str, Numbers]:
    """Attention by each measure `[L, H, T, S]`."""
    return {"weight": maps.weights, "norm": maps.norms}


def name_candidates(numbers: Sequence[int], shape: tuple[int, int], directions: tuple[str, str]) -> str:
    """How candidates are called, each once: layer-head and direction, such as `3-1 d>h`.

    Args:
        numbers: of candidates.
        shape: layers, and heads in each.
        directions: names of the two.
    """
    names = []
    for number in numbers:
        direction, head = divmod(number, shape[0] * shape[1])
        names.append(f"{head // shape[1] + 1}-{head % shape[1] + 1} {directions[direction]}")
    return " ".join(dict.fromkeys(names))


class WordMaps(NamedTuple):
    """Attention between words: what goes to a word's pieces is summed, what comes from them is averaged (Clark 2019).

    Special pieces are part of no word: what goes to them is kept apart, and what comes from them is left out.

    Attributes:
        words: from J words to I words `[..., J, I]`; 0 from and to a word without a piece.
        special: from J words to all special pieces together `[..., J]`.
    """

    words: Numbers
    special: Numbers


def membership(words: Sequence[int], count: int) -> Numbers:
    """Which piece is part of which word: P pieces by `count` words and, in the last column, the special `[P, N+1]`."""
    columns = np.append(np.arange(count), SPECIAL)
    part_of: Numbers = (np.asarray(words)[:, None] == columns).astype(np.float32)
    return part_of


def between_words(values: NDArray[np.float32], rows: Tokens, columns: Tokens) -> WordMaps:
    """Merge attention between pieces.

    Args:
        values: weights or norms, `[..., T, S]`.
        rows: the T pieces that attend, of J words.
        columns: the S pieces that are attended to, of I words.
    """
    to = values @ membership(columns.words, len(columns.text))  # [..., T, I+1]
    of = membership(rows.words, len(rows.text))[:, :-1]  # [T, J]
    of /= np.maximum(of.sum(0), 1)
    merged = of.T @ to  # [..., J, I+1]
    return WordMaps(merged[..., :-1], merged[..., -1])


def has_piece(tokens: Tokens) -> NDArray[np.bool_]:
    """Which of the N words have a piece `[N]`."""
    return np.isin(np.arange(len(tokens.text)), tokens.words)
