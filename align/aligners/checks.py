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

AMONG = 200
"""Pairs that are tried with their sides swapped, or their punctuation apart."""

MARKS = frozenset(".,:;!?")
MIN_MARKS = 50
"""With fewer marks at the ends of words than this their pieces say too little."""

SAVED_PER_MARK = 0.2
"""More pieces than this that each mark takes because it does not stand apart are worth a warning.

For BPE of 2,000 to 20,000 merges, learned from 20,000 pairs of German and English, they are 0.43 to 0.69 where these
were Moses' tokens, and -0.67 to -0.36 where they were plain text; for the bundled models they are 0.
"""

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
    tried = [
        *_swapped(recorder, terms or Terms(), encoded[:AMONG]),
        *_attached(recorder, terms or Terms(), encoded[:AMONG]),
    ]
    return [*unknown, *tried]


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


def _attached(recorder: Recorder, terms: Terms, encoded: Sequence[tuple[Pair, Pieces]]) -> Iterator[str]:
    """Punctuation at the ends of words, for a model that has only seen it apart: then each mark takes more pieces."""
    marks = as_given = apart = 0
    for pair, pieces in encoded:
        source, target = _marks_apart(pair.source), _marks_apart(pair.target)
        if found := len(source) + len(target) - len(pair.source) - len(pair.target):
            other = recorder.encode(Pair(source, target, pair.id))
            marks += found
            as_given += len(pieces.source) + len(pieces.target)
            apart += len(other.source) + len(other.target)
    if marks >= MIN_MARKS and as_given - apart > SAVED_PER_MARK * marks:
        yield (
            f"with punctuation apart from words (`house ,`) the text takes {apart:,} pieces of {terms.model} in place "
            f"of {as_given:,}: was {terms.model} trained on tokenised text, and is its tokenizer named?"
        )


def _marks_apart(words: Sequence[str]) -> tuple[str, ...]:
    """A sentence with the mark that ends a word as a word of its own: `house ,` for `house,`."""
    parts = ((word[:-1], word[-1]) if word[-1] in MARKS and word[:-1].isalpha() else (word,) for word in words)
    return tuple(part for pair in parts for part in pair)
