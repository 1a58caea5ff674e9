"""Does a text look like what the model was trained on? Warnings where it does not."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from align.backends.base import Recorder
from align.text.batching import Encoded, Terms
from align.types import Pair, Pieces, TextWarning

UNKNOWN_SHARE = 0.1
"""More unknown pieces than this are worth a warning."""

SWAPPED_SHARE = 0.8
"""So is a text that takes fewer pieces than this, of what it takes, with its sides swapped."""

SWAPPED_AMONG = 200
"""Pairs that are tried with their sides swapped."""

MIN_PIECES = 100
"""With fewer pieces than this shares say too little."""


def check_text(recorder: Recorder, first: Sequence[Encoded], terms: Terms | None = None) -> None:
    """Look at the first buffer of a text.

    Warns:
        TextWarning: much of it is not in the model's dictionary, or it looks as if its sides were swapped.
    """
    encoded = [(one.pair, one.pieces) for one in first if one.pieces]
    _warn_of_unknown(recorder, terms or Terms(), [pieces for _, pieces in encoded])
    _warn_of_swapped(recorder, terms or Terms(), encoded[:SWAPPED_AMONG])


def _warn_of_unknown(recorder: Recorder, terms: Terms, encoded: Sequence[Pieces]) -> None:
    """Say so where much of the first pairs is not in the model's dictionary."""
    sources = [number for pieces in encoded for number in pieces.source[:-1]]  # without </s>
    targets = [number for pieces in encoded for number in pieces.target]
    for side, own, ids in ((terms.source, "source", sources), (terms.target, "target", targets)):
        share = ids.count(recorder.unk) / max(1, len(ids))
        if len(ids) >= MIN_PIECES and share > UNKNOWN_SHARE:
            warnings.warn(
                f"{share:.0%} of the {side} pieces in the first {len(encoded):,} pairs are unknown to {terms.model}: "
                f"is this side its {own} language, and are dictionary, case and subwords its own?",
                TextWarning,
                stacklevel=3,
            )


def _warn_of_swapped(recorder: Recorder, terms: Terms, encoded: Sequence[tuple[Pair, Pieces]]) -> None:
    """Say so where the text takes clearly fewer pieces the other way round: a side knows its own language best."""
    as_given = sum(len(pieces.source) + len(pieces.target) for _, pieces in encoded)
    reversed_pairs = [recorder.encode(Pair(pair.target, pair.source, pair.id)) for pair, _ in encoded]
    swapped = sum(len(pieces.source) + len(pieces.target) for pieces in reversed_pairs)
    if as_given >= MIN_PIECES and swapped < SWAPPED_SHARE * as_given:
        warnings.warn(
            f"the text takes {as_given:,} pieces of {terms.model}, and {swapped:,} with its sides swapped: "
            f"is the source first, and does {terms.model} translate from the {terms.source}?",
            TextWarning,
            stacklevel=3,
        )
