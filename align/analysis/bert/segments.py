"""What a BERT is trained on (Devlin et al. 2019, section 3.1): one segment or two, some of their pieces hidden.

Lines need not be in order. Two segments are a line cut in two, behind a sentence if it has several; in half of these
pairs the second part is another line's. Most texts that such a model is asked about are one segment, and some are long:
so half of all examples are a line as it is, and a few are lines one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from align.core.batching import batches

Ids = NDArray[np.int64]
Random = np.random.Generator

PAD, UNK, CLS, SEP, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Pieces that are no text; their numbers are their places here."""

JOINED, SINGLE = 0.03, 0.5
"""Shares of examples: lines one after another, and lines as they are. The rest are pairs of segments."""

HIDDEN, KEPT, REPLACED = 0.15, 0.1, 0.1
"""Share of pieces that are to be told, and of those that are left as they are or replaced by any other."""

NOT_ASKED = -100
"""What a model is not to tell, as torch's cross-entropy has it."""

READ_AHEAD = 8000
"""Lines that are sorted by length together."""


@dataclass(frozen=True)
class Text:
    """A text in pieces.

    Attributes:
        ids: of all lines, one after another `[N]`.
        starts: where each line begins, and where the last one ends `[lines + 1]`.
        begins: by id, whether a piece begins a word `[V]`.
        ends: by id, whether it ends a sentence `[V]`.
    """

    ids: NDArray[np.uint16]
    starts: Ids
    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def line(self, number: int) -> Ids:
        """The pieces of a line."""
        return self.ids[self.starts[number] : self.starts[number + 1]].astype(np.int64)


class Example(NamedTuple):
    """What the model reads once: pieces `[S]`, the segment of each, and whether the second follows the first.

    `other` is 0 where it does, 1 where it is another line's, NOT_ASKED where there is none.
    """

    ids: Ids
    segments: Ids
    other: int


class Batch(NamedTuple):
    """Examples side by side.

    Attributes:
        ids: with hidden pieces replaced `[B, S]`.
        segments: of each piece `[B, S]`.
        kept: where there are pieces and not pads `[B, S]`.
        pieces: what stood there, NOT_ASKED where the model need not tell `[B, S]`.
        other: see `Example` `[B]`.
    """

    ids: Ids
    segments: Ids
    kept: NDArray[np.bool_]
    pieces: Ids
    other: Ids


def cut(line: Ids, text: Text, random: Random) -> int:
    """Where a line is cut in two, between words: behind one of its sentences if it has several, else in its middle."""
    begins = np.flatnonzero(text.begins[line])
    places = begins[begins > 0]
    behind = places[text.ends[line[places - 1]]]
    if len(behind):
        return int(random.choice(behind))
    return int(random.choice(places[len(places) // 4 : len(places) - len(places) // 4]))


def example(text: Text, number: int, longest: int, random: Random) -> Example:
    """What is made of a line, at random; of `longest` pieces at most, special ones among them."""
    room = longest - len(SPECIAL[2:])
    line = text.line(number)[:room]
    kind = random.random()
    if kind < JOINED:
        start, most = text.starts[number], int(random.integers(room // 4, room + 1))
        line = text.ids[start : start + most].astype(np.int64)
    elif kind >= JOINED + SINGLE and text.begins[line].sum() >= 4:
        place = cut(line, text, random)
        first, second, other = line[:place], line[place:], int(random.integers(2))
        if other:
            strange = text.line(int(random.integers(len(text))))[: room - len(first)]
            if text.begins[strange].sum() >= 2:
                second = strange[cut(strange, text, random) :]
            else:
                other = 0
        return _example(first, second, other)
    return _example(line, line[:0], NOT_ASKED)


def _example(first: Ids, second: Ids, other: int) -> Example:
    special = [np.array([SPECIAL.index(piece)]) for piece in (CLS, SEP)]
    parts = [special[0], first, special[1], *([second, special[1]] if other != NOT_ASKED else [])]
    ids = np.concatenate(parts)
    return Example(ids, (np.arange(len(ids)) >= len(first) + 2).astype(np.int64), other)


def collate(examples: list[Example], vocabulary: int, random: Random) -> Batch:
    """Put examples side by side, and hide pieces of them.

    Args:
        examples: one or more.
        vocabulary: how many pieces there are, special ones among them.
        random: which to hide.
    """
    shape = len(examples), max(len(one.ids) for one in examples)
    ids, segments = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for row, one in enumerate(examples):
        ids[row, : len(one.ids)] = one.ids
        segments[row, : len(one.ids)] = one.segments
    asked = (random.random(shape) < HIDDEN) & (ids >= len(SPECIAL))
    pieces = np.where(asked, ids, NOT_ASKED)
    fate = random.random(shape)
    anything = random.integers(len(SPECIAL), vocabulary, shape)
    shown = np.where(fate < KEPT, ids, np.where(fate < KEPT + REPLACED, anything, SPECIAL.index(MASK)))
    kept = np.arange(shape[1]) < np.array([[len(one.ids)] for one in examples])
    return Batch(np.where(asked, shown, ids), segments, kept, pieces, np.array([one.other for one in examples]))


def training_batches(text: Text, longest: int, tokens: int, seed: int) -> Iterator[Batch]:
    """Batches without end, the same for the same seed: a line once in each pass through the text, in another order.

    Args:
        text: whose lines have a piece each.
        longest: pieces of an example at most.
        tokens: pieces of a batch at most, pads among them.
        seed: of order, cuts and hidden pieces.
    """
    random = np.random.default_rng(seed)
    while True:
        order = random.permutation(len(text))
        for start in range(0, len(order), READ_AHEAD):
            examples = [example(text, n, longest, random) for n in order[start : start + READ_AHEAD]]
            found = list(batches([(len(one.ids), 0) for one in examples], tokens))
            for n in random.permutation(len(found)):
                yield collate([examples[m] for m in found[n]], len(text.begins), random)
