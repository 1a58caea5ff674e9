"""Choose layer and head where the settings leave them open, and warn of a text that is not like the model's own.

A model with a stored calibration keeps it, whatever the text; otherwise lexical consistency chooses.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from align.core.backend import AttentionRecorder, Recorder
from align.core.consistency import CHOOSING_PAIRS, MIN_PAIRS, LinkedWords
from align.core.errors import ModelError, plural
from align.core.scores import Reader, best_words, each_cell
from align.core.stream import BATCH_TOKENS, Encoded, Terms, cut, encode
from align.core.text import IdPair
from align.core.types import Cell, Choice, Head, Pair, Pieces, Place, Position, Score, Settings

Calibration = Mapping[tuple[Score, Position], Cell]
"""Cells that a model's folder stores."""

_log = logging.getLogger("align")

AHEAD = 1.2
"""Multiple of a position's lexical consistency from which the other position is read alone, if that is open."""


def all_cells(recorder: AttentionRecorder) -> list[Cell]:
    """Return the cells of all layers, lowest first, with all heads together before single heads."""
    heads: tuple[Head, ...] = ("all", *range(1, recorder.heads + 1))
    return [Cell(*cell) for cell in product(range(1, recorder.layers + 1), heads)]


def candidates(recorder: AttentionRecorder, settings: Settings) -> dict[Position, list[Cell]]:
    """Return the cells that the settings allow in each position that is read, in the order of `all_cells`.

    Raises:
        ModelError: the model does not have the layer or head.
    """
    allowed = _allowed(recorder, settings.layer, settings.head)
    if settings.position == "both":
        return {"input": allowed, "output": _allowed(recorder, settings.output_layer, settings.output_head)}
    return {"input": allowed, "output": allowed} if settings.position == "auto" else {settings.position: allowed}


def _allowed(recorder: AttentionRecorder, layer: int | str, head: int | str) -> list[Cell]:
    for name, value, limit in (("layer", layer, recorder.layers), ("head", head, recorder.heads)):
        if isinstance(value, int) and value > limit:
            raise ModelError(f"{name} {value} is out of range: {recorder.name} has {plural(limit, name)}")
    return [cell for cell in all_cells(recorder) if layer in ("auto", cell.layer) and head in ("auto", cell.head)]


def only_choice(recorder: AttentionRecorder, settings: Settings) -> Choice | None:
    """Return the choice if the settings leave only one."""
    allowed = candidates(recorder, settings)
    if settings.position == "auto" or any(len(cells) > 1 for cells in allowed.values()):
        return None
    return Choice(_place({position: cell for position, (cell,) in allowed.items()}), "as asked")


