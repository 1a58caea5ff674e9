"""A word aligner for SIL's machine.py, which has to be installed.

from machine.translation import word_align_corpus
from align.compat.machine import ExtractAligner

aligned = word_align_corpus(corpus, aligner=ExtractAligner("de-en", "en-de"))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from machine.translation import WordAligner, WordAlignmentMatrix

from align.compat.models import for_single_pairs, load_both
from align.core.types import THRESHOLD
from align.models.defaults import ALIGNING_REVERSE


class ExtractAligner(WordAligner):
    """Aligns segments with two translation models.

    Args:
        forward: model that translates source to target, as for `align.load`.
        reverse: model that translates target to source; None for one direction.
        options: other arguments of `align.load`, for both models.
    """

    def __init__(self, forward: str | None = None, reverse: str | None = ALIGNING_REVERSE, **options: Any) -> None:
        self._aligner = for_single_pairs(load_both(forward, reverse, **options), THRESHOLD)

    def align(self, source_segment: Sequence[str], target_segment: Sequence[str]) -> WordAlignmentMatrix:
        """Return the links of a pair of tokenised segments."""
        return self.align_batch([(source_segment, target_segment)])[0]

    def align_batch(self, segments: Sequence[Sequence[Sequence[str]]]) -> Sequence[WordAlignmentMatrix]:
        """Return the links of each pair of tokenised segments, which depend on the pair alone."""
        alignments = self._aligner((source, target) for source, target in segments)
        return [
            WordAlignmentMatrix.from_word_pairs(len(source), len(target), alignment.links)
            for (source, target), alignment in zip(segments, alignments, strict=True)
        ]
