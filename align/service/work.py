"""Align pairs of requests with a fixed layer and head, so that links depend only on the pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from align.core.aligner import Aligner
from align.core.errors import PairError
from align.core.stream import aligning
from align.core.symmetrize import SOFT
from align.core.types import Alignment, Pair
from align.service.rounds import Align
from align.transfer.windows import FLOOR


@dataclass(frozen=True)
class Work:
    """Functions of the service, and its description.

    Attributes:
        align: aligns pairs.
        align_for_tags: aligns pairs for placing tags, with links of low scores too.
        models: names of the models.
        signature: what links depend on.
    """

    align: Align
    align_for_tags: Align
    models: Sequence[str]
    signature: str


def work_of(aligner: Aligner, signature: str) -> Work:
    """Return the work of an aligner.

    Args:
        aligner: an aligner whose `fixed` has been called, and that leaves too long pairs blank.
    """
    models = [direction.recorder.name for direction in aligner.directions]
    return Work(_align(aligner), _align(for_tags(aligner)), models, signature)


def for_tags(aligner: Aligner) -> Aligner:
    """Return an aligner of the same models, read at the same places, for the placement of tags."""
    threshold = None if aligner.reverse else FLOOR  # for one direction; `aligner.threshold` is for both
    forward, *reverse = (
        replace(direction, settings=replace(direction.settings, threshold=threshold))
        for direction in aligner.directions
    )
    return replace(aligner, forward=forward, reverse=reverse[0] if reverse else None, method=SOFT, threshold=FLOOR)


def _align(aligner: Aligner) -> Align:
    """Return a function that aligns pairs without the checks of a whole text, which a batch is not."""
    task, choices = aligning(aligner.steps), aligner.choices

    def align(pairs: Sequence[Pair]) -> list[Alignment]:
        alignments = []
        for pair, outcome in zip(pairs, task(pairs, choices, None), strict=True):
            if isinstance(outcome, PairError):
                raise outcome
            alignments.append(Alignment(pair, *outcome))
        return alignments

    return align
