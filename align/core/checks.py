"""Does a text look like what the model was trained on? Warnings where it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from align.core.backend import Recorder
from align.core.batching import Encoded, Terms, encode
from align.core.choice import consistency_of
from align.core.extraction import Reader
from align.core.types import Cell, Choice, Pair, Pieces, Position

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

BEYOND_DOUBT = 2.0
"""Lexical consistency from which on nobody asks what that of unrelated sentences is."""

MIN_STRANGERS, STRANGERS = 100, 200
"""As many pairs are needed, and are taken, to compare with sentences that do not belong together."""

RELATED = 2.0
"""Sentences that belong together have so many times the consistency of others: eval/results/bundled.doubts.tsv."""


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


def doubts_about_choice(
    recorder: Recorder,
    reader: Reader,
    choice: Choice,
    first: Sequence[Encoded],
    cells: Mapping[Position, Sequence[Cell]],
    terms: Terms | None = None,
) -> list[str]:
    """Whether the links of a text repeat the same pairs of words more than those of sentences that only stand nearby.

    They do not where the text is of other languages or no translation, or the model is untrained; and where either side
    is shifted by a line, those of neighbours do.

    Args:
        recorder: the model.
        reader: of its attention.
        choice: where it reads this text, with the lexical consistency that chose it; nothing is said without one.
        first: the first buffer of the text.
        cells: those among which it was chosen.
        terms: what to call the model and its sides.

    Returns:
        Warnings, at most one.
    """
    if choice.consistency is None or choice.consistency >= BEYOND_DOUBT:
        return []
    different = {(one.pair.source, one.pair.target): one for one in first if one.pieces}
    pairs = list(different.values())[:STRANGERS]
    if len(pairs) < MIN_STRANGERS:
        return []
    given, later, earlier = consistency_of_neighbours(recorder, reader, pairs, cells)
    terms = terms or Terms()
    if max(later, earlier) > RELATED * given:
        which = "one line further down" if later > earlier else "one line further up"
        return [
            f"the {terms.source} goes better with the {terms.target} {which} "
            f"(lexical consistency {max(later, earlier):.2f} against {given:.2f}): is one of them shifted by a line?"
        ]
    if given < RELATED * max(later, earlier):
        return [
            f"{terms.model} links these sentences hardly more consistently than sentences that do not belong together "
            f"(lexical consistency {given:.2f} against {max(later, earlier):.2f}): are they translations of each "
            "other, in its languages, and is it trained?"
        ]
    return []


def consistency_of_neighbours(
    recorder: Recorder, reader: Reader, pairs: Sequence[Encoded], cells: Mapping[Position, Sequence[Cell]]
) -> tuple[float, float, float]:
    """Lexical consistency of pairs as they are, of each source with the next target, and with the one before.

    It is that of the best cell of the first position.

    Args:
        recorder: the model.
        reader: of its attention.
        pairs: with pieces, in the order of the text.
        cells: to read, of each position.
    """
    position = next(iter(cells))
    found = []
    for shift in (0, 1, -1):
        targets = [pairs[(n + shift) % len(pairs)].pair.target for n in range(len(pairs))]
        moved = [
            encode(recorder, Pair(one.pair.source, target, one.pair.id), "blank")
            for one, target in zip(pairs, targets, strict=True)
        ]
        readable = [one for one in moved if one.pieces]
        found.append(float(consistency_of(reader, readable, {position: cells[position]})[position].max()))
    return found[0], found[1], found[2]


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
