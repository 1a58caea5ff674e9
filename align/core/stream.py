"""From a stream of pairs to what comes out for each, in order: buffers, their slices, and who does them."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from align.core.batching import SHARED_BUFFER, SLICE_WORDS, OnBatch, chunks, slices
from align.core.errors import PairError
from align.core.extraction import LinkScores
from align.core.types import Alignment, Choice, Pair, Skipped, TextWarning
from align.io.pool import Job, Workers

T = TypeVar("T")

OnChoice = Callable[[tuple[Choice, ...]], None]
"""Is told where a text's alignments are read: one choice, or those of the forward and the reverse model."""

Found = tuple[LinkScores, Skipped]
"""A pair's links, and why it was skipped."""


class Chosen(NamedTuple):
    """Where each model is read, and what looks odd about the text."""

    choices: tuple[Choice, ...]
    doubts: Sequence[str]


class Steps(NamedTuple):
    """What an aligner of one model or two does to a buffer of pairs.

    Attributes:
        encode: a pair to its pieces.
        choose: encoded pairs, the first of a text, to where it is read; None where they have no pieces.
        align: encoded pairs to what was found in each.
        buffer: pairs to read ahead.
        workers: processes to share larger buffers among.
    """

    encode: Callable[[Pair], Any]
    choose: Callable[[Sequence[Any]], Chosen | None]
    align: Callable[[Sequence[Any], tuple[Choice, ...], OnBatch | None], list[Found]]
    buffer: int
    workers: int

    @property
    def processes(self) -> int:
        """How many processes share the text; small buffers are for whoever waits for each answer."""
        return self.workers if self.buffer >= SHARED_BUFFER else 1


def align_stream(
    steps: Steps,
    pairs: Iterable[Pair],
    on_choice: OnChoice | None,
    on_batch: OnBatch | None,
    workers: Workers | None = None,
) -> Generator[Alignment, None, None]:
    """Align pairs: one alignment for each, in order; see `Aligner.__call__`.

    Args:
        steps: of the aligner.
        pairs: of any number.
        on_choice: is told where they are read.
        on_batch: is told of each batch.
        workers: with a task that `aligning` makes of the same steps; None for workers of its own.
    """
    if workers is None:
        with Workers(steps.processes, {"align": aligning(steps)}, on_batch) as workers:
            yield from align_stream(steps, pairs, on_choice, on_batch, workers)
        return
    choices: tuple[Choice, ...] = ()
    encoded = ((pair, pair if choices else steps.encode(pair)) for pair in pairs)
    queue = InOrder(workers, "align", SLICE_WORDS)
    for chunk in error_last(chunks(encoded, steps.buffer, lambda item: item[0].memory())):
        if isinstance(chunk, Exception):
            queue.put_error(chunk)
            break
        items = [item for _, item in chunk]
        if not choices and (chosen := steps.choose(items)):
            choices = chosen.choices
            for doubt in chosen.doubts:
                warnings.warn(doubt, TextWarning, stacklevel=3)  # whoever asks for the next alignment
            if on_choice:
                on_choice(choices)
        queue.put([pair for pair, _ in chunk], items, choices)
        for pair, found in queue.ready():
            yield Alignment(pair, *found)
    for pair, found in queue.rest():
        yield Alignment(pair, *found)


def aligning(steps: Steps) -> Callable[..., list[Found | PairError]]:
    """The task of aligning a slice of pairs, encoded or not, read where a choice says."""
    return partial(_align, steps)


def _align(
    steps: Steps, items: Sequence[Any], choices: tuple[Choice, ...], on_batch: OnBatch | None
) -> list[Found | PairError]:
    encoded = [attempt(steps.encode, item) if isinstance(item, Pair) else item for item in items]
    found = iter(steps.align([one for one in encoded if not isinstance(one, PairError)], choices, on_batch))
    return [one if isinstance(one, PairError) else next(found) for one in encoded]


def attempt(do: Callable[[Pair], T], pair: Pair) -> T | PairError:
    """What comes out for a pair, or why nothing does."""
    try:
        return do(pair)
    except PairError as error:
        return error


def error_last(items: Iterator[T]) -> Iterator[T | Exception]:
    """Items, and where reading them raises any `Exception`, that as the last of them."""
    try:
        yield from items
    except Exception as error:
        yield error


class InOrder:
    """Buffers of which workers do a slice at a time; what comes out for each pair comes in the pairs' order.

    Args:
        workers: who do them.
        task: the name of what they do.
        words: in a slice, about.
    """

    def __init__(self, workers: Workers, task: str, words: int) -> None:
        self._workers, self._task, self._words = workers, task, words
        self._waiting: deque[tuple[Sequence[Pair], list[tuple[list[int], Job]]]] = deque()
        self._parts = 0
        self._error: Exception | None = None

    def put(self, pairs: Sequence[Pair], items: Sequence[Any], *more: Any) -> None:
        """Hand out a buffer.

        Args:
            pairs: the buffer.
            items: the same, as far as this process has prepared it; others take the pairs, which travel faster.
            more: what else the task takes.
        """
        parts = slices(pairs, self._words)
        self._parts += len(parts)
        if self._parts > 1:  # what is shorter than that is done before a process has started
            self._workers.share()
        given = pairs if self._workers.shared else items
        jobs = [(part, self._workers.submit(self._task, [given[n] for n in part], *more)) for part in parts]
        self._waiting.append((pairs, jobs))

    def put_error(self, error: Exception) -> None:
        """Raise this after all else."""
        self._error = error

    def ready(self) -> Iterator[tuple[Pair, Any]]:
        """Pairs and what came out for them, until more is to be read.

        Raises:
            PairError: what came out is this.
        """
        while self._waiting and (self._workers.busy or len(self._waiting) > self._workers.most):
            _, jobs = self._waiting[0]
            if self._workers.shared and not all(job.done for _, job in jobs):
                self._workers.hear()
            else:
                yield from self._first()

    def rest(self) -> Iterator[tuple[Pair, Any]]:
        """All that is left, and the error, if there is one."""
        while self._waiting:
            yield from self._first()
        if self._error:
            raise self._error

    def _first(self) -> Iterator[tuple[Pair, Any]]:
        pairs, jobs = self._waiting.popleft()
        outcomes: dict[int, Any] = {}
        for part, job in jobs:
            outcomes |= zip(part, self._workers.finish(job), strict=True)
        for n, pair in enumerate(pairs):
            if isinstance(outcomes[n], PairError):
                raise outcomes[n]
            yield pair, outcomes[n]
