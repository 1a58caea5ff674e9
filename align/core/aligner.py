"""Aligns sentence pairs with one translation model or with two, lazily and in order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, Protocol, get_args

from align.core.backend import Recorder, StateRecorder
from align.core.choice import Calibration, candidates, choose, known_choice
from align.core.errors import ModelError, PairError, printable
from align.core.scores import AttentionReader, LinkResult, Scorer, soft_links
from align.core.similarity import SimilarityReader
from align.core.stream import (
    BATCH_TOKENS,
    BUFFER,
    SHARED_BUFFER,
    SLICE_WORDS,
    Buffer,
    Encoded,
    OnBatch,
    OnChoice,
    OpenPool,
    Pool,
    SideNames,
    TooLong,
    attempt,
    chunks,
    cut,
    encode,
    in_order,
)
from align.core.symmetrize import DIRECTIONS, METHODS, SOFT, mean_links
from align.core.text import IdPair, PairLike, number_pairs
from align.core.types import (
    FLOOR,
    THRESHOLD,
    Agreement,
    Alignment,
    Choice,
    LinkScores,
    Pair,
    Pieces,
    Place,
    Settings,
    TextWarning,
)

GROUP = 4
"""Batches whose pairs pass through each model before their links are found, all at once; see `groups`."""

JUDGED_PAIRS = 400
"""Pairs at the beginning of a text by which it is judged, where it need not choose a layer and a head."""


@dataclass(frozen=True, eq=False)
class Direction:
    """A model that translates in one direction, and what is read from its attention.

    Attributes:
        recorder: the model.
        settings: score, position, layer, head and threshold of its links.
        calibration: layer and head that the model's folder stores, by score and position.
        choice: layer and head to read; None chooses them for each text.
        scorer: gives soft scores, also of both directions if this is the forward one; None for `soft_scores`.

    Raises:
        ModelError: the model does not have this layer or head, or `settings` exclude `choice`.
    """

    recorder: Recorder
    settings: Settings = field(default_factory=Settings)
    _: KW_ONLY
    calibration: Calibration = field(default_factory=dict)
    choice: Choice | None = None
    scorer: Scorer | None = None

    def __post_init__(self) -> None:
        allowed = candidates(self.recorder, self.settings)
        if self.choice:
            cells = self.choice.place.cells()
            differs = set(cells) != set(allowed) and self.settings.position != "auto"
            if differs or any(cell not in allowed[position] for position, cell in cells.items()):
                raise ModelError(f"{self.choice.place}: no such place in {self.recorder.name}, or not as asked")

    def __repr__(self) -> str:
        return f"<Direction {self}>"

    def __str__(self) -> str:
        place = self.choice.place if self.choice else f"layer {self.settings.layer}"
        score = "" if isinstance(self.recorder, StateRecorder) else f"{self.settings.score}, "
        return printable(f"{self.recorder.name}, {score}{place}")

    @cached_property
    def reader(self) -> AttentionReader | SimilarityReader:
        """Reads scores and links from the model's attention, or an encoder's states, as the settings say."""
        if isinstance(self.recorder, StateRecorder):
            return SimilarityReader(self.recorder, self.settings.threshold)
        return AttentionReader(
            self.recorder, self.settings.score, self.settings.null, self.settings.threshold, self.scorer
        )

    @property
    def known_choice(self) -> Choice | None:
        """Layer and head to read, where they do not depend on a text: as asked, or as the model stores them."""
        return self.choice or known_choice(self.recorder, self.settings, self.calibration)

    def choose(self, encoded: Sequence[Encoded], batch_tokens: int = BATCH_TOKENS) -> Choice:
        """Return the layer and head to read for a text that begins with these pairs."""
        return self.known_choice or choose(self.reader, encoded, self.settings, self.calibration, batch_tokens)


class TextCheck(Protocol):
    """Compares a text with the text that models were trained on."""

    done: bool  # whether `add` will return no warning any more

    def begin(
        self, direction: Direction, encoded: Sequence[Encoded], choice: Choice | None, terms: SideNames
    ) -> list[str]:
        """Return warnings about the first pairs of a text; a choice of None means all layers and heads."""
        ...

    def add(self, pairs: Iterable[Pair]) -> str:
        """Take the next pairs of the text; return a warning if it is in other languages, and otherwise ""."""
        ...


@dataclass(frozen=True, eq=False)
class Aligner:
    """Word alignments from a translation model, or from two that translate in opposite directions, or an encoder.

    Where the settings leave layer, head or position on "auto", the model's stored calibration decides, for every text.
    Without one each call chooses for its own text, by lexical consistency: up to 1,000 pairs of the first buffer
    decide, and below 50 pairs the layer at a third of the depth is read. `fixed` returns an aligner that no longer
    chooses.

    Threads may share an aligner, and forked processes have a copy each. A pickled aligner is the path of its models and
    its settings: another process loads the same models again, once.

    Attributes:
        forward: the model that translates source to target.
        reverse: the model that translates target to source, or None.
        method: how links of two directions are combined: "soft" links words whose `align.core.scores.soft_scores`
            exceed `threshold`; a key of `align.core.symmetrize.METHODS` combines the links of both directions, each
            with the threshold of its settings; "forward" and "reverse" keep the links of one direction.
        threshold: of the method "soft", from 0 to 1; with a partner, of the mean score.
        partner: an encoder, whose soft scores are averaged with those of the models; their settings have the threshold
            FLOOR. None for no such mean. See `align.models.load.ensemble`.
        buffer: pairs to read ahead, to sort them by length; one buffer is in memory, or with several processes a few.
        batch_tokens: pieces in a batch, padding included.
        too_long: policy for pairs that exceed the positions of a model: "stop" raises, "blank" leaves them without
            links.
        check: compares a text with the models'; None for no such warnings.
        pool: opens what runs the work, by default this process. `align.io.pool.processes` shares a text among several
            processes; no link depends on it. Buffers below 500 pairs always stay in this process.

    Raises:
        ValueError: a size below 1, an unknown method or policy, or a threshold outside 0 to 1.
    """

    forward: Direction
    reverse: Direction | None = None
    method: str = SOFT
    _: KW_ONLY
    threshold: float = THRESHOLD
    partner: Direction | None = None
    buffer: int = BUFFER
    batch_tokens: int = BATCH_TOKENS
    too_long: TooLong = "stop"
    check: TextCheck | None = None
    pool: OpenPool = Pool

    def __post_init__(self) -> None:
        if self.too_long not in get_args(TooLong):
            raise ValueError(f"too_long must be one of {', '.join(get_args(TooLong))}; got {self.too_long!r}")
        for name in ("buffer", "batch_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be a number from 1; got {getattr(self, name)}")
        known = (SOFT, *METHODS, *DIRECTIONS)
        if self.method not in known:
            raise ValueError(f"the method must be one of {', '.join(known)}; got {self.method!r}")
        if self.partner and self.method != SOFT:
            raise ValueError(f"an ensemble averages soft scores, which the method {self.method} does not have")
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"the threshold must be a number from 0 to 1; got {self.threshold}")

    def __repr__(self) -> str:
        method = f"; {self.method}" if self.reverse else ""
        return f"<Aligner {' + '.join(map(str, self.directions))}{method}>"

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The forward direction, then the reverse direction and the partner, if there are such."""
        return tuple(filter(None, (self.forward, self.reverse, self.partner)))

    @property
    def steps(self) -> tuple[int, ...]:
        """Of each direction 1, or -1 if it reads the sides of a pair in reverse order."""
        return (1, *([-1] if self.reverse else []), *([1] if self.partner else []))

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Layer and head of each direction; empty if any of them are chosen for each text."""
        known = tuple(direction.choice for direction in self.directions if direction.choice)
        return known if len(known) == len(self.directions) else ()

    def align(self, source: str | Sequence[str], target: str | Sequence[str]) -> Alignment:
        """Align one sentence pair, given as strings (words between spaces) or as sequences of words."""
        (alignment,) = self([(source, target)])
        return alignment

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

        For many pairs, pass `IdPair`s to the aligner.

        Args:
            source: ids as the encoder reads them, special pieces and padding included.
            target: ids as `generate` returns them.
            source_words: word of each source id, from 0, and None for special pieces; without it links count the ids
                themselves, and special pieces have no link. See `words_of_pieces` and `words_of_offsets`.
            target_words: word of each target id, in the same way.

        Raises:
            TypeError, ValueError: the ids are no sequence of integers, or the words do not match them in number.
            PairError: ids outside the model's vocabulary, or more than it takes.
        """
        return next(self([IdPair.of(source, target, source_words, target_words)]))

    def __call__(
        self, pairs: Iterable[PairLike], on_choice: OnChoice | None = None, on_batch: OnBatch | None = None
    ) -> Generator[Alignment, None, None]:
        """Align pairs: yield one alignment for each, in order, a buffer at a time.

        The score of a link is that of its words; with a symmetrisation heuristic the mean of its scores in both
        directions, 0 where a direction does not have it. A pair that is too long for one of the models is skipped.

        Args:
            pairs: any number of pairs.
            on_choice: receives layer and head of each direction, before the first alignment of the buffer that decided.
            on_batch: receives the number of pairs in each batch that has passed through a model.

        Raises:
            TypeError, ValueError: an item is not a source and a target, or consists of ids for two models.
            PairError: a pair is longer than a model takes, unless `too_long` is "blank". The pairs before it come out
                first, as they do before any exception of `pairs` itself.
            ChildProcessError: a worker process was killed.

        Warns:
            TextWarning: the text does not look like what a model was trained on.
        """
        return self.checked(self.stream(number_pairs(pairs), on_choice, on_batch))

    def stream(
        self,
        pairs: Iterable[Pair],
        on_choice: OnChoice | None = None,
        on_batch: OnBatch | None = None,
        choices: tuple[Choice, ...] = (),
        pool: Pool | None = None,
    ) -> Generator[Alignment, None, None]:
        """Yield one alignment for each pair, in order; see `__call__`, which checks the languages, too.

        A part of a text has the `choices` of the whole, and is not judged. A pool has `align_slice` as the
        task "align".
        """
        if pool is None:
            with self.open_pool({"align": self.align_slice}, on_batch) as pool:
                yield from self.stream(pairs, on_choice, on_batch, choices, pool)
            return

        known = self._choices(()) if all(direction.known_choice for direction in self.directions) else ()

        def begin(pairs: Iterable[Pair], count: int | None = None) -> None:
            nonlocal choices
            tried = (attempt(self.encode, pair) for pair in pairs)
            readable = (item for item in tried if not isinstance(item, PairError) and item[0].pieces)
            choices, doubts = self.choose([*islice(readable, count)])
            for doubt in doubts:
                warnings.warn(doubt, TextWarning, stacklevel=7)  # the caller of the next alignment
            if choices and on_choice:
                on_choice(choices)

        def buffers() -> Iterator[Buffer]:
            for chunk in chunks(pairs, self.buffer, lambda pair: pair.memory()):
                if not (choices or known):
                    begin(chunk)
                yield chunk, (choices or known,)

        def judge(chunk: Sequence[Pair]) -> None:
            if known and not choices and (self.check or on_choice):
                begin(chunk, JUDGED_PAIRS)

        for pair, result in in_order(pool, "align", SLICE_WORDS, buffers(), judge):
            scores, skipped, agreement = result or ({}, "", None)
            error = pair.origin.error
            yield Alignment(pair, scores, error.reason if error else skipped, agreement)

    def checked(
        self, alignments: Generator[Alignment, None, None], text: Callable[[Pair], Pair] = lambda pair: pair
    ) -> Generator[Alignment, None, None]:
        """Yield alignments, and warn once if their text is in other languages than the models'.

        The check follows the first alignments, since it takes a second to load, and the first lines together, since
        one of them may be a title or a quotation. `text` returns what is checked of a pair.
        """
        check, pairs, until = self.check, list[Pair](), 10  # pairs that are judged together
        with closing(alignments):
            for alignment in alignments:
                yield alignment
                if check is None or check.done or isinstance(pair := text(alignment.pair), IdPair):
                    continue
                pairs.append(pair)
                if len(pairs) == until:
                    if warning := check.add(pairs):
                        warnings.warn(warning, TextWarning, stacklevel=2)
                    pairs, until = [], 2 * until
        if check and pairs and (warning := check.add(pairs)):
            warnings.warn(warning, TextWarning, stacklevel=2)

    def fixed(self, sample: Iterable[PairLike] = ()) -> Aligner:
        """Return the same aligner, but one that reads every text at the layer and head it would choose for `sample`.

        The links of a pair then depend on nothing but the pair, as they do for any model with a stored calibration,
        whatever the sample.

            service = load().fixed()                                # layer and head of the model's own calibration
            service = load("mine.pt").fixed(read_text("de", "en"))  # chosen once, where the model stores none

        Args:
            sample: pairs, of which the first buffer decides.

        Raises:
            TypeError, ValueError: as aligning the sample does.
        """
        encoded = [self.encode(pair) for pair in islice(number_pairs(sample), self.buffer)]
        return self.reading_at(self._choices(encoded))

    def reading_at(self, choices: Sequence[Choice]) -> Aligner:
        """Return the same aligner, but one that reads these layers and heads, a choice for each direction.

        Raises:
            ValueError: the number of choices is not that of the directions, or a model does not have one of them.
        """
        if len(choices) != len(self.directions):
            raise ValueError(f"layer and head of {len(choices)} models, and there are {len(self.directions)}")
        return self.with_directions(
            replace(direction, choice=choice) for direction, choice in zip(self.directions, choices, strict=True)
        )

    def with_directions(self, directions: Iterable[Direction], **changes: Any) -> Aligner:
        """Return the same aligner with other directions, as many as it has, and other changes."""
        names = [name for name in ("forward", "reverse", "partner") if getattr(self, name)]
        return replace(self, **changes | dict(zip(names, directions, strict=True)))

    def word_scores(self, source: str | Sequence[str], target: str | Sequence[str]) -> list[list[float]]:
        """Return the forward model's word scores `[J][I+1]` of a pair by itself; the last column is `</s>`.

        Raises:
            ValueError: a side is blank or too long.
        """
        encoded = encode(self.forward.recorder, next(number_pairs([(source, target)])), self.too_long)
        if encoded.pieces is None:
            raise ValueError("one side is blank, or too long for the model")
        place = self.forward.choose([encoded], self.batch_tokens).place
        rows: list[list[float]] = self.forward.reader.scores([encoded.pieces], place)[0].tolist()
        return rows

    @property
    def open_pool(self) -> OpenPool:
        """What opens the pool of a text; short buffers stay in this process."""
        return self.pool if self.buffer >= SHARED_BUFFER else Pool

    @cached_property
    def _names(self) -> tuple[SideNames, ...]:
        """Names of the models and their sides in messages; the sides are those of the forward direction."""
        names = [SideNames()]
        if self.reverse:
            names = [
                SideNames(f"the forward model ({self.forward.recorder.name})"),
                SideNames(f"the reverse model ({self.reverse.recorder.name})", "target", "source"),
            ]
        return (*names, *([SideNames(f"the encoder ({self.partner.recorder.name})")] if self.partner else ()))

    def encode(self, pair: Pair) -> tuple[Encoded, ...]:
        """Return a pair with the pieces of each model: of all of them, or of none."""
        directions, read = self.directions, [pair]
        if isinstance(pair, IdPair):
            read += pair.others
        elif len(directions) > 1:
            swapped = Pair(pair.target, pair.source, pair.id, origin=pair.origin)
            read = [pair if step == 1 else swapped for step in self.steps]
        if len(read) < len(directions):
            raise TypeError("ids are those of one model: align them with one model, or their text with several")
        encoded = [
            encode(direction.recorder, one, self.too_long, names)
            for direction, one, names in zip(directions, read, self._names, strict=True)
        ]
        if all(item.pieces for item in encoded):
            return tuple(encoded)
        item = next((item for item in encoded if item.skipped), encoded[0])
        return tuple(Encoded(one, None, item.skipped) for one in read)

    def _choices(self, encoded: Sequence[tuple[Encoded, ...]]) -> tuple[Choice, ...]:
        return tuple(
            direction.choose([directions[n] for directions in encoded], self.batch_tokens)
            for n, direction in enumerate(self.directions)
        )

    def choose(self, encoded: Sequence[tuple[Encoded, ...]]) -> tuple[tuple[Choice, ...], list[str]]:
        """Return layers and heads for a text by its first pairs, empty if none has pieces, and warnings."""
        if not any(of_pair[0].pieces for of_pair in encoded):
            return (), []
        choices = self._choices(encoded)
        doubts: list[str] = []
        if self.check:
            for n, direction in enumerate(self.directions):
                of_model = [directions[n] for directions in encoded]
                doubts += self.check.begin(direction, of_model, choices[n], self._names[n])
        return choices, doubts

    def align_slice(
        self, pairs: Sequence[Pair], choices: tuple[Choice, ...], on_batch: OnBatch | None
    ) -> list[tuple[LinkScores, str, Agreement | None] | PairError]:
        """Return links, reason and agreement of each pair; a task of the pool."""
        tried = [attempt(self.encode, pair) for pair in pairs]
        encoded = [item for item in tried if not isinstance(item, PairError)]
        forward = [directions[0] for directions in encoded]
        links: dict[int, LinkResult] = {}
        for numbers in groups(forward, self.batch_tokens) if choices else ():
            pieces = [[of_pair for n in numbers if (of_pair := encoded[n][d].pieces)] for d in range(len(choices))]
            links |= zip(numbers, self._links(pieces, [choice.place for choice in choices], on_batch), strict=True)
        of_pairs = zip(forward, (links.get(n, ({}, None)) for n in range(len(forward))), strict=True)
        aligned = ((scores, item.skipped, agreement) for item, (scores, agreement) in of_pairs)
        return [item if isinstance(item, PairError) else next(aligned) for item in tried]

    def _links(
        self, pieces: Sequence[Sequence[Pieces]], places: Sequence[Place], on_batch: OnBatch | None
    ) -> list[LinkResult]:
        """Return the links of pairs, given their pieces in each direction."""
        tokens, reverse = self.batch_tokens, self.directions[1].reader if self.reverse else None
        if reverse is None:
            links = self.forward.reader.links(pieces[0], places[0], tokens, on_batch)
        elif self.method == SOFT:
            shares = self.forward.reader.shares(pieces[0], places[0], tokens, on_batch)  # [B, J, I]
            back = reverse.shares(pieces[1], places[1], tokens, on_batch).to(shares.device)  # [B, I, J]
            threshold = FLOOR if self.partner else self.threshold
            links = soft_links(shares, back, threshold, pieces[0], self.forward.scorer)
        else:
            ways: list[list[LinkScores]] = []
            if self.method != "reverse":
                found = self.forward.reader.links(pieces[0], places[0], tokens, on_batch)
                ways.append([scores for scores, _ in found])
            if self.method != "forward":
                found = reverse.links(pieces[1], places[1], tokens, on_batch)
                ways.append([{link[::-1]: score for link, score in scores.items()} for scores, _ in found])
            links = [(self._combined(*of_pair), None) for of_pair in zip(*ways, strict=True)]
        if self.partner:
            others = self.partner.reader.links(pieces[-1], places[-1], tokens, on_batch)
            links = [
                (mean_links([scores, other], self.threshold), agreement)
                for (scores, agreement), (other, _) in zip(links, others, strict=True)
            ]
        return links

    def _combined(self, *ways: LinkScores) -> LinkScores:
        """Combine the links of both directions by a heuristic; those of one stay as they are."""
        if len(ways) == 1:
            return ways[0]
        both = METHODS[self.method](*map(frozenset, ways))
        return {link: sum(scores.get(link, 0.0) for scores in ways) / 2 for link in both}


