"""Run an aligner over the items of a text: commands, jobs and tables all align through here.

A session needs no terminal. An `Observer` watches it, such as a progress bar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Protocol, TypeVar

from align.core.stream import OnBatch, OnChoice, align_items
from align.core.types import Alignment, Choice, Pair, Search
from align.io.signature import Parts, sign

if TYPE_CHECKING:
    from align.core.aligner import Aligner

T = TypeVar("T")

Align = Callable[[Iterator[Pair], OnChoice, OnBatch | None], Generator[Alignment, None, None]]
"""Aligns a stream of pairs, as `Aligner.__call__` does."""


class Observer(Protocol):
    """Watches a session, as a progress bar does."""

    def choose(self, choices: Sequence[Choice]) -> None:
        """Receive the layer and head of each direction."""

    def batch(self, pairs: int) -> None:
        """Receive the number of pairs of a batch that has passed through a model."""

    def add(self, items: int = 1) -> None:
        """Receive the number of items whose results have been written."""


class Session:
    """One run of an aligner over a text.

    Args:
        aligner: aligns the pairs.
        align: how it does so, if it also translates them, or cuts them into other words.
        search: how they are translated, for the signature.
        words: the words that links count, for the signature.
        observer: watches the run.
        choices: those of an earlier run that this one continues.
        counts: those of an earlier run.
    """

    def __init__(
        self,
        aligner: Aligner,
        align: Align | None = None,
        *,
        search: Search | None = None,
        words: str = "spaces",
        observer: Observer | None = None,
        choices: tuple[Choice, ...] = (),
        counts: Counter[str] | None = None,
    ) -> None:
        self.aligner, self.search, self.words = aligner, search, words
        self.align: Align = align or aligner
        self._observer, self.choices = observer, choices  # choices: layers, heads; empty until known
        self.counts: Counter[str] = counts or Counter()  # items by what writing them returned

    def results(
        self, items: Iterable[T], pairs_of: Callable[[T], Sequence[Pair]]
    ) -> Generator[tuple[T, list[Alignment]], None, None]:
        """Yield each item with the alignments of its pairs, in order; it is done when the next one is asked for."""
        on_batch = self._observer.batch if self._observer else None
        aligned = align_items(items, pairs_of, lambda pairs: self.align(pairs, self._choose, on_batch))
        with closing(aligned) as results:  # at once, since worker processes end with it
            for result in results:
                yield result
                if self._observer:
                    self._observer.add()

    def run(
        self, pairs: Iterable[Pair], write: Callable[[Alignment], str], save: Callable[[], object], every: int
    ) -> None:
        """Write the alignment of each pair, and count it by what `write` returns.

        Args:
            save: is called after each `every` pairs, and after the last one.
        """
        with closing(self.results(pairs, lambda pair: [pair])) as results:
            for number, (_, (alignment,)) in enumerate(results, 1):
                self.counts[write(alignment)] += 1
                if number % every == 0:
                    save()
        save()

    def signature(self, after: Parts | None = None) -> str:
        """Return the signature of the results; `after` are parts that follow the version."""
        return sign(self.aligner, self.choices, self.search, self.words, after)

    def _choose(self, choices: tuple[Choice, ...]) -> None:
        self.choices = choices
        if self._observer:
            self._observer.choose(choices)
