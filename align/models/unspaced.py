"""Text without spaces, aligned: links of a model's pieces, passed on to the words that they hold together."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from align.core.batching import OnBatch
from align.core.errors import ModelError
from align.core.pieces import IdPair
from align.core.stream import OnChoice
from align.core.types import Alignment, Pair
from align.models.divide import CUTS, Division, divide

if TYPE_CHECKING:
    from align.core.aligner import Aligner
    from align.core.backend import Recorder


class _Divided(NamedTuple):
    """A pair in its new words, the same as the model is given it, and both sides' units."""

    pair: Pair
    given: Pair
    sides: tuple[Division, Division]


def align_unspaced(
    aligner: Aligner,
    pairs: Iterable[Pair],
    words: str,
    on_choice: OnChoice | None = None,
    on_batch: OnBatch | None = None,
) -> Generator[Alignment, None, None]:
    """Align pairs whose words are characters, the model's pieces, or ICU's: one alignment for each, in order.

    The model reads the lines as they are, as it does with words between spaces. All words that a piece holds together
    share its links.

    Args:
        aligner: of one model.
        pairs: `LinePair`s, whose words are between spaces.
        words: "characters", "pieces" or "icu".
        on_choice: as aligners take it.
        on_batch: likewise.

    Raises:
        ModelError: two models, which have different pieces.
        ValueError: another kind of words.
        ModuleNotFoundError: what "icu" needs is not installed.
    """
    if words not in CUTS[1:]:
        raise ValueError(f"words are one of {', '.join(CUTS[1:])}; not {words!r}")
    if aligner.reverse:
        raise ModelError(f"words that are {words} need one model: two have different pieces")
    divided: deque[_Divided] = deque()

    def given() -> Iterator[Pair]:
        for pair in pairs:
            divided.append(_divide(aligner.forward.recorder, pair, words))
            yield divided[-1].given

    with closing(aligner(given(), on_choice, on_batch)) as found:
        for alignment in found:
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
    given = IdPair.of(
        pieces.source,
        pieces.target,
        [None if word < 0 else next(source_units) for word in pieces.source_words],
        [next(target_units) for _ in pieces.target],
        pair.id,
    )
    return _Divided(new, given, (source, target))
