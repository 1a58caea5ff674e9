"""Warn of a text that is not like a model's own, by its pieces, the consistency of its links, and its languages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from align.core.aligner import Direction
from align.core.backend import Recorder
from align.core.choice import consistency_of, only_choice
from align.core.stream import Encoded, SideNames, encode
from align.core.text import IdPair
from align.core.types import Choice, Pair, Pieces, Place
from align.models.language_check import LanguageCheck

MAX_UNKNOWN, MIN_UNKNOWN = 1 / 3, 5
"""Share and number of unknown pieces that cause a warning in any text, however short. A foreign script has as many; the
mark of a word's beginning is a known piece.
"""

MARKS = frozenset(".,:;!?")
MIN_MARKS = 50
"""Below this number of punctuation marks at the ends of words their pieces are not reliable."""

SAVED_PER_MARK = 0.2
"""More additional pieces per attached mark than this cause a warning.

For BPE of 2,000 to 20,000 merges, learned from 20,000 pairs of German and English, they are 0.43 to 0.69 if the
training text was Moses' tokens, and -0.67 to -0.36 if it was plain text; for the bundled models they are 0.
"""

MIN_PIECES = 100
"""Below this number of pieces shares are not reliable."""

SURE_CONSISTENCY = 2.0
"""Lexical consistency above which unrelated sentences are not compared."""

MIN_PAIRS, MAX_PAIRS = 100, 200
"""As many pairs are needed, and are taken, to compare with sentences that do not belong together."""

RELATED = 2.0
"""Sentences that belong together have at least this multiple of the consistency of others
(eval/results/bundled.doubts.tsv).
"""


class ModelCheck(LanguageCheck):
    """Compares a text with what models were trained on; the languages are those of one model.

    Warnings about the first buffer of a text come once for each text, that about its languages once in all.
    """

    def begin(
        self, direction: Direction, encoded: Sequence[Encoded], choice: Choice | None, terms: SideNames
    ) -> list[str]:
        """Return warnings about the first buffer of a text; see `align.core.aligner.TextCheck`."""
        recorder = direction.recorder
        warnings = [*_unknown(recorder, terms, [item.pieces for item in encoded if item.pieces])]
        texts = [item for item in encoded if not isinstance(item.pair, IdPair)]  # ids cannot be segmented again
        pairs = [(item.pair, item.pieces) for item in texts if item.pieces][:200]  # segmented again
        warnings += [*_swapped(recorder, terms, pairs), *_punctuation(recorder, terms, pairs)]
        if choice is None or only_choice(recorder, direction.settings):
            return warnings  # as asked, however it reads the text
        if (choice.consistency or 0) < SURE_CONSISTENCY:
            warnings += _inconsistent(direction, choice.place, texts, terms)
        return warnings


def _count(*encoded: Pieces) -> int:
    return sum(len(pieces.source) + len(pieces.target) for pieces in encoded)


def _unknown(recorder: Recorder, terms: SideNames, encoded: Sequence[Pieces]) -> Iterator[str]:
    sources = [number for pieces in encoded for number in pieces.source[:-1]]  # without </s>
    targets = [number for pieces in encoded for number in pieces.target]
    for side, own, ids in ((terms.source, "source", sources), (terms.target, "target", targets)):
        count = ids.count(recorder.unk)
        share = count / max(1, len(ids))
        if (len(ids) >= MIN_PIECES and share > 0.1) or (count >= MIN_UNKNOWN and share > MAX_UNKNOWN):
            pairs = "pair" if len(encoded) == 1 else f"{len(encoded):,} pairs"
            yield (
                f"{share:.0%} of the {side} pieces in the first {pairs} are unknown to {terms.model}: "
                f"is this side its {own} language, and are dictionary, case and subwords its own?"
            )


def _swapped(recorder: Recorder, terms: SideNames, encoded: Sequence[tuple[Pair, Pieces]]) -> Iterator[str]:
    """Yield a warning where a text takes clearly fewer pieces with its sides exchanged."""
    as_given = _count(*(pieces for _, pieces in encoded))
    swapped = _count(*(recorder.encode(Pair(pair.target, pair.source, pair.id)) for pair, _ in encoded))
    if as_given >= MIN_PIECES and swapped < 0.8 * as_given:
        yield (
            f"the text takes {as_given:,} pieces of {terms.model}, and {swapped:,} with its sides swapped: "
            f"is the source first, and does {terms.model} translate from the {terms.source}?"
        )


def _punctuation(recorder: Recorder, terms: SideNames, encoded: Sequence[tuple[Pair, Pieces]]) -> Iterator[str]:
    """Yield a warning where punctuation is attached to words and the model knows it apart, or the other way round."""
    attached = as_given = pieces_apart = 0
    for pair, pieces in encoded:
        source, target = _marks_apart(pair.source), _marks_apart(pair.target)
        if marks := len(source) + len(target) - len(pair.source) - len(pair.target):
            attached += marks
            as_given += _count(pieces)
            pieces_apart += _count(recorder.encode(Pair(source, target, pair.id)))
    if attached >= MIN_MARKS and as_given - pieces_apart > SAVED_PER_MARK * attached:
        yield (
            f"with punctuation apart from words (`house ,`) the text takes {pieces_apart:,} pieces of {terms.model} in "
            f"place of {as_given:,}: was {terms.model} trained on tokenised text, and is its tokenizer named?"
        )
    apart = sum(word in MARKS for pair, _ in encoded for word in (*pair.source, *pair.target))
    if recorder.raw and apart >= MIN_MARKS and attached < 0.05 * apart:  # a few abbreviations
        yield (
            f"punctuation is apart from words (`house ,`), as in tokenised text, but {terms.model} reads text as it is "
            "written: is there a version of the text that is not tokenised?"
        )


def _marks_apart(words: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence with the mark that ends a word as a separate word: `house ,` for `house,`."""
    parts = ((word[:-1], word[-1]) if word[-1] in MARKS and word[:-1].isalpha() else (word,) for word in words)
    return tuple(part for pair in parts for part in pair)


