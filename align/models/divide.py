"""Divide text without spaces into words (the user's, characters, the model's pieces, or ICU's words) and into units.

A model's pieces may be longer than a word, or begin and end within one. Units are the smallest parts of a line whose
borders cross neither a word nor a piece of a model: pieces are aligned by units, and all words of a unit share its
links.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from align.core.stream import OnBatch, OnChoice, exceeds
from align.core.text import IdPair, normalize, split_words, to_form
from align.core.types import CUTS, Alignment, Pair, Pieces, Span
from align.models.detokenize import BYTE
from align.models.ids import BEGINNINGS, CONTINUED, ENDING, TAG
from align.models.preprocess import UNSPACED

if TYPE_CHECKING:
    from align.core.aligner import Aligner
    from align.core.backend import Recorder


_is_unspaced = re.compile(f"[{UNSPACED}]").match

_BYTES = {256 + n: byte for n, byte in enumerate((*range(33), *range(127, 161), 173))}
"""Bytes by the characters from U+0100 that stand for them in byte-level BPE; other characters there are their bytes."""


@dataclass(frozen=True, slots=True)
class Division:
    """One side of a pair, divided into words and the pieces of each model."""

    words: tuple[str, ...]  # words of the line, in order
    units: list[Span]  # the first word of each unit, and the one after its last
    # for each model the unit of each of its pieces, in order; meaningless if there are no units
    pieces: list[list[int]]


def split(text: str, cut: str) -> list[Span]:
    """Return the spans of the parts of a text that are not white space.

    They are words by ICU's dictionaries, with punctuation as words, if `cut` is "icu", and otherwise characters as
    people count them: grapheme clusters (UAX 29).
    """
    if cut == "icu":
        try:
            from icu4py.breakers import WordBreaker
        except ModuleNotFoundError:
            message = "words by ICU need icu4py, for Python 3.11 or newer: pip install '.[icu]'"
            raise ModuleNotFoundError(message) from None
        segments = list(WordBreaker(text, "en"))  # its own offsets count UTF-16 units
    else:
        from wcwidth import iter_graphemes  # options know this module's names where nothing is installed

        segments = list(iter_graphemes(text))
    ends = accumulate(map(len, segments))
    return [(end - len(segment), end) for segment, end in zip(segments, ends, strict=True) if not segment.isspace()]


def split_words_at(words: Iterable[str], cut: str) -> tuple[str, ...]:
    """Cut words between spaces at other white space ("unicode"), into "characters", or as "icu" does, or not at all."""
    if cut in ("segmented", "unicode"):
        return split_words(" ".join(words), cut)
    return tuple(word[begin:end] for word in words for begin, end in split(word, cut))


def join(words: Sequence[str]) -> tuple[tuple[str, ...], list[list[Span]]]:
    """Join words as models of scripts without spaces read them: where one ends or the next begins with such a script.

    Words without visible characters, and a tag for the target language before the others, stay by themselves. Returned
    are the parts of the text that remain between spaces, and the spans of the words in each.
    """
    parts: list[str] = []
    spans: list[list[Span]] = []
    alone = [not _plain(word) for word in words]
    alone[:1] = [alone[0] or bool((tag := TAG.fullmatch(words[0])) and not tag[2])] if words else []
    for n, word in enumerate(words):
        apart = not n or alone[n] or alone[n - 1]
        if apart or not (_is_unspaced(words[n - 1][-1]) or _is_unspaced(word[0])):
            parts.append("")
            spans.append([])
        spans[-1].append((len(parts[-1]), len(parts[-1]) + len(word)))
        parts[-1] += word
    return tuple(parts), spans


def divide(
    parts: Sequence[str], spelt: Sequence[Sequence[Sequence[str]]], cut: str, given: Sequence[Sequence[Span]] = ()
) -> Division:
    """Cut one side into words, and its pieces into units.

    `parts` is the text between spaces, `spelt` has for each model the pieces of each part, `given` the words of each
    part for the cut "segmented".
    """
    words: list[str] = []
    units: list[Span] = []
    of_pieces: list[list[int]] = [[] for _ in spelt]
    for n, part in enumerate(parts):
        spans = given[n] if given else split(part, cut)
        characters = split(part, "characters") or spans
        if not characters:  # a part of spaces that are not ASCII's
            for numbers, pieces in zip(of_pieces, spelt, strict=True):
                numbers += [max(0, len(units) - 1)] * len(pieces[n])
            continue
        begins = {begin for begin, _ in spans}
        starts = {first for first, (begin, _) in enumerate(characters) if begin in begins}
        texts = [part[begin:end] for begin, end in characters]
        for pieces in spelt[1:]:
            starts = {first for first, _ in _runs(texts, pieces[n], starts)[0]}
        for numbers, pieces in zip(of_pieces, spelt, strict=True):
            runs, of_part = _runs(texts, pieces[n], starts)
            starts = {first for first, _ in runs}
            numbers += [len(units) + number for number in of_part]
        if cut == "pieces":
            spans = [(characters[first][0], characters[last - 1][1]) for first, last in runs]
        ends = [bisect_left(spans, (characters[last - 1][1], 0)) for _, last in runs[:-1]]
        for first, last in pairwise((0, *ends, len(spans))):
            units.append((len(words) + first, len(words) + last))
        words += [part[begin:end] for begin, end in spans]
    return Division(tuple(words), units, of_pieces)


def _runs(characters: Sequence[str], pieces: Sequence[str], starts: Set[int]) -> tuple[list[Span], list[int]]:
    """Return the runs of characters that begin at one of `starts` and where a piece does, and the run of each piece.

    A model's text may differ from the user's: characters and pieces are compared decomposed and in folded case. All
    between the first and the last difference is one run, since its borders are unknown.
    """
    text, piece_texts = "".join(user_texts := [*map(_plain, characters)]), _texts(pieces)
    if "".join(piece_texts) != text:  # pieces may be bytes
        piece_texts = max(piece_texts, _texts(pieces, of_bytes=True), key=lambda t: sum(_common(text, "".join(t))))
    joined = "".join(piece_texts)
    prefix, suffix = _common(text, joined)
    ends = {end: n for n, end in enumerate(accumulate(map(len, user_texts)), 1)}
    borders, last = {0: 0}, 0  # place in the pieces: the character that begins there
    for at in accumulate(map(len, piece_texts)):
        place = at if at <= prefix else len(text) - (len(joined) - at) if len(joined) - at <= suffix else None
        if place and place in ends and last < ends[place] < len(characters) and ends[place] in starts:
            borders[at] = last = ends[place]
    places = list(borders)
    begins = accumulate(map(len, piece_texts[:-1]), initial=0)
    runs = list(zip(borders.values(), [*list(borders.values())[1:], len(characters)], strict=True))
    return runs, [bisect_right(places, begin) - 1 for begin, _ in zip(begins, piece_texts, strict=False)]


def _texts(pieces: Sequence[str], of_bytes: bool = False) -> list[str]:
    """Return what pieces stand for, plain and without the mark of a word's beginning or end.

    `<0xE6>` is a byte, and with `of_bytes` so is each character. Where pieces share a character, the last one has it.
    """
    decoder, texts = codecs.getincrementaldecoder("utf-8")("replace"), []
    for piece in pieces:
        for mark in BEGINNINGS:
            piece = piece.removeprefix(mark)
        piece = piece.removesuffix(ENDING).removesuffix(CONTINUED)
        content = piece.translate(_BYTES).encode("latin-1", "replace") if of_bytes else piece.encode(errors="replace")
        content = bytes.fromhex(byte[1]) if (byte := BYTE.fullmatch(piece)) else content
        texts.append(_plain(decoder.decode(content)))
    return texts


def _common(a: str, b: str) -> tuple[int, int]:
    """Return the lengths of the common prefix of two texts, and of the common suffix of what remains."""
    shorter = min(len(a), len(b))
    prefix = next((n for n in range(shorter) if a[n] != b[n]), shorter)
    return prefix, next((n for n in range(shorter - prefix) if a[~n] != b[~n]), shorter - prefix)


def _plain(text: str) -> str:
    return "".join(to_form(normalize(text), "NFKD").casefold().split())


def align_unspaced(
    aligner: Aligner,
    pairs: Iterable[Pair],
    words: str,
    on_choice: OnChoice | None = None,
    on_batch: OnBatch | None = None,
) -> Generator[Alignment, None, None]:
    """Align pairs in other words than those that models read between spaces: yield one alignment for each, in order.

    The models read the lines, `LinePair`s, unchanged; where the words are "segmented", without the spaces next to
    Chinese, Japanese, Thai and the like; where they are "unicode", with an ASCII space for each other white space. All
    words in the same piece share its links.
    """
    if words not in CUTS[1:]:
        raise ValueError(f"words must be one of {', '.join(CUTS[1:])}; got {words!r}")
    if words == "unicode":
        yield from aligner((_between_spaces(pair) for pair in pairs), on_choice, on_batch)
        return
    recorders = [direction.recorder for direction in aligner.directions]
    readers = list(zip(recorders, aligner.steps, strict=True))
    with closing(aligner((_divide(readers, pair, words) for pair in pairs), on_choice, on_batch)) as aligned:
        yield from map(_in_words, aligner.checked(aligned, lambda pair: pair.origin.item[2]))


def _between_spaces(pair: Pair) -> Pair:
    source, target = (split_words_at(side, "unicode") for side in (pair.source, pair.target))
    return replace(pair, source=source, target=target)


def _in_words(alignment: Alignment) -> Alignment:
    """Return an alignment of units as one of words: all words of a unit share its links."""
    pair, (source, target), _ = alignment.pair.origin.item
    scores = {
        (i, j): score
        for (u, v), score in alignment.scores.items()
        for i in range(*source.units[u])
        for j in range(*target.units[v])
    }
    return Alignment(pair, scores, alignment.skipped, alignment.agreement)


def in_units(recorder: Recorder, pairs: Sequence[Pair]) -> Sequence[Pair]:
    """Return a text as the model's pieces, by which heads can be chosen, if it has no spaces between words."""
    unspaced = [sum(map(bool, map(_is_unspaced, word))) for pair in pairs for word in (*pair.source, *pair.target)]
    lengths = [length for length in unspaced if length]
    if not lengths or sum(lengths) / len(lengths) < 5:  # words have 2 or 3 characters, sentences 10 to 50
        return pairs
    return [_divide([(recorder, 1)], pair, "pieces") for pair in pairs]


