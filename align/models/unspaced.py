"""Align text without spaces: link a model's pieces, and pass the links on to the words in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from align.core.errors import ModelError
from align.core.stream import OnBatch, OnChoice
from align.core.text import IdPair
from align.core.types import Alignment, Pair
from align.models.divide import CUTS, Division, divide

if TYPE_CHECKING:
    from align.core.aligner import Aligner
    from align.core.backend import Recorder


class _Divided(NamedTuple):
    """A pair in its new words, the same pair as the model's input, and the units of both sides."""

    pair: Pair
    model_pair: Pair
    sides: tuple[Division, Division]


def align_unspaced(
    aligner: Aligner,
    pairs: Iterable[Pair],
    words: str,
    on_choice: OnChoice | None = None,
    on_batch: OnBatch | None = None,
) -> Generator[Alignment, None, None]:
    """Align pairs whose words are characters, the model's pieces, or ICU's: yield one alignment for each, in order.

    The model reads the lines unchanged, as it does with words between spaces. All words in the same piece share its
    links.

    Args:
        aligner: of one model.
        pairs: `LinePair`s, whose words are between spaces.
        words: "characters", "pieces" or "icu".

    Raises:
        ModelError: two models, which have different pieces.
        ValueError: another kind of words.
        ModuleNotFoundError: a library for "icu" is not installed.
    """
    if words not in CUTS[1:]:
        raise ValueError(f"words are one of {', '.join(CUTS[1:])}; not {words!r}")
    if aligner.reverse:
        raise ModelError(f"words that are {words} need one model: two have different pieces")
    divided: deque[_Divided] = deque()

    def model_pairs() -> Iterator[Pair]:
        for pair in pairs:
            divided.append(_divide(aligner.forward.recorder, pair, words))
            yield divided[-1].model_pair

    with closing(aligner(model_pairs(), on_choice, on_batch)) as alignments:
        for alignment in alignments:
            pair, _, (source, target) = divided.popleft()
            scores = {
                (i, j): score
                for (u, v), score in alignment.scores.items()
                for i in range(*source.units[u])
                for j in range(*target.units[v])
            }
            yield Alignment(pair, scores, alignment.skipped)


def _divide(recorder: Recorder, pair: Pair, words: str) -> _Divided:
    pieces, spelt = recorder.encode(pair), recorder.spell(pair)
    source, target = divide(pair.source, spelt[0], words), divide(pair.target, spelt[1], words)
    new = replace(pair, source=source.words, target=target.words)
    if new.blank:
        return _Divided(new, Pair((), (), pair.id), (source, target))
    source_units, target_units = iter(source.pieces), iter(target.pieces)
    model_pair = IdPair.of(
        pieces.source,
        pieces.target,
        [None if word < 0 else next(source_units) for word in pieces.source_words],
        [next(target_units) for _ in pieces.target],
        pair.id,
    )
    return _Divided(new, model_pair, (source, target))
