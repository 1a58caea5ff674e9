"""One model: pairs in, alignments out, lazily and in order."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import get_args

from align.core.backend import Recorder
from align.core.batching import BATCH_TOKENS, BUFFER, Encoded, OnBatch, Terms, TooLong, cut, encode, tell
from align.core.checks import doubts_about_choice, doubts_about_text
from align.core.choice import Calibration, candidates, choose
from align.core.errors import ModelError
from align.core.extraction import LinkScores, Reader
from align.core.pieces import IdPair
from align.core.settings import Search, Settings
from align.core.stream import Chosen, Found, OnChoice, Steps, align_stream
from align.core.text import number_pairs
from align.core.types import Alignment, Choice, Pair, Place
from align.models.translate import Sentence, translate

PairLike = Pair | tuple[str | Sequence[str], str | Sequence[str]]
"""A pair, or its source and target: strings, whose words are between spaces, or words."""


def align_encoded(
    reader: Reader,
    encoded: Sequence[Encoded],
    place: Place | None,
    batch_tokens: int = BATCH_TOKENS,
    on_batch: OnBatch | None = None,
) -> Iterator[Alignment]:
    """Align a buffer of encoded pairs: one alignment for each, in order.

    Args:
        reader: of the model.
        encoded: the buffer.
        place: where to read; None only where no pair has pieces.
        batch_tokens: pieces in a batch, pads included.
        on_batch: is told of each batch.
    """
    links = _links(reader, encoded, place, batch_tokens, on_batch) if place else {}
    for n, one in enumerate(encoded):
        yield Alignment(one.pair, links.get(n, {}), one.skipped)


def _links(
    reader: Reader, encoded: Sequence[Encoded], place: Place, batch_tokens: int, on_batch: OnBatch | None
) -> dict[int, LinkScores]:
    """Links of those pairs that have pieces, by number."""
    links: dict[int, LinkScores] = {}
    for numbers, batch in tell(cut(encoded, batch_tokens), on_batch):
        links |= zip(numbers, reader.links(batch, place), strict=True)
    return links


@dataclass(frozen=True, eq=False)
class Aligner:
    """Word alignments out of a translation model's attention.

    Where `settings` leave layer or head on "auto", each call chooses for its own text, by lexical consistency: up to
    1,000 pairs of the first buffer decide. With under 50 there the model's stored calibration does, and without one the
    layer at a third of the depth. `fixed` makes an aligner that chooses no more.

    Threads may share an aligner, and forked processes, a copy each. Pickled, it is the path of its model and its
    settings: another process loads the same model again, once.

    Attributes:
        recorder: the model.
        settings: what to read off its attention.
        calibration: the model's stored choices.
        choice: where to read, instead of choosing.
        buffer: pairs to read ahead, to sort them by length; one buffer is held in memory, or with workers a few.
        batch_tokens: pieces in a batch, pads included.
        too_long: what to do with pairs that the model has no positions for: "stop" raises, "blank" leaves
            them without links.
        workers: processes that share the text, with one CPU thread each; 1 is this one, which also does alone what
            is short, or read in buffers of under 500. They begin and end with each call, and change no link.

    Raises:
        ModelError: a layer or head that the model does not have, or a choice that the settings do not allow.
        ValueError: a size below 1; another word for `too_long`; workers for a model on a GPU.
    """

    recorder: Recorder
    settings: Settings = field(default_factory=Settings)
    _: KW_ONLY
    calibration: Calibration = field(default_factory=dict)
    choice: Choice | None = None
    buffer: int = BUFFER
    batch_tokens: int = BATCH_TOKENS
    too_long: TooLong = "stop"
    workers: int = 1

    def __post_init__(self) -> None:
        if self.too_long not in get_args(TooLong):
            raise ValueError(f"too_long is one of {', '.join(get_args(TooLong))}; not {self.too_long!r}")
        for name in ("buffer", "batch_tokens", "workers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is a number from 1; not {getattr(self, name)}")
        if self.workers > 1 and self.recorder.device != "cpu":
            raise ValueError(f"{self.workers} workers are for a model on the CPU; {self.recorder.device} takes one")
        allowed = candidates(self.recorder, self.settings)
        if self.choice:
            cells = self.choice.place.cells()
            if set(cells) != set(allowed) or any(cell not in allowed[position] for position, cell in cells.items()):
                raise ModelError(f"{self.choice.place}: no such place in {self.recorder.name}, or not as asked")

    @property
    def directions(self) -> tuple[Aligner, ...]:
        """The aligners of single models that this one is made of: itself."""
        return (self,)

    @cached_property
    def reader(self) -> Reader:
        """What reads links off the model, as the settings say."""
        return Reader(self.recorder, self.settings.score, self.settings.null, self.settings.threshold)

    def align(self, source: str | Sequence[str], target: str | Sequence[str]) -> Alignment:
        """Align one pair of sentences, given as strings (words at spaces) or as words."""
        return next(self([(source, target)]))

    def align_ids(
        self,
        source: Iterable[int],
        target: Iterable[int],
        source_words: Iterable[int | None] | None = None,
        target_words: Iterable[int | None] | None = None,
    ) -> Alignment:
        """Align pieces that were read and generated elsewhere, with the same model.

            inputs = tokenizer("Das Haus ist alt.", return_tensors="pt")
            output = model.generate(**inputs)
            aligner.align_ids(inputs.input_ids[0], output[0])

        For many of them, aligners take `IdPair`s as they take other pairs.

        Args:
            source: ids as the encoder reads them, special pieces and padding included.
            target: ids as `generate` has put them out.
            source_words: the word of each, from 0, and None for special pieces; without it links count the ids
                themselves, and special pieces have no link. See `words_of_pieces` and `words_of_offsets`.
            target_words: likewise.

        Raises:
            TypeError, ValueError: what is no list of ids, or not a word for each of them.
            PairError: ids that are not this model's, or more than it takes.
        """
        return next(self([IdPair.of(source, target, source_words, target_words)]))

    def __call__(
        self, pairs: Iterable[PairLike], on_choice: OnChoice | None = None, on_batch: OnBatch | None = None
    ) -> Generator[Alignment, None, None]:
        """Align pairs: one alignment for each, in order, a buffer at a time.

        Args:
            pairs: of any number.
            on_choice: is told where they are read, before the first of the buffer that decided comes out.
            on_batch: is told of each batch how many pairs are done, before those of its buffer come out.

        Raises:
            TypeError, ValueError: an item that is not a source and a target.
            PairError: a pair that is longer than the model takes, unless `too_long` is "blank". The pairs
                before it come out first, as they do before any exception of `pairs` itself.
            ChildProcessError: a worker was killed.

        Warns:
            TextWarning: the text does not look like what the model was trained on.
        """
        return align_stream(self.steps, number_pairs(pairs), on_choice, on_batch)

    @property
    def steps(self) -> Steps:
        """What becomes of a buffer of pairs."""
        return Steps(self._encode, self._choose, self._align, self.buffer, self.workers)

    def translate(
        self,
        sentences: Iterable[Sentence],
        search: Search | None = None,
        on_choice: OnChoice | None = None,
        on_batch: OnBatch | None = None,
    ) -> Generator[Alignment, None, None]:
        """Translate and align: one alignment with its translation for each sentence, in order, a buffer at a time.

            for alignment in aligner.translate(["Das Haus ist alt."], Search(beam=1)):
                print(" ".join(alignment.pair.target), "|||", alignment)

        The translations are text, Moses' tokens joined, in the model's case. A blank sentence stays blank.

        Args:
            sentences: of any number.
            search: how to search; fairseq's defaults with a beam of 5, whatever the model.
            on_choice: is told where the alignments are read.
            on_batch: is told how many sentences have been translated, some at a time, and how many aligned.

        Raises:
            TypeError, ValueError: an item that is not a sentence.
            PairError: a sentence that is longer than the model takes, or has a translation that is, unless `too_long`
                is "blank". Those before it come out first.
        """
        return translate(self, sentences, search, on_choice, on_batch)

    def fixed(self, sample: Iterable[PairLike] = ()) -> Aligner:
        """The same aligner, but reading every text where it would read this one: links then depend on their pair only.

            service = load().fixed()                      # where the model's own calibration says
            service = load().fixed(read_text("de", "en")) # where a text like those to come says

        Args:
            sample: pairs of which the first buffer decides; under 50 of them leave it to the stored calibration.

        Raises:
            TypeError, ValueError: as aligning the sample does.
        """
        encoded = [encode(self.recorder, pair, self.too_long) for pair in islice(number_pairs(sample), self.buffer)]
        return replace(self, choice=choose_for(self, encoded))

    def _encode(self, pair: Pair) -> Encoded:
        return encode(self.recorder, pair, self.too_long)

    def _choose(self, encoded: Sequence[Encoded]) -> Chosen | None:
        if not any(one.pieces for one in encoded):
            return None
        choice = choose_for(self, encoded)
        return Chosen((choice,), doubts_about(self, encoded, choice))

    def _align(self, encoded: Sequence[Encoded], choices: tuple[Choice, ...], on_batch: OnBatch | None) -> list[Found]:
        links = _links(self.reader, encoded, choices[0].place, self.batch_tokens, on_batch) if choices else {}
        return [(links.get(n, {}), one.skipped) for n, one in enumerate(encoded)]

    def word_scores(self, source: str | Sequence[str], target: str | Sequence[str]) -> list[list[float]]:
        """The scores that links of this pair by itself are read off, `[J][I+1]`, the last column being `</s>`.

        Raises:
            ValueError: a blank or too long side.
        """
        one = encode(self.recorder, next(number_pairs([(source, target)])), self.too_long)
        if one.pieces is None:
            raise ValueError("one side is blank, or too long for the model")
        rows: list[list[float]] = self.reader.scores([one.pieces], choose_for(self, [one]).place)[0].tolist()
        return rows


def doubts_about(aligner: Aligner, encoded: Sequence[Encoded], choice: Choice, terms: Terms | None = None) -> list[str]:
    """What in a text that begins with these pairs looks as if it were not this model's text: warnings."""
    recorder, cells = aligner.recorder, candidates(aligner.recorder, aligner.settings)
    encoded = [one for one in encoded if not isinstance(one.pair, IdPair)]  # which no recorder can cut anew
    return [
        *doubts_about_text(recorder, encoded, terms),
        *doubts_about_choice(recorder, aligner.reader, choice, encoded, cells, terms),
    ]


def choose_for(aligner: Aligner, encoded: Sequence[Encoded]) -> Choice:
    """Where an aligner reads a text that begins with these pairs; aligns nothing."""
    if aligner.choice:
        return aligner.choice
    return choose(aligner.reader, encoded, aligner.settings, aligner.calibration, aligner.batch_tokens)
