"""Does a text look like what the model was trained on? Warnings where it does not."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from align.backends.base import Recorder
from align.types import Pair, Pieces, Terms, TextWarning

UNKNOWN_SHARE, UNKNOWN_AMONG = 0.1, 100
SWAPPED_SHARE, SWAPPED_AMONG = 0.8, 200


def warn_of_unknown(recorder: Recorder, terms: Terms, encoded: Sequence[Pieces]) -> None:
    """Say so where much of the first pairs is not in the model's dictionary."""
    sources = [number for pieces in encoded for number in pieces.source[:-1]]  # without </s>
    targets = [number for pieces in encoded for number in pieces.target]
    for side, own, ids in ((terms.source, "source", sources), (terms.target, "target", targets)):
        share = ids.count(recorder.unk) / max(1, len(ids))
        if len(ids) >= UNKNOWN_AMONG and share > UNKNOWN_SHARE:
            warnings.warn(
                f"{share:.0%} of the {side} pieces in the first {len(encoded):,} pairs are unknown to {terms.model}: "
                f"is this side its {own} language, and are dictionary, case and subwords its own?",
                TextWarning,
                stacklevel=4,
            )


def warn_of_swapped(recorder: Recorder, terms: Terms, encoded: Sequence[tuple[Pair, Pieces]]) -> None:
    """Say so where the text takes clearly fewer pieces the other way round: a side knows its own language best."""
    some = encoded[:SWAPPED_AMONG]
    as_given = sum(len(pieces.source) + len(pieces.target) for _, pieces in some)
    turned = [recorder.encode(Pair(pair.target, pair.source, pair.id)) for pair, _ in some]
    swapped = sum(len(pieces.source) + len(pieces.target) for pieces in turned)
    if as_given >= UNKNOWN_AMONG and swapped < SWAPPED_SHARE * as_given:
        warnings.warn(
            f"the text takes {as_given:,} pieces of {terms.model}, and {swapped:,} with its sides swapped: "
            f"is the source first, and does {terms.model} translate from the {terms.source}?",
            TextWarning,
            stacklevel=4,
        )
