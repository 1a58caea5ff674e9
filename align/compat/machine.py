"""A word aligner for SIL's machine.py, which has to be installed.

from machine.translation import word_align_corpus
from align.compat.machine import ExtractAligner

aligned = word_align_corpus(corpus, aligner=ExtractAligner("de-en", "en-de"))
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from machine.corpora import AlignedWordPair
from machine.translation import WordAligner, WordAlignmentMatrix

from align.compat.models import as_words, for_single_pairs, load_both
from align.core.types import THRESHOLD, LinkScores
from align.models.defaults import ALIGNING_REVERSE


class ExtractAligner(WordAligner, AbstractContextManager["ExtractAligner"]):
    """Aligns segments with two translation models.

    Args:
        forward: model that translates source to target, as for `align.load`.
        reverse: model that translates target to source; None for one direction.
        options: other arguments of `align.load`, for both models.
    """

    def __init__(self, forward: str | None = None, reverse: str | None = ALIGNING_REVERSE, **options: Any) -> None:
        self._aligner = for_single_pairs(load_both(forward, reverse, **options), 0.0)
        self._scores: dict[tuple[tuple[str, ...], ...], LinkScores] = {}

    def __exit__(self, *error: object) -> None:
        """Do nothing: the models stay loaded."""

    def align(self, source_segment: Sequence[str], target_segment: Sequence[str]) -> WordAlignmentMatrix:
        """Return the links of a pair of tokenised segments."""
        return self.align_batch([(source_segment, target_segment)])[0]

    def align_batch(self, segments: Sequence[Sequence[Sequence[str]]]) -> Sequence[WordAlignmentMatrix]:
        """Return the links of each pair of tokenised segments, which depend on the pair alone."""
        pairs = [(as_words(source), as_words(target)) for source, target in segments]
        scores = [alignment.scores for alignment in self._aligner(pairs)]
        self._scores = dict(zip(pairs, scores, strict=True))
        return [
            WordAlignmentMatrix.from_word_pairs(*map(len, pair), [link for link in soft if soft[link] > THRESHOLD])
            for pair, soft in zip(pairs, scores, strict=True)
        ]

    def compute_aligned_word_pair_scores(
        self, source_segment: Sequence[str], target_segment: Sequence[str], word_pairs: Collection[AlignedWordPair]
    ) -> None:
        """Give links their scores from 0 to 1, and a word without a link what its best score lacks of 1."""
        pair = as_words(source_segment), as_words(target_segment)
        if pair not in self._scores:  # of the last batch
            self.align_batch([pair])
        scores = self._scores[pair]
        for link in word_pairs:
            i, j = link
            unlinked = 1 - max((scores[each] for each in scores if each[0] == i or each[1] == j), default=0.0)
            link.translation_score = unlinked if min(i, j) < 0 else scores.get((i, j), 0.0)


class EflomalAligner:
    """Aligns sentences, called as the jobs of machine.py call eflomal; `arguments` are those of `ExtractAligner`."""

    def __init__(self, model_dir: Path, *arguments: Any, **options: Any) -> None:
        self._aligner = ExtractAligner(*arguments, **options)

    def train(self, src_toks: Sequence[Sequence[str]], trg_toks: Sequence[Sequence[str]]) -> None:
        """Align tokenised sentences, as many on each side. Nothing is trained."""
        pairs = [*zip(src_toks, trg_toks, strict=True)]
        batches = (pairs[n : n + 1000] for n in range(0, len(pairs), 1000))  # scores are kept of one batch alone
        self._links = [str(matrix) for batch in batches for matrix in self._aligner.align_batch(batch)]

    def align(self, sym_heuristic: str = "grow-diag-final-and") -> list[str]:
        """Return the links of each sentence, which both models give together; the heuristic has no effect."""
        return self._links
