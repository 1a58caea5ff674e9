"""Two models, one for each direction, and their links symmetrised."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray

from align.core.aligner import Aligner, PairLike, choose_for, doubts_about
from align.core.batching import Encoded, OnBatch, Terms, chunks, cut, encode, tell
from align.core.extraction import LinkScores
from align.core.pieces import IdPair
from align.core.settings import THRESHOLD, Search
from align.core.soft import links_above, soft_scores
from align.core.stream import Chosen, Found, OnChoice, Steps, align_stream
from align.core.symmetrize import DIRECTIONS, METHODS, SOFT, symmetrize
from align.core.text import number_pairs
from align.core.types import Alignment, Choice, Pair, Pieces, Place, TextWarning
from align.models.languages import is_group, same_language
from align.models.translate import Sentence, translate

GROUP = 32
"""Batches that go through one model and then, cut anew for its own lengths, through the other."""

Numbered = tuple[list[int], list[Pieces]]
"""Numbers of pairs in the buffer, and their pieces."""


@dataclass(frozen=True, eq=False)
class TwoWayAligner:
    """Word alignments out of two translation models: one for each direction, symmetrised.

    Attributes:
        forward: aligns with a model that translates source to target; its buffer, sizes of batches and workers are
            those of both.
        reverse: aligns with one that translates target to source.
        method: "soft", links whose `align.core.soft.soft_scores` are above a threshold; a key of
            `align.core.symmetrize.METHODS`, on the links of either direction, each above its own aligner's threshold;
            or "forward" or "reverse", the links of one direction.
        threshold: of "soft", from 0 to 1.

    Raises:
        ValueError: another method or threshold.

    Warns:
        TextWarning: the languages of the models are not each other's the other way round.
    """

    forward: Aligner
    reverse: Aligner
    method: str = SOFT
    _: KW_ONLY
    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        known = (SOFT, *METHODS, *DIRECTIONS)
        if self.method not in known:
            raise ValueError(f"the method is one of {', '.join(known)}; not {self.method!r}")
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"the threshold is a number from 0 to 1; not {self.threshold}")
        source, target = self.forward.recorder.languages
        back = self.reverse.recorder.languages
        if not all(
            same_language(*pair) or any(map(is_group, pair)) for pair in zip(back, (target, source), strict=True)
        ):
            warnings.warn(
                f"{self.forward.recorder.name} translates {source} to {target}, but the reverse model is "
                f"{self.reverse.recorder.name}: does it translate {target} to {source}?",
                TextWarning,
                stacklevel=3,
            )

    @property
    def directions(self) -> tuple[Aligner, ...]:
        """The aligners of single models that this one is made of: the forward and the reverse one."""
        return self.forward, self.reverse

    def align(self, source: str | Sequence[str], target: str | Sequence[str]) -> Alignment:
        """Align one pair of sentences, given as strings (words at spaces) or as words."""
        return next(self([(source, target)]))

    def __call__(
        self, pairs: Iterable[PairLike], on_choice: OnChoice | None = None, on_batch: OnBatch | None = None
    ) -> Generator[Alignment, None, None]:
        """Align pairs: one alignment for each, in order, a buffer at a time.

        A link's score is the soft one, or, with a heuristic, the mean of what it has in either direction, 0 where it
        is none there; with one direction for a method it is that one's. A pair that is too long for one of the models
        is skipped.

        Args:
            pairs: of any number.
            on_choice: is told where the forward and the reverse model are read.
            on_batch: is told of each batch of either model how many pairs are done with it.

        Raises:
            TypeError, ValueError: an item that is not a source and a target, or is one in ids.
            PairError: a pair that is longer than one of the models takes, unless that one's `too_long` is "blank";
                the pairs before it come out first.
            ChildProcessError: a worker was killed.

        Warns:
            TextWarning: the text does not look like what the models were trained on.
        """
        return align_stream(self.steps, number_pairs(pairs), on_choice, on_batch)

    @property
    def steps(self) -> Steps:
        """What becomes of a buffer of pairs."""
        return Steps(self._encode, self._choose, self._align, self.forward.buffer, self.forward.workers)

    def translate(
        self,
        sentences: Iterable[Sentence],
        search: Search | None = None,
        on_choice: OnChoice | None = None,
        on_batch: OnBatch | None = None,
    ) -> Generator[Alignment, None, None]:
        """Translate with the forward model, and align with both: as `Aligner.translate`."""
        return translate(self, sentences, search, on_choice, on_batch)

    def fixed(self, sample: Iterable[PairLike] = ()) -> TwoWayAligner:
        """The same, but reading every text where it would read this one: as `Aligner.fixed`."""
        encoded = [self._encode(pair) for pair in islice(number_pairs(sample), self.forward.buffer)]
        forward = replace(self.forward, choice=choose_for(self.forward, [both[0] for both in encoded]))
        reverse = replace(self.reverse, choice=choose_for(self.reverse, [both[1] for both in encoded]))
        with warnings.catch_warnings():  # which came when this one was made
            warnings.simplefilter("ignore", TextWarning)
            return replace(self, forward=forward, reverse=reverse)

    @cached_property
    def _terms(self) -> tuple[Terms, Terms]:
        """What messages call the models, and their sides as they are to the forward one."""
        return (
            Terms(f"the forward model ({self.forward.recorder.name})", "source", "target"),
            Terms(f"the reverse model ({self.reverse.recorder.name})", "target", "source"),
        )

    def _encode(self, pair: Pair) -> tuple[Encoded, Encoded]:
        """A pair as either model reads it; pieces for both or for none."""
        if isinstance(pair, IdPair):
            raise TypeError("ids are those of one model: align them with an Aligner, or their text with two")
        forward = encode(self.forward.recorder, pair, self.forward.too_long, self._terms[0])
        swapped = Pair(pair.target, pair.source, pair.id)
        reverse = encode(self.reverse.recorder, swapped, self.reverse.too_long, self._terms[1])
        if forward.pieces and reverse.pieces:
            return forward, reverse
        skipped = forward.skipped or reverse.skipped
        return Encoded(pair, None, skipped), Encoded(swapped, None, skipped)

    def _choose(self, encoded: Sequence[tuple[Encoded, Encoded]]) -> Chosen | None:
        forward, reverse = [both[0] for both in encoded], [both[1] for both in encoded]
        if not any(one.pieces for one in forward):
            return None
        choices = choose_for(self.forward, forward), choose_for(self.reverse, reverse)
        doubts = doubts_about(self.forward, forward, choices[0], self._terms[0])
        return Chosen(choices, doubts + doubts_about(self.reverse, reverse, choices[1], self._terms[1]))

    def _align(
        self, encoded: Sequence[tuple[Encoded, Encoded]], choices: tuple[Choice, ...], on_batch: OnBatch | None
    ) -> list[Found]:
        forward, reverse = [both[0] for both in encoded], [both[1] for both in encoded]
        places = [choice.place for choice in choices]
        links = self._link(forward, reverse, (places[0], places[1]), on_batch) if places else {}
        return [(links.get(n, {}), one.skipped) for n, one in enumerate(forward)]

    def _link(
        self,
        forward: Sequence[Encoded],
        reverse: Sequence[Encoded],
        places: tuple[Place, Place],
        on_batch: OnBatch | None,
    ) -> dict[int, LinkScores]:
        """Links of a buffer of pairs, encoded for both models, by number."""
        links: dict[int, LinkScores] = {}
        tokens = self.forward.batch_tokens
        symmetrise = self._symmetrise_scores if self.method == SOFT else self._symmetrise_links
        for group in chunks(cut(forward, tokens), GROUP):
            numbers = [n for of_batch, _ in group for n in of_batch]
            batches = cut([reverse[n] for n in numbers], self.reverse.batch_tokens)
            renumbered = [([numbers[n] for n in of_batch], batch) for of_batch, batch in batches]
            links |= symmetrise(group, renumbered, places, on_batch)
        return links

    def _symmetrise_scores(
        self,
        forward: Sequence[Numbered],
        reverse: Sequence[Numbered],
        places: tuple[Place, Place],
        on_batch: OnBatch | None,
    ) -> dict[int, LinkScores]:
        """Links of a group of pairs by the scores of both directions."""
        rows: dict[int, NDArray[np.float32]] = {}  # of each pair, [J, I]; numpy, for many small slices
        for numbers, batch in tell(forward, on_batch):
            shares = self.forward.reader.shares(batch, places[0]).cpu().numpy()  # [B, J, I]
            for n, pieces, row in zip(numbers, batch, shares, strict=True):
                rows[n] = row[: pieces.words[1], : pieces.words[0]]
        links: dict[int, LinkScores] = {}
        for numbers, batch in tell(reverse, on_batch):
            of_reverse = self.reverse.reader.shares(batch, places[1])  # [B, I, J]
            of_forward = np.zeros((len(numbers), *of_reverse.shape[:0:-1]), dtype=np.float32)  # [B, J, I]
            for b, n in enumerate(numbers):
                of_forward[b, : rows[n].shape[0], : rows[n].shape[1]] = rows[n]
            scores = soft_scores(torch.from_numpy(of_forward).to(of_reverse), of_reverse)  # [B, J, I]
            links |= zip(numbers, links_above(scores, self.threshold), strict=True)
        return links

    def _symmetrise_links(
        self,
        forward: Sequence[Numbered],
        reverse: Sequence[Numbered],
        places: tuple[Place, Place],
        on_batch: OnBatch | None,
    ) -> dict[int, LinkScores]:
        """Links of a group of pairs by the links of both directions, or of one."""
        of_forward: dict[int, LinkScores] = {}
        of_reverse: dict[int, LinkScores] = {}
        for numbers, batch in tell(forward if self.method != "reverse" else (), on_batch):
            of_forward |= zip(numbers, self.forward.reader.links(batch, places[0]), strict=True)
        for numbers, batch in tell(reverse if self.method != "forward" else (), on_batch):
            for n, links in zip(numbers, self.reverse.reader.links(batch, places[1]), strict=True):
                of_reverse[n] = {link[::-1]: score for link, score in links.items()}
        numbers = [n for of_batch, _ in forward for n in of_batch]
        return {n: self._symmetrise(of_forward.get(n, {}), of_reverse.get(n, {})) for n in numbers}

    def _symmetrise(self, forward: LinkScores, reverse: LinkScores) -> LinkScores:
        """One pair's links out of both directions'."""
        if self.method in DIRECTIONS:
            return forward or reverse
        links = symmetrize(frozenset(forward), frozenset(reverse), self.method)
        return {link: (forward.get(link, 0.0) + reverse.get(link, 0.0)) / 2 for link in links}


def reading_at(aligner: Aligner | TwoWayAligner, choices: Sequence[Choice]) -> Aligner | TwoWayAligner:
    """The same aligner, but reading where an earlier run did.

    Args:
        aligner: of one model or two.
        choices: for each direction; none where that was still open.

    Raises:
        ValueError: if there are not as many choices as models, or they are not what the settings allow.
    """
    if not choices:
        return aligner
    models = aligner.directions
    if len(choices) != len(models):
        raise ValueError(f"layer and head of {len(choices)} models, and there are {len(models)}")
    forward, *reverse = (replace(model, choice=choice) for model, choice in zip(models, choices, strict=True))
    if not isinstance(aligner, TwoWayAligner):
        return forward
    with warnings.catch_warnings():  # which came with the first of the two
        warnings.simplefilter("ignore")
        return replace(aligner, forward=forward, reverse=reverse[0])
