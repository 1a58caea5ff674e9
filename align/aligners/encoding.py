"""From sentence pairs to batches of pieces, as a model takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from align.backends.base import Recorder
from align.batching import batches
from align.errors import Argument, PairError, Remedy
from align.types import Pair, Pieces

TooLong = Literal["stop", "blank"]

BLANK = Argument("too_long", "blank")
"""What lets lines pass that are too long."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What messages call a model and its two sides, in the words of whoever gave the text."""

    model: str = "the model"
    source: str = "source"
    target: str = "target"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A pair and its pieces: None where there is nothing to align, or too much, which `skipped` says."""

    pair: Pair
    pieces: Pieces | None
    skipped: Literal["", "too long"] = ""


def encode(recorder: Recorder, pair: Pair, too_long: TooLong = "stop", terms: Terms | None = None) -> Encoded:
    """A pair with its pieces, if it has any and the model takes so many.

    Args:
        recorder: the model.
        pair: in the user's own words.
        too_long: what to do with more pieces than the model takes: "stop" raises, "blank" leaves them out.
        terms: for messages.

    Raises:
        PairError: more pieces than the model takes.
    """
    if pair.blank:
        return Encoded(pair, None)
    pieces = recorder.encode(pair)
    if not pieces.target or len(pieces.source) < 2:
        return Encoded(pair, None)
    terms = terms or Terms()
    sides = zip((terms.source, terms.target), (len(pieces.source), len(pieces.target) + 1), strict=True)
    for (side, length), most in zip(sides, recorder.max_positions, strict=True):
        if length > most:
            if too_long == "blank":
                return Encoded(pair, None, "too long")
            raise PairError(
                f"{side} has {length:,} pieces with </s>, {terms.model} takes {most:,}",
                line=pair.id,
                remedy=Remedy("shorten it, or leave such lines without links ({})", (BLANK,)),
            )
    return Encoded(pair, pieces)


def cut(encoded: Sequence[Encoded], tokens: int) -> Iterator[tuple[list[int], list[Pieces]]]:
    """What of a buffer can be aligned, in batches of like length.

    Args:
        encoded: the buffer.
        tokens: pieces in a batch, pads included.

    Yields:
        Numbers of the pairs in the buffer, from 0, and their pieces.
    """
    numbers = [n for n, one in enumerate(encoded) if one.pieces]
    pieces = [one.pieces for one in encoded if one.pieces]
    for batch in batches([(len(one.source), len(one.target)) for one in pieces], tokens):
        yield [numbers[n] for n in batch], [pieces[n] for n in batch]
