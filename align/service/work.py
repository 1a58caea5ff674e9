"""What the service does to pairs, with an aligner whose place is fixed: links then depend on nothing but the pair."""

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
    """What the service does, and what it says of itself.

    Attributes:
        align: pairs, for their links.
        align_for_tags: the same with all that tags are placed by, links of low scores too.
        models: their names.
        signature: what links depend on.
    """

    align: Align
    align_for_tags: Align
    models: Sequence[str]
    signature: str


def work_of(aligner: Aligner, signature: str) -> Work:
    """The work of an aligner.

    Args:
        aligner: whose `fixed` has been called, and that leaves pairs blank that are too long.
        signature: of it.
    """
    models = [one.recorder.name for one in aligner.directions]
    return Work(_align(aligner), _align(for_tags(aligner)), models, signature)


def for_tags(aligner: Aligner) -> Aligner:
    """The same models, read at the same places, with the links that `transfer-align` places tags by."""
    threshold = None if aligner.reverse else FLOOR  # of one direction; `aligner.threshold` is that of both
    forward, *reverse = (
        replace(direction, settings=replace(direction.settings, threshold=threshold))
        for direction in aligner.directions
    )
    return replace(aligner, forward=forward, reverse=reverse[0] if reverse else None, method=SOFT, threshold=FLOOR)


def _align(aligner: Aligner) -> Align:
    """What aligns pairs, and says nothing of texts: a round is none."""
    task, choices = aligning(aligner.steps), aligner.choices

    def align(pairs: Sequence[Pair]) -> list[Alignment]:
        alignments = []
        for pair, found in zip(pairs, task(pairs, choices, None), strict=True):
            if isinstance(found, PairError):
                raise found
            alignments.append(Alignment(pair, *found))
        return alignments

    return align