def groups(encoded: Sequence[Encoded], tokens: int) -> Iterator[list[int]]:
    """Yield the numbers of pairs that have pieces, about GROUP batches at a time, fewer where lines grow much longer.

    Pairs times longest side are at most GROUP times `tokens`, as in `align.core.stream.batches`.
    """
    group: list[int] = []
    for numbers, batch in cut(encoded, tokens):
        longest = max(max(len(pair.source), len(pair.target)) for pair in batch)
        if group and (len(group) + len(numbers)) * longest > GROUP * tokens:
            yield group
            group = []
        group += numbers
    if group:
        yield group


def align_encoded(
    reader: AttentionReader | SimilarityReader, encoded: Sequence[Encoded], place: Place, tokens: int = BATCH_TOKENS
) -> Iterator[Alignment]:
    """Align a buffer of encoded pairs with one model: yield one alignment for each, in order."""
    links: dict[int, LinkResult] = {}
    for numbers in groups(encoded, tokens):
        pieces = [of_pair for n in numbers if (of_pair := encoded[n].pieces)]
        links |= zip(numbers, reader.links(pieces, place, tokens), strict=True)
    for n, item in enumerate(encoded):
        scores, agreement = links.get(n, ({}, None))
        yield Alignment(item.pair, scores, item.skipped, agreement)
