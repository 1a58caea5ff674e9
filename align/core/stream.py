"""Turns a stream of pairs into a stream of alignments: buffers, slices of them, and the pool that processes these."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from align.core.batching import SLICE_WORDS, OnBatch, chunks, slices
from align.core.errors import PairError
from align.core.extraction import LinkScores
from align.core.types import Alignment, Choice, Pair, Skipped, TextWarning

T = TypeVar("T")

OnChoice = Callable[[tuple[Choice, ...]], None]
"""Receives the layers and heads that a text is read at, one for each direction."""

Found = tuple[LinkScores, Skipped]
"""The links of a pair, and why it was skipped."""


class Chosen(NamedTuple):
    """Layer and head of each direction, and warnings about the text."""

    choices: tuple[Choice, ...]
    doubts: Sequence[str]


Task = Callable[..., list[Any]]
"""Processes a slice of the text: takes what was submitted and, as its last argument, `on_batch`."""


@dataclass(eq=False)
class Job:
    """A task with its arguments, and its outcomes once it is done."""

    task: str
    arguments: tuple[Any, ...]
    outcomes: list[Any] = field(default_factory=list)
    error: Exception | None = None
    done: bool = False


class Pool:
    """Runs jobs in this process, when their outcomes are asked for; a subclass may run them in others.

    Args:
        tasks: by name; those named first are run first.
    """

    shared = False

    def __init__(self, tasks: Mapping[str, Task], on_batch: OnBatch | None) -> None:
        self._tasks, self._on_batch = tasks, on_batch

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        """End all processes."""

    @property
    def busy(self) -> bool:
        """Whether it has enough jobs; one process always has."""
        return True

    @property
    def max_buffers(self) -> int:
        """Buffers that may be under way at a time."""
        return 2

    def share(self) -> None:
        """Run all jobs from here on in other processes, if there are any."""

    def submit(self, task: str, *arguments: Any) -> Job:
        """Take a job, which is done before `finish` returns."""
        return Job(task, arguments)

    def finish(self, job: Job) -> list[Any]:
        """Return the outcomes of a job, or raise its exception."""
        return self._tasks[job.task](*job.arguments, self._on_batch)

    def hear(self, timeout: float | None = None) -> None:
        """Wait for a message of another process."""


OpenPool = Callable[[Mapping[str, Task], OnBatch | None], Pool]


class Steps(NamedTuple):
    """What an aligner does with a buffer of pairs.

    Attributes:
        encode: returns a pair with its pieces.
        choose: returns layer and head for encoded pairs, the first of a text; None where no pair has pieces.
        align: returns links and status of encoded pairs.
        buffer: pairs to read ahead.
        pool: opens what runs the steps.
    """

    encode: Callable[[Pair], Any]
    choose: Callable[[Sequence[Any]], Chosen | None]
    align: Callable[[Sequence[Any], tuple[Choice, ...], OnBatch | None], list[Found]]
    buffer: int
    pool: OpenPool


def align_stream(
    steps: Steps,
    pairs: Iterable[Pair],
    on_choice: OnChoice | None,
    on_batch: OnBatch | None,
    pool: Pool | None = None,
) -> Generator[Alignment, None, None]:
    """Yield one alignment for each pair, in order; see `Aligner.__call__`.

    Args:
        pool: has the task `aligning(steps)` under the name "align"; None opens the pool of the steps.
    """
    if pool is None:
        with steps.pool({"align": aligning(steps)}, on_batch) as pool:
            yield from align_stream(steps, pairs, on_choice, on_batch, pool)
        return
    choices: tuple[Choice, ...] = ()
    encoded = ((pair, pair if choices else steps.encode(pair)) for pair in pairs)
    queue = InOrder(pool, "align", SLICE_WORDS)
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
        for pair, links_and_status in queue.ready():
            yield Alignment(pair, *links_and_status)
    for pair, links_and_status in queue.rest():
        yield Alignment(pair, *links_and_status)


def aligning(steps: Steps) -> Callable[..., list[Found | PairError]]:
    """Return the task of aligning a slice of pairs, encoded or not, with the given choices."""
    return partial(_align, steps)


def _align(
    steps: Steps, items: Sequence[Any], choices: tuple[Choice, ...], on_batch: OnBatch | None
) -> list[Found | PairError]:
    encoded = [attempt(steps.encode, item) if isinstance(item, Pair) else item for item in items]
    results = iter(
        steps.align([element for element in encoded if not isinstance(element, PairError)], choices, on_batch)
    )
    return [element if isinstance(element, PairError) else next(results) for element in encoded]


def attempt(do: Callable[[Pair], T], pair: Pair) -> T | PairError:
    """Return the result of a function for a pair, or the PairError that it raises."""
    try:
        return do(pair)
    except PairError as error:
        return error


def error_last(items: Iterator[T]) -> Iterator[T | Exception]:
    """Yield items and, if reading them raises an `Exception`, this as the last item."""
    try:
        yield from items
    except Exception as error:
        yield error


class InOrder:
    """Cuts buffers into slices, has a pool process them, and yields the results in the order of the pairs.

    Args:
        words: approximate number of words in a slice.
    """

    def __init__(self, pool: Pool, task: str, words: int) -> None:
        self._pool, self._task, self._words = pool, task, words
        self._waiting: deque[tuple[Sequence[Pair], list[tuple[list[int], Job]]]] = deque()
        self._parts = 0
        self._error: Exception | None = None

    def put(self, pairs: Sequence[Pair], items: Sequence[Any], *more: Any) -> None:
        """Submit a buffer.

        Args:
            items: the same pairs, as far as this process has prepared them; other processes get the smaller `pairs`.
        """
        parts = slices(pairs, self._words)
        self._parts += len(parts)
        if self._parts > 1:  # what is shorter than that is done before a process has started
            self._pool.share()
        arguments = pairs if self._pool.shared else items
        jobs = [(part, self._pool.submit(self._task, [arguments[n] for n in part], *more)) for part in parts]
        self._waiting.append((pairs, jobs))

    def put_error(self, error: Exception) -> None:
        """Raise this error after all results."""
        self._error = error

    def ready(self) -> Iterator[tuple[Pair, Any]]:
        """Yield pairs with their results until the pool needs more work.

        Raises:
            PairError: the result of a pair is this error.
        """
        while self._waiting and (self._pool.busy or len(self._waiting) > self._pool.max_buffers):
            _, jobs = self._waiting[0]
            if self._pool.shared and not all(job.done for _, job in jobs):
                self._pool.hear()
            else:
                yield from self._first()

    def rest(self) -> Iterator[tuple[Pair, Any]]:
        """Yield all remaining results, then raise the error, if there is one."""
        while self._waiting:
            yield from self._first()
        if self._error:
            raise self._error

    def _first(self) -> Iterator[tuple[Pair, Any]]:
        pairs, jobs = self._waiting.popleft()
        outcomes: dict[int, Any] = {}
        for part, job in jobs:
            outcomes |= zip(part, self._pool.finish(job), strict=True)
        for n, pair in enumerate(pairs):
            if isinstance(outcomes[n], PairError):
                raise outcomes[n]
            yield pair, outcomes[n]
