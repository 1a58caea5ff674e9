"""A translator and an aligner: sentences in, translations with their alignments out, lazily and in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from align.backends.base import Translator
from align.errors import PairError, Remedy
from align.text.batching import BLANK, OnBatch, chunks
from align.text.lines import number_sentences
from align.types import Alignment, Pair, Search

if TYPE_CHECKING:
    from align.aligners.single import Aligner, OnChoice
    from align.aligners.two_way import TwoWayAligner

Sentence = Pair | str | Sequence[str]
"""A string, whose words are between spaces, or words; of a pair the source and the number."""

TOGETHER = 100
"""Sentences of like length that are translated at a time: from within a translator nothing is heard."""


def translate(
    aligner: Aligner | TwoWayAligner,
    sentences: Iterable[Sentence],
    search: Search | None = None,
    on_choice: OnChoice | None = None,
    on_batch: OnBatch | None = None,
) -> Iterator[Alignment]:
    """Translate with the (forward) model of an aligner, and align; see `Aligner.translate`."""
    forward = aligner.directions[0]
    translator = forward.recorder.translator(search or Search(), forward.batch_tokens)
    return _Translating(aligner, translator).align(number_sentences(sentences), on_choice, on_batch)


@dataclass(frozen=True, eq=False)
class _Translating:
    """Translations out of a model, aligned with what they were made from.

    Attributes:
        aligner: aligns each sentence with its translation; its links are those of the same text read from a file.
        translator: of the aligner's own model; in two directions, of the forward one's.
    """

    aligner: Aligner | TwoWayAligner
    translator: Translator

    def align(
        self, sentences: Iterable[Pair], on_choice: OnChoice | None, on_batch: OnBatch | None
    ) -> Iterator[Alignment]:
        """Translate and align: one alignment for each sentence, in order, a buffer at a time."""
        for alignment in self.aligner(self._translated(sentences, on_batch), on_choice, on_batch):
            pair = alignment.pair
            if pair.source and not pair.target and self._too_long(self._pieces(pair)):
                yield replace(alignment, skipped="too long")
            else:
                yield alignment

    @property
    def _forward(self) -> Aligner:
        return self.aligner.directions[0]

    def _translated(self, sentences: Iterable[Pair], on_batch: OnBatch | None) -> Iterator[Pair]:
        """Sentences with their translations, blank for those that are blank or too long."""
        for chunk in chunks(((pair, self._encode(pair)) for pair in sentences), self._forward.buffer):
            encoded = {n: pieces for n, (_, pieces) in enumerate(chunk) if pieces}
            translations: dict[int, tuple[str, ...]] = {}
            for some in chunks(sorted(encoded, key=lambda n: len(encoded[n])), TOGETHER):
                translations |= zip(some, self.translator([encoded[n] for n in some]), strict=True)
                if on_batch:
                    on_batch(len(some))
            for n, (pair, _) in enumerate(chunk):
                yield Pair(pair.source, translations.get(n, ()), pair.id)

    def _pieces(self, pair: Pair) -> Sequence[int]:
        """A sentence's pieces, `</s>` at the end."""
        return self._forward.recorder.encode(Pair(pair.source, (), pair.id)).source

    def _too_long(self, pieces: Sequence[int]) -> bool:
        return len(pieces) > self._forward.recorder.max_positions[0]

    def _encode(self, pair: Pair) -> Sequence[int] | None:
        """A sentence's pieces, None if there is nothing to translate, or too much.

        Raises:
            PairError: more pieces than the model takes.
        """
        pieces = self._pieces(pair)
        if len(pieces) < 2:
            return None
        if not self._too_long(pieces):
            return pieces
        if self._forward.too_long == "stop":
            most = self._forward.recorder.max_positions[0]
            forward = f"the forward model ({self._forward.recorder.name})"
            name = "the model" if len(self.aligner.directions) == 1 else forward
            raise PairError(
                f"source has {len(pieces):,} pieces with </s>, {name} takes {most:,}",
                line=pair.id,
                remedy=Remedy("shorten it, or leave such lines without translation ({})", (BLANK,)),
            )
        return None
