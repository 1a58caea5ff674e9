"""Two models, one for each direction, and their links made one."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from copy import copy

import numpy as np
import torch
from numpy.typing import NDArray

from align.aligners.single import Aligner, Item
from align.attention.scores import shares
from align.attention.soft import links_above, soft_scores
from align.batching import chunks
from align.links.symmetrize import DIRECTIONS, METHODS, SOFT, THRESHOLD, symmetrize
from align.text.lines import number_pairs
from align.types import Alignment, Cell, Pair, Pieces, Terms, TextWarning

GROUP = 32
"""Batches that go through one model and then, cut anew for its own lengths, through the other."""

Scores = dict[tuple[int, int], float]
Found = dict[int, Scores]
"""By the pair's place in the buffer."""

Batched = tuple[list[int], list[Pieces]]
"""What `Aligner.batch` yields."""


class TwoWayAligner:
    """Word alignments out of two translation models: one for each direction, symmetrised.

    Args:
        forward: aligns with a model that translates source to target; its buffer and sizes of batches are those of
            both.
        reverse: aligns with one that translates target to source.
        method: "soft", links whose `align.attention.soft.soft_scores` are above a threshold; a key of
            `align.links.symmetrize.METHODS`, on the best words of either direction; or "forward" or "reverse", the
            links of one direction.
        threshold: of "soft", from 0 to 1.

    Attributes:
        forward: a copy of it, which shares its model and has a `cell` of its own.
        reverse: the same of the other; its messages call source and target what they are to `forward`.

    Raises:
        ValueError: another method or threshold.

    Warns:
        TextWarning: the languages of the models are not each other's the other way round.
    """

    def __init__(self, forward: Aligner, reverse: Aligner, method: str = SOFT, *, threshold: float = THRESHOLD) -> None:
        known = (SOFT, *METHODS, *DIRECTIONS)
        if method not in known:
            raise ValueError(f"the method is one of {', '.join(known)}; not {method!r}")
        if not 0 <= threshold <= 1:
            raise ValueError(f"the threshold is a number from 0 to 1; not {threshold}")
        self.forward, self.reverse, self.method, self.threshold = copy(forward), copy(reverse), method, threshold
        names = forward.recorder.name, reverse.recorder.name
        self.forward.terms = Terms(f"the forward model ({names[0]})", "source", "target")
        self.reverse.terms = Terms(f"the reverse model ({names[1]})", "target", "source")
        source, target = forward.recorder.languages
        if reverse.recorder.languages != (target, source):
            warnings.warn(
                f"{names[0]} translates {source} to {target}, but the reverse model is {names[1]}: "
                f"does it translate {target} to {source}?",
                TextWarning,
                stacklevel=2,
            )

    def align(self, source: str | Sequence[str], target: str | Sequence[str]) -> Alignment:
        """Align one pair of sentences, given as strings (words at spaces) or as words."""
        return next(self([(source, target)]))

    def __call__(self, pairs: Iterable[Pair | tuple[str | Sequence[str], str | Sequence[str]]]) -> Iterator[Alignment]:
        """Align pairs: one alignment for each, in order, a buffer at a time.

        A link's score is the soft one, or, with a heuristic, the mean of what it has in either direction, 0 where it
        is none there; with one direction for a method it is that one's. A pair that is too long for one of the models
        is skipped.

        Raises:
            PairError: a pair that is longer than one of the models takes, unless that one's `too_long` is "blank";
                the pairs before it come out first.
        """
        forward = reverse = None
        for chunk in chunks(map(self._encode, number_pairs(pairs)), self.forward.buffer):
            ahead, back = [item for item, _ in chunk], [item for _, item in chunk]
            self.forward.warn_of_text(ahead)
            self.reverse.warn_of_text(back)
            forward = forward or self.forward.choose(ahead)
            reverse = reverse or self.reverse.choose(back)
            yield from self._align_encoded(ahead, back, (forward, reverse))

    def _encode(self, pair: Pair) -> tuple[Item, Item]:
        """A pair as either model reads it; pieces for both or for none."""
        ahead = self.forward.encode(pair)
        back = self.reverse.encode(Pair(pair.target, pair.source, pair.id))
        if ahead[1] and back[1]:
            return ahead, back
        skipped = ahead[2] or back[2]
        return (pair, None, skipped), (back[0], None, skipped)

    def _align_encoded(
        self, ahead: Sequence[Item], back: Sequence[Item], cells: tuple[Cell | None, Cell | None]
    ) -> Iterator[Alignment]:
        """Align a buffer of pairs, encoded for both models, with a layer and head of each."""
        found: dict[int, Scores] = {}
        for group in chunks(self.forward.batch(ahead), GROUP):
            assert cells[0]
            assert cells[1]
            numbers = [n for places, _ in group for n in places]
            batches = self.reverse.batch([back[n] for n in numbers])
            turned = [([numbers[place] for place in places], some) for places, some in batches]
            join = self._join_scores if self.method == SOFT else self._join_links
            found |= join(group, turned, (cells[0], cells[1]))
        for n, (pair, _, skipped) in enumerate(ahead):
            yield Alignment(pair, found.get(n, {}), skipped)

    def _join_scores(self, ahead: Sequence[Batched], back: Sequence[Batched], cells: tuple[Cell, Cell]) -> Found:
        """Links of a group of pairs by the scores of both directions."""
        rows: dict[int, NDArray[np.float32]] = {}  # of each pair, [J, I]; numpy, for many small slices
        for places, some in ahead:
            batch = shares(self.forward.score(some, cells[0]), self.forward.settings.null).cpu().numpy()
            rows |= {n: row[: one.words[1], : one.words[0]] for n, one, row in zip(places, some, batch, strict=True)}
        found: Found = {}
        for places, some in back:
            reverse = shares(self.reverse.score(some, cells[1]), self.reverse.settings.null)  # [B, I, J]
            forward = np.zeros((len(places), reverse.shape[2], reverse.shape[1]), dtype=np.float32)
            for b, n in enumerate(places):
                forward[b, : rows[n].shape[0], : rows[n].shape[1]] = rows[n]
            scores = soft_scores(torch.from_numpy(forward).to(reverse), reverse)
            found |= zip(places, links_above(scores, self.threshold), strict=True)
        return found

    def _join_links(self, ahead: Sequence[Batched], back: Sequence[Batched], cells: tuple[Cell, Cell]) -> Found:
        """Links of a group of pairs by the links of both directions, or one."""
        there: Found = {}
        again: Found = {}
        for places, some in ahead if self.method != "reverse" else ():
            there |= zip(places, self.forward.link(some, cells[0]), strict=True)
        for places, some in back if self.method != "forward" else ():
            turned = ({link[::-1]: score for link, score in one.items()} for one in self.reverse.link(some, cells[1]))
            again |= zip(places, turned, strict=True)
        return {n: self._join(there.get(n, {}), again.get(n, {})) for places, _ in ahead for n in places}

    def _join(self, ahead: Scores, back: Scores) -> Scores:
        """One pair's links out of both directions'."""
        if self.method in DIRECTIONS:
            return ahead or back
        links = symmetrize(frozenset(ahead), frozenset(back), self.method)
        return {link: (ahead.get(link, 0.0) + back.get(link, 0.0)) / 2 for link in links}
