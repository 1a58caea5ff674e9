"""Joins a translator and an aligner: sentences in, translations with their alignments out, lazily and in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from align.aligners.single import Aligner
from align.aligners.two_way import TwoWayAligner
from align.backends.base import Translator
from align.batching import chunks
from align.text.lines import number_pairs
from align.types import Alignment, Pair, PairError


class TranslatingAligner:
    """Translations out of a model, aligned with what they were made from by the same model.

    Args:
        aligner: aligns each sentence with its translation; its links are those of the same text read from a file.
        translator: of the aligner's own model; in two directions, of the forward one's.
    """

    def __init__(self, aligner: Aligner | TwoWayAligner, translator: Translator) -> None:
        self.aligner = aligner
        self.translator = translator
        self._forward = aligner.forward if isinstance(aligner, TwoWayAligner) else aligner

    def __call__(self, sentences: Iterable[Pair | str | Sequence[str]]) -> Iterator[Alignment]:
        """Translate and align: one alignment for each sentence, in order, a buffer at a time.

        Args:
            sentences: strings (words at spaces) or words; of pairs the source and the number.

        Raises:
            PairError: a sentence that is longer than the model takes, or has a translation that is, unless the
                aligner's `too_long` is "blank". Those before it come out first.
        """
        skipped: deque[bool] = deque()
        for alignment in self.aligner(self._pairs(sentences, skipped)):
            yield replace(alignment, skipped="too long") if skipped.popleft() else alignment

    def _pairs(self, sentences: Iterable[Pair | str | Sequence[str]], skipped: deque[bool]) -> Iterator[Pair]:
        """Sentences with their translations; notes for each whether it was too long to have one."""
        numbered = number_pairs(some if isinstance(some, Pair) else (some, "") for some in sentences)
        for chunk in chunks(map(self._encode, numbered), self._forward.buffer):
            translations = iter(self.translator([pieces for _, pieces, _ in chunk if pieces]))
            for pair, pieces, long in chunk:
                skipped.append(long)
                yield Pair(pair.source, next(translations) if pieces else (), pair.id)

    def _encode(self, pair: Pair) -> tuple[Pair, Sequence[int] | None, bool]:
        """A sentence's pieces, None if there is nothing to translate; and whether that is for its length.

        Raises:
            PairError: more pieces than the model takes.
        """
        recorder = self._forward.recorder
        pieces = recorder.encode(Pair(pair.source, (), pair.id)).source
        if len(pieces) < 2:
            return pair, None, False
        most = recorder.max_positions[0]
        if len(pieces) <= most:
            return pair, pieces, False
        if self._forward.too_long == "stop":
            raise PairError(
                pair.id,
                f"source has {len(pieces):,} pieces with </s>, {self._forward.terms.model} takes {most:,}: "
                "shorten it, or leave such lines without translation (--too-long blank)",
            )
        return pair, None, True
