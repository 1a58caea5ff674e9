"""Two models, one for each direction, and their links made one."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import tee

from align.aligner import Aligner
from align.stream import number_pairs
from align.symmetrize import DEFAULT_METHOD, DIRECTIONS, METHODS, symmetrize
from align.types import Alignment, Pair, Terms, TextWarning


class TwoWayAligner:
    """Word alignments out of two translation models: one for each direction, symmetrised.

    Args:
        forward: aligns with a model that translates source to target.
        reverse: aligns with one that translates target to source.
        method: a key of `align.symmetrize.METHODS`; or "forward" or "reverse", the links of one direction.

    Attributes:
        forward: a copy of it, which shares its model and has a `cell` of its own.
        reverse: the same of the other; its messages call source and target what they are to `forward`.

    Raises:
        ValueError: another method.

    Warns:
        TextWarning: the languages of the models are not each other's the other way round.
    """

    def __init__(self, forward: Aligner, reverse: Aligner, method: str = DEFAULT_METHOD) -> None:
        if method not in METHODS and method not in DIRECTIONS:
            raise ValueError(f"the method is one of {', '.join((*METHODS, *DIRECTIONS))}; not {method!r}")
        self.forward, self.reverse, self.method = copy(forward), copy(reverse), method
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
        """Align pairs: one alignment for each, in order, a buffer at a time; the larger of both buffers is held.

        A link's score is the mean of what it has in either direction, 0 where it is none there; with one direction
        for a method it is that one's. A pair that is too long for one of the models is skipped.

        Raises:
            PairError: a pair that is longer than one of the models takes, unless that one's `too_long` is "blank";
                the pairs before it come out first.
        """
        ahead, back = tee(number_pairs(pairs))
        turned = (Pair(pair.target, pair.source, pair.id) for pair in back)
        for forward, reverse in zip(self.forward(ahead), self.reverse(turned), strict=True):
            yield self._join(forward, reverse)

    def _join(self, forward: Alignment, reverse: Alignment) -> Alignment:
        """One pair's links out of both directions'."""
        if skipped := forward.skipped or reverse.skipped:
            return Alignment(forward.pair, {}, skipped)
        back = {(i, j): score for (j, i), score in reverse.scores.items()}
        if self.method in DIRECTIONS:
            return Alignment(forward.pair, forward.scores if self.method == "forward" else back)
        links = symmetrize(forward.links, frozenset(back), self.method)
        return Alignment(
            forward.pair, {link: (forward.scores.get(link, 0.0) + back.get(link, 0.0)) / 2 for link in links}
        )
