"""Translate sentences and align them with their translations, lazily and in order."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from align.core.backend import Translator
from align.core.errors import PairError, shorten
from align.core.scores import NULL
from align.core.stream import (
    BLANK,
    LONGEST_PIECE,
    InOrder,
    OnBatch,
    OnChoice,
    Pool,
    Task,
    align_stream,
    aligning,
    attempt,
    chunks,
    encode,
    error_last,
    exceeds,
)
from align.core.text import IdPair, words_of
from align.core.types import Alignment, Choice, Pair, Pieces, Place, Search
from align.models.detokenize import UNKNOWN
from align.models.unknown import replace_unknown, unknown_part

if TYPE_CHECKING:
    from align.core.aligner import Aligner, Direction

Sentence = Pair | str | Sequence[str]
"""A string whose words are between spaces, a list of words, or a pair, of which the source and the number are used."""

SEARCH_WORDS = 2000
"""Words in a slice of sentences to translate, which takes far longer than to align."""

TOGETHER = 100
"""Sentences of similar length per call of a translator, which does not report progress during a call."""


def translate(
    aligner: Aligner,
    sentences: Iterable[Sentence],
    search: Search | None = None,
    on_choice: OnChoice | None = None,
    on_batch: OnBatch | None = None,
) -> Generator[Alignment, None, None]:
    """Translate with the forward model, and align: yield an alignment with its translation for each sentence, in order.

        for alignment in translate(load("de-en"), ["Das Haus ist alt."], Search(beam=1)):
            print(" ".join(alignment.pair.target), "|||", alignment)

    The translations are text, Moses' tokens joined, in the model's case. A blank sentence stays blank.

    Args:
        aligner: of one model or two.
        sentences: any number of sentences.
        search: how to search; by default with a beam of 5 and fairseq's other defaults, for any model.
        on_choice: callback for the layers and heads that are read.
        on_batch: callback for the number of sentences translated, some at a time, and the number of pairs aligned.

    Raises:
        TypeError, ValueError: an item is not a sentence.
        PairError: a sentence, or its translation, is longer than the model's limit, unless the aligner's `too_long` is
            "blank". Earlier alignments are yielded first.
    """
    return _translating(aligner, search or Search()).align(number_sentences(sentences), on_choice, on_batch)


def number_sentences(sentences: Iterable[Pair | str | Sequence[str]]) -> Iterator[Pair]:
    """Yield sentences as pairs without a target, for translation; pairs keep their source and number.

    Raises:
        TypeError: a single sentence in place of several, or one that is neither a string nor a sequence of words.
        ValueError: a word contains a space or is empty.
    """
    if isinstance(sentences, str | bytes):
        raise TypeError(f"{shorten(repr(sentences))} is one sentence: give a list of sentences")
    for number, sentence in enumerate(sentences, 1):
        if isinstance(sentence, IdPair):
            raise TypeError(f"sentence {number} is given in ids: only text can be translated")
        if isinstance(sentence, Pair):
            yield sentence.with_target(())
        else:
            yield Pair(words_of(sentence, f"sentence {number}"), (), number)


def _translating(aligner: Aligner, search: Search) -> _Translating:
    return _Translating(aligner, aligner.forward.recorder.translator(search, aligner.batch_tokens))


@dataclass(frozen=True, eq=False)
class _Translating:
    """Translates with a model, and aligns the translations with their sources."""

    aligner: Aligner
    translator: Translator

    def __reduce__(self) -> tuple[Any, ...]:
        return _translating, (self.aligner, self.translator.search)

    def align(
        self, sentences: Iterable[Pair], on_choice: OnChoice | None, on_batch: OnBatch | None
    ) -> Generator[Alignment, None, None]:
        """Yield one alignment for each sentence, in order, translated and aligned a buffer at a time."""
        steps = self.aligner.steps
        places: list[Place] = []

        def note_choice(choices: tuple[Choice, ...]) -> None:
            places.append(choices[0].place)
            if on_choice:
                on_choice(choices)

        tasks: dict[str, Task] = {"align": aligning(steps), "translate": self._translate}
        with steps.pool(tasks, on_batch) as pool:
            for alignment in align_stream(steps, self._translated(sentences, pool), note_choice, on_batch, pool):
                alignment = replace_unknown(alignment, lambda pair: self._scores(pair, places), self._unknown_part)
                pair = alignment.pair
                if pair.source and not pair.target and self._is_too_long(pair):
                    yield replace(alignment, skipped="too long")
                else:
                    yield alignment

    def _scores(self, pair: Pair, places: Sequence[Place]) -> Sequence[Sequence[float]] | None:
        """Return the forward model's word scores of a pair `[J][I+1]`; None if there is nothing to score."""
        pieces = encode(self._forward.recorder, pair, "blank").pieces
        if pieces is None or not places:
            return None
        rows: list[list[float]] = self._forward.reader.scores([pieces], places[0])[0].tolist()
        return rows

    def _unknown_part(self, word: str) -> str:
        recorder = self._forward.recorder
        return unknown_part(word, lambda token: recorder.unk not in recorder.encode(Pair((token,), (), 1)).source)

    @property
    def _forward(self) -> Direction:
        return self.aligner.forward

    def _translated(self, sentences: Iterable[Pair], pool: Pool) -> Iterator[Pair]:
        """Yield sentences with their translations, which are blank if the sentence is blank or too long."""
        queue = InOrder(pool, "translate", SEARCH_WORDS)
        for chunk in error_last(chunks(sentences, self.aligner.buffer, lambda pair: pair.memory())):
            if isinstance(chunk, Exception):
                queue.put_error(chunk)
                break
            queue.put(chunk, chunk)
            for pair, translation in queue.ready():
                yield pair.with_target(self._shown(translation))
        for pair, translation in queue.rest():
            yield pair.with_target(self._shown(translation))

    def _shown(self, translation: tuple[str, ...]) -> tuple[str, ...]:
        """Return a translation with `<unk>` for unknown pieces, if the search allows it."""
        if not self.translator.search.allow_unk:
            return translation
        return tuple(word.replace(UNKNOWN, "<unk>") for word in translation)

    def _translate(self, sentences: Sequence[Pair], on_batch: OnBatch | None) -> list[tuple[str, ...] | PairError]:
        """Translate a slice of sentences, as a task of the pool."""
        results = [attempt(self._encode, pair) for pair in sentences]
        encoded = {n: pieces for n, pieces in enumerate(results) if pieces and not isinstance(pieces, PairError)}
        translations: dict[int, tuple[str, ...]] = {}
        for batch in chunks(sorted(encoded, key=lambda n: len(encoded[n])), TOGETHER):
            translations |= zip(batch, self.translator([encoded[n] for n in batch]), strict=True)
            if on_batch:
                on_batch(len(batch))
        return [
            result if isinstance(result, PairError) else translations.get(n, ()) for n, result in enumerate(results)
        ]

    def _pieces(self, pair: Pair) -> Pieces:
        return self._forward.recorder.encode(Pair(pair.source, (), pair.id))

    def _is_too_long(self, pair: Pair) -> bool:
        longest = self.translator.longest
        return exceeds(pair.source, longest) or len(self._pieces(pair).source) > longest

    def _encode(self, pair: Pair) -> Sequence[int] | None:
        """Return a sentence's pieces; None if it is blank or too long."""
        longest = self.translator.longest
        if exceeds(pair.source, longest):
            self._refuse(pair, f"{sum(map(len, pair.source)):,} characters", LONGEST_PIECE * longest)
            return None
        encoded = self._pieces(pair)
        if max(encoded.source_words) == NULL:
            return None
        pieces = encoded.source
        if len(pieces) <= longest:
            return pieces
        self._refuse(pair, f"{len(pieces):,} pieces with </s>", longest)
        return None

    def _refuse(self, pair: Pair, length: str, limit: int) -> None:
        """Raise an error for a sentence that is too long, unless the policy leaves such sentences blank."""
        if self.aligner.too_long == "blank":
            return
        forward = f"the forward model ({self._forward.recorder.name})"
        name = "the model" if self.aligner.reverse is None else forward
        raise PairError(
            f"source has {length}, {name} takes {limit:,}",
            line=pair.id,
            hint=f"shorten it, or leave such lines without translation ({BLANK})",
        )