def _inconsistent(direction: Direction, place: Place, texts: Sequence[Encoded], terms: SideNames) -> Iterator[str]:
    """Links that are hardly more consistent than those of unrelated sentences, or less than those of neighbours.

    The former holds for text in other languages, for text that is no translation and for untrained models, the latter
    for text with one side shifted by a line. The first position of the place is judged.
    """
    different = {(item.pair.source, item.pair.target): item.pair for item in texts if item.pieces}
    pairs = list(different.values())[:MAX_PAIRS]
    if len(pairs) < MIN_PAIRS:
        return
    position, cell = next(iter(place.cells().items()))

    def consistency(shift: int) -> float:
        """Return the lexical consistency of each source with the target a number of pairs further down."""
        targets = [pairs[(n + shift) % len(pairs)].target for n in range(len(pairs))]
        moved = [
            encode(direction.recorder, Pair(pair.source, target, pair.id), "blank")
            for pair, target in zip(pairs, targets, strict=True)
        ]
        readable = [item for item in moved if item.pieces]
        return float(consistency_of(direction.reader, readable, {position: [cell]})[position].max())

    in_step = consistency(0)
    if in_step >= SURE_CONSISTENCY:
        return
    later, earlier = consistency(1), consistency(-1)
    if max(later, earlier) > RELATED * in_step:
        which = "one line further down" if later > earlier else "one line further up"
        yield (
            f"the {terms.source} goes better with the {terms.target} {which} "
            f"(lexical consistency {max(later, earlier):.2f} against {in_step:.2f}): is one of them shifted by a line?"
        )
    elif in_step < RELATED * max(later, earlier):
        yield (
            f"{terms.model} links these sentences hardly more consistently than sentences that do not belong together "
            f"(lexical consistency {in_step:.2f} against {max(later, earlier):.2f}): are they translations of each "
            "other, in its languages, and is it trained?"
        )
