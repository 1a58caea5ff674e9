"""Does a text look like what the model was trained on? Warnings where it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from align.backends.base import Recorder
from align.text.batching import Encoded, Terms
from align.types import Pair, Pieces

UNKNOWN_SHARE = 0.1
"""More unknown pieces than this are worth a warning."""

SWAPPED_SHARE = 0.8
"""So is a text that takes fewer pieces than this, of what it takes, with its sides swapped."""

SWAPPED_AMONG = 200
"""Pairs that are tried with their sides swapped."""

MIN_PIECES = 100
"""With fewer pieces than this shares say too little."""


def doubts_about_text(recorder: Recorder, first: Sequence[Encoded], terms: Terms | None = None) -> list[str]:
    """What in the first buffer of a text looks as if it were not this model's text, or as if its sides were swapped.

    Args:
        recorder: the model.
        first: the buffer.
        terms: what to call the model and its sides.

    Returns:
        Warnings, none where all looks well.
    """
    encoded = [(one.pair, one.pieces) for one in first if one.pieces]
    unknown = _unknown(recorder, terms or Terms(), [pieces for _, pieces in encoded])
    return [*unknown, *_swapped(recorder, terms or Terms(), encoded[:SWAPPED_AMONG])]


def _unknown(recorder: Recorder, terms: Terms, encoded: Sequence[Pieces]) -> Iterator[str]:
    """Sides of which much is not in the model's dictionary."""
    sources = [number for pieces in encoded for number in pieces.source[:-1]]  # without </s>
    targets = [number for pieces in encoded for number in pieces.target]
    for side, own, ids in ((terms.source, "source", sources), (terms.target, "target", targets)):
        share = ids.count(recorder.unk) / max(1, len(ids))
        if len(ids) >= MIN_PIECES and share > UNKNOWN_SHARE:
            yield (
                f"{share:.0%} of the {side} pieces in the first {len(encoded):,} pairs are unknown to {terms.model}: "
                f"is this side its {own} language, and are dictionary, case and subwords its own?"
            )


def _swapped(recorder: Recorder, terms: Terms, encoded: Sequence[tuple[Pair, Pieces]]) -> Iterator[str]:
    """A text that takes clearly fewer pieces the other way round: a side knows its own language best."""
    as_given = sum(len(pieces.source) + len(pieces.target) for _, pieces in encoded)
    reversed_pairs = [recorder.encode(Pair(pair.target, pair.source, pair.id)) for pair, _ in encoded]
    swapped = sum(len(pieces.source) + len(pieces.target) for pieces in reversed_pairs)
    if as_given >= MIN_PIECES and swapped < SWAPPED_SHARE * as_given:
        yield (
            f"the text takes {as_given:,} pieces of {terms.model}, and {swapped:,} with its sides swapped: "
            f"is the source first, and does {terms.model} translate from the {terms.source}?"
        )