def choose(
    reader: Reader,
    encoded: Sequence[Encoded],
    settings: Settings,
    stored: Calibration | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> Choice:
    """Choose layer and head for a text, and the position if it is open.

    What the model stores is kept, where the settings allow it. What is open then up to CHOOSING_PAIRS pairs of the text
    decide, by lexical consistency. Below MIN_PAIRS the layer at a third of the depth is read.
    """
    allowed = _open(reader.recorder, settings, stored or {})
    pairs = [item for item in encoded if item.pieces][:CHOOSING_PAIRS]
    if len(pairs) < MIN_PAIRS:
        return _default_choice(reader.recorder, allowed)
    _log.info("choosing layer and head of %s on %s", reader.recorder.name, plural(len(pairs), "pair"))
    consistency = consistency_of(reader, pairs, allowed, batch_tokens)
    best = {position: float(values.max()) for position, values in consistency.items()}
    if settings.position == "auto":
        best = {position: best[position] for position in leading(best)}
    place = _place({position: allowed[position][int(consistency[position].argmax())] for position in best})
    return Choice(place, f"by lexical consistency over {len(pairs):,} pairs", next(iter(best.values())))


def stored_choice(recorder: AttentionRecorder, settings: Settings, stored: Calibration) -> Choice | None:
    """Return the choice that the model stores; None if it has none, or the settings exclude it."""
    allowed = _open(recorder, settings, stored)
    if any(len(cells) > 1 for cells in allowed.values()):
        return None
    asked = [position for position, cells in candidates(recorder, settings).items() if len(cells) == 1]
    reason = f"the {asked[0]} position as asked, otherwise " if asked else ""
    place = _place({position: cell for position, (cell,) in allowed.items()})
    return Choice(place, f"{reason}the model's own calibration")


def _open(recorder: AttentionRecorder, settings: Settings, stored: Calibration) -> dict[Position, list[Cell]]:
    """Return the cells of each position that the settings and the stored calibration leave open."""
    allowed = candidates(recorder, settings)
    kept = {p: [cell] for p, cells in allowed.items() if (cell := stored.get((settings.score, p))) in cells}
    if settings.position == "auto" and kept:  # a calibration has the positions that lead
        return kept
    return {**allowed, **kept}


def leading(consistency: Mapping[Position, float]) -> list[Position]:
    """Return the position whose links are at least AHEAD times as consistent as the other's, or else both."""
    low, high = sorted(consistency, key=lambda position: consistency[position])
    return [high] if consistency[high] >= AHEAD * consistency[low] else list(consistency)


def consistency_of(
    reader: Reader, pairs: Sequence[Encoded], cells: Mapping[Position, Sequence[Cell]], batch_tokens: int = BATCH_TOKENS
) -> dict[Position, NDArray[np.float64]]:
    """Return the lexical consistency of the links of some cells, in their order, for each position.

    Args:
        cells: cells of each position, in the order of `all_cells`.
    """
    linked = {position: LinkedWords((len(ways),)) for position, ways in cells.items()}
    for numbers, batch in cut(pairs, batch_tokens):
        words: dict[Position, list[NDArray[np.int64]]] = {position: [] for position in cells}  # [B, C, J] of each layer
        for part in each_cell(reader.recorder, batch, cells, [reader.score], reader.null):
            words[part.position].append(best_words(part.words, reader.null)[0].cpu().numpy())
        for position, layers in words.items():
            for n, best in zip(numbers, np.concatenate(layers, axis=1), strict=True):
                linked[position].add(pairs[n].pair, best)
    return {position: ways.consistency() for position, ways in linked.items()}


def _default_choice(recorder: AttentionRecorder, allowed: Mapping[Position, Sequence[Cell]]) -> Choice:
    """Return the choice for a text that is too short to choose by."""
    (position, cells), *second = allowed.items()
    cell = _first_of_layer(max(1, round(recorder.layers / 3)), cells)
    place = {position: cell}
    for other, outputs in second:
        place[other] = _first_of_layer(min(cell.layer + 1, recorder.layers), outputs)
    return Choice(_place(place), f"the default, under {MIN_PAIRS} pairs in the buffer to choose by")


def _first_of_layer(layer: int, cells: Sequence[Cell]) -> Cell:
    return next((cell for cell in cells if cell.layer == layer), cells[0])


def _place(cells: Mapping[Position, Cell]) -> Place:
    return Place(cells.get("input"), cells.get("output"))


UNKNOWN_SHARE = 0.1
"""A larger share of unknown pieces causes a warning."""

SWAPPED_SHARE = 0.8
"""So does a text that takes less than this share of its pieces when its sides are swapped."""

AMONG = 200
"""Pairs that are segmented again with their sides swapped, or with punctuation apart."""

MARKS = frozenset(".,:;!?")
MIN_MARKS = 50
"""Below this number of punctuation marks at the ends of words their pieces are not reliable."""

SAVED_PER_MARK = 0.2
"""More additional pieces per attached mark than this cause a warning.

For BPE of 2,000 to 20,000 merges, learned from 20,000 pairs of German and English, they are 0.43 to 0.69 if the
training text was Moses' tokens, and -0.67 to -0.36 if it was plain text; for the bundled models they are 0.
"""

RARE = 0.05
"""Tokenised text has fewer marks attached to words than this share of those apart: a few abbreviations."""

MIN_PIECES = 100
"""Below this number of pieces shares are not reliable."""

MOST_UNKNOWN, MIN_UNKNOWN = 1 / 3, 5
"""Share and number of unknown pieces that cause a warning in any text, however short. A foreign script has as many; the
mark of a word's beginning is a known piece.
"""

BEYOND_DOUBT = 2.0
"""Lexical consistency above which unrelated sentences are not compared."""

MIN_STRANGERS, STRANGERS = 100, 200
"""As many pairs are needed, and are taken, to compare with sentences that do not belong together."""

RELATED = 2.0
"""Sentences that belong together have at least this multiple of the consistency of others
(eval/results/bundled.doubts.tsv).
"""


def doubts_about_text(recorder: Recorder, first: Sequence[Encoded], terms: Terms | None = None) -> list[str]:
    """Return warnings about unknown pieces, swapped sides and attached punctuation in the first buffer of a text."""
    unknown = _unknown(recorder, terms or Terms(), [item.pieces for item in first if item.pieces])
    encoded = [(item.pair, item.pieces) for item in first if item.pieces and not isinstance(item.pair, IdPair)]
    tried = [
        *_swapped(recorder, terms or Terms(), encoded[:AMONG]),
        *_attached(recorder, terms or Terms(), encoded[:AMONG]),
        *_apart(recorder, terms or Terms(), encoded[:AMONG]),
    ]
    return [*unknown, *tried]


def doubts_about_place(
    recorder: Recorder, reader: Reader, place: Place, first: Sequence[Encoded], terms: Terms | None = None
) -> list[str]:
    """Warn if links are hardly more consistent than those of unrelated sentences, or less than those of neighbours.

    The former holds for text in other languages, for text that is no translation and for untrained models, the latter
    for text with one side shifted by a line.

    Args:
        place: what is read, whose first position is judged.

    Returns:
        Warnings, at most one.
    """
    different = {(item.pair.source, item.pair.target): item for item in first if item.pieces}
    pairs = list(different.values())[:STRANGERS]
    if len(pairs) < MIN_STRANGERS:
        return []
    in_step = consistency_of_shifted(recorder, reader, pairs, place, 0)
    if in_step >= BEYOND_DOUBT:
        return []
    later, earlier = (consistency_of_shifted(recorder, reader, pairs, place, shift) for shift in (1, -1))
    terms = terms or Terms()
    if max(later, earlier) > RELATED * in_step:
        which = "one line further down" if later > earlier else "one line further up"
        return [
            f"the {terms.source} goes better with the {terms.target} {which} "
            f"(lexical consistency {max(later, earlier):.2f} against {in_step:.2f}): is one of them shifted by a line?"
        ]
    if in_step < RELATED * max(later, earlier):
        return [
            f"{terms.model} links these sentences hardly more consistently than sentences that do not belong together "
            f"(lexical consistency {in_step:.2f} against {max(later, earlier):.2f}): are they translations of each "
            "other, in its languages, and is it trained?"
        ]
    return []


def consistency_of_shifted(
    recorder: Recorder, reader: Reader, pairs: Sequence[Encoded], place: Place, shift: int
) -> float:
    """Return the lexical consistency of each source with the target a number of pairs further down.

    It is that of the place's first position.
    """
    targets = [pairs[(n + shift) % len(pairs)].pair.target for n in range(len(pairs))]
    moved = [
        encode(recorder, Pair(item.pair.source, target, item.pair.id), "blank")
        for item, target in zip(pairs, targets, strict=True)
    ]
    readable = [item for item in moved if item.pieces]
    position, cell = next(iter(place.cells().items()))
    return float(consistency_of(reader, readable, {position: [cell]})[position].max())


def _unknown(recorder: Recorder, terms: Terms, encoded: Sequence[Pieces]) -> Iterator[str]:
    sources = [number for pieces in encoded for number in pieces.source[:-1]]  # without </s>
    targets = [number for pieces in encoded for number in pieces.target]
    for side, own, ids in ((terms.source, "source", sources), (terms.target, "target", targets)):
        count = ids.count(recorder.unk)
        share = count / max(1, len(ids))
        if (len(ids) >= MIN_PIECES and share > UNKNOWN_SHARE) or (count >= MIN_UNKNOWN and share > MOST_UNKNOWN):
            pairs = "pair" if len(encoded) == 1 else f"{len(encoded):,} pairs"
            yield (
                f"{share:.0%} of the {side} pieces in the first {pairs} are unknown to {terms.model}: "
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
        if detached := len(source) + len(target) - len(pair.source) - len(pair.target):
            pieces_apart = recorder.encode(Pair(source, target, pair.id))
            marks += detached
            as_given += len(pieces.source) + len(pieces.target)
            apart += len(pieces_apart.source) + len(pieces_apart.target)
    if marks >= MIN_MARKS and as_given - apart > SAVED_PER_MARK * marks:
        yield (
            f"with punctuation apart from words (`house ,`) the text takes {apart:,} pieces of {terms.model} in place "
            f"of {as_given:,}: was {terms.model} trained on tokenised text, and is its tokenizer named?"
        )


def _apart(recorder: Recorder, terms: Terms, encoded: Sequence[tuple[Pair, Pieces]]) -> Iterator[str]:
    """Yield a warning if all punctuation is apart from words, for a model that was trained on raw text."""
    words = [word for pair, _ in encoded for word in (*pair.source, *pair.target)]
    apart = sum(word in MARKS for word in words)
    attached = sum(word[-1] in MARKS and word[:-1].isalpha() for word in words)
    if getattr(recorder, "raw", False) and apart >= MIN_MARKS and attached < RARE * apart:
        yield (
            f"punctuation is apart from words (`house ,`), as in tokenised text, but {terms.model} reads text as it is "
            "written: is there a version of the text that is not tokenised?"
        )


def _marks_apart(words: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence with the mark that ends a word as a separate word: `house ,` for `house,`."""
    parts = ((word[:-1], word[-1]) if word[-1] in MARKS and word[:-1].isalpha() else (word,) for word in words)
    return tuple(part for pair in parts for part in pair)