def _divide(readers: Sequence[tuple[Recorder, int]], pair: Pair, words: str) -> Pair:
    """Return a pair as the models' input, which carries the pair in its new words, their units, and the pair as read.

    Each model reads the sides in order with a step of 1, swapped with -1.
    """
    given: tuple[list[list[Span]], list[list[Span]]] = [], []
    parts = pair.source, pair.target
    if any(exceeds(parts[::step][n], model.max_positions[n]) for model, step in readers for n in (0, 1)):
        return replace(pair, origin=replace(pair.origin, item=(pair, (None, None), pair)))  # too long for the model
    if words == "segmented":
        (source_parts, source_spans), (target_parts, target_spans) = map(join, parts)
        parts, given = (source_parts, target_parts), (source_spans, target_spans)
    read = [(recorder, step, Pair(parts[::step][0], parts[::step][1], pair.id)) for recorder, step in readers]
    pieces = [recorder.encode(one) for recorder, _, one in read]
    spelt = [recorder.spell(one)[::step] for recorder, step, one in read]
    source, target = (divide(parts[n], [sides[n] for sides in spelt], words, given[n]) for n in (0, 1))
    new, divided = replace(pair, source=source.words, target=target.words), (source, target)
    origin = replace(pair.origin, item=(new, divided, pair))
    if new.blank:
        return Pair((), (), pair.id, origin=origin)
    first, *others = (
        _as_ids(recorder, found, divided[::step], n, pair.id)
        for n, ((recorder, step), found) in enumerate(zip(readers, pieces, strict=True))
    )
    return replace(first, others=tuple(others), origin=origin)


def _as_ids(recorder: Recorder, pieces: Pieces, sides: Sequence[Division], model: int, id: int) -> IdPair:
    """Return a pair as the ids of one model, whose words are the units of its source and target."""
    source_units, target_units = (iter(side.pieces[model]) for side in sides)
    end = len(pieces.source) - (len(pieces.target) if recorder.prompted else 0)
    pair = IdPair.of(
        pieces.source[:end],
        pieces.target,
        [None if word < 0 else next(source_units) for word in pieces.source_words[:end]],
        [next(target_units) for _ in pieces.target],
        id,
    )
    return replace(pair, source=_filled(pair.source, sides[0]), target=_filled(pair.target, sides[1]))


def _filled(words: tuple[str, ...], side: Division) -> tuple[str, ...]:
    """Return the words of ids, as many as there are units: the last may have no piece of this model."""
    return words and words + ("-",) * (len(side.units) - len(words))
