"""A stream of pairs becomes a stream of alignments: buffers, slices of them, batches, and the pool that runs the work.

Memory does not grow with the input.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from align.core.errors import LostItemError, PairError
from align.core.text import IdPair
from align.core.types import (
    NOWHERE,
    Agreement,
    Alignment,
    Choice,
    LinkScores,
    Pair,
    Pieces,
    Skipped,
    TextWarning,
)

if TYPE_CHECKING:
    from align.core.backend import Recorder


T = TypeVar("T")

BUFFER = 2000
"""Pairs to read ahead, to sort them by length."""

BUFFER_BYTES = 1 << 28
"""Limit of the bytes to read ahead, except for a single pair: a small compressed file may hold very long lines."""

BATCH_TOKENS = 1000
"""Pieces in a batch, padding included: few enough that intermediate results stay in a processor's cache."""

GPU_BATCH_TOKENS = 16_000
"""The same on a GPU; not measured."""

SPREAD = 1.2
"""Ratio of the longest to the shortest pair of a batch: attention to padding grows with the square of the length."""

SLICE_WORDS = 8000
"""Words of both sides in a slice of a buffer, which one process aligns at a time."""

SHARED_BUFFER = 500
"""Smallest buffer that is shared among processes; smaller buffers are for answers line by line."""

LONGEST_PIECE = 1000
"""Assumed limit of characters in a piece: longer text is rejected before segmentation, which takes up to 60 bytes of
memory per character.
"""

TooLong = Literal["stop", "blank"]

OnBatch = Callable[[int], None]
"""Receives the number of pairs that have passed through a model: a batch at a time, before their results come out."""

BLANK = '‹too_long="blank"›'
"""The argument that leaves lines that are too long without links."""


@dataclass(frozen=True, slots=True)
class SideNames:
    """Names of a model and its two sides in messages, as the user sees them."""

    model: str = "the model"
    source: str = "source"
    target: str = "target"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A pair and its pieces; None where there is nothing to align or too much, as `skipped` says."""

    pair: Pair
    pieces: Pieces | None
    skipped: Literal["", "too long"] = ""


def exceeds(words: Sequence[str], pieces: int) -> bool:
    """Tell whether words have more characters than this number of pieces can hold."""
    return sum(map(len, words)) > LONGEST_PIECE * pieces


def encode(recorder: Recorder, pair: Pair, too_long: TooLong = "stop", terms: SideNames | None = None) -> Encoded:
    """Return a pair with its pieces, if it has any and does not exceed the model's positions.

    Args:
        too_long: "stop" raises for a pair that exceeds them, "blank" returns it without pieces.

    Raises:
        PairError: too many pieces, or ids outside the model's vocabulary; names the file and the line of the pair.
    """
    if pair.blank:
        return Encoded(pair, None)
    limits = recorder.max_positions
    if isinstance(pair, IdPair) or not (exceeds(pair.source, limits[0]) or exceeds(pair.target, limits[1])):
        try:
            pieces = recorder.encode(pair)
        except PairError as error:
            raise error.in_file(pair.origin.file, pair.origin.line or pair.id) from None
        if not pieces.target or max(pieces.source_words) < 0:
            return Encoded(pair, None)
        unit, lengths = "pieces with </s>", (len(pieces.source), len(pieces.target) + 1)
        if lengths[0] <= limits[0] and lengths[1] <= limits[1]:
            return Encoded(pair, pieces)
    else:
        unit, lengths = "characters", (sum(map(len, pair.source)), sum(map(len, pair.target)))
        limits = LONGEST_PIECE * limits[0], LONGEST_PIECE * limits[1]
    if too_long == "blank":
        return Encoded(pair, None, "too long")
    terms = terms or SideNames()
    side, length, limit = next(
        side for side in zip((terms.source, terms.target), lengths, limits, strict=True) if side[1] > side[2]
    )
    if unit != "characters" and getattr(recorder, "prompted", False):
        side, unit = "the pair with its prompt", "pieces"
    hint = f"shorten it, or leave such lines without links ({BLANK})"
    message = f"{side} has {length:,} {unit}, {terms.model} takes {limit:,}"
    raise PairError(message, file=pair.origin.file, line=pair.origin.line or pair.id, hint=hint)


def cut(encoded: Sequence[Encoded], tokens: int) -> Iterator[tuple[list[int], list[Pieces]]]:
    """Yield the encoded pairs of a buffer in batches of similar length, without those that have no pieces.

    Args:
        tokens: pieces in a batch, padding included.

    Yields:
        Numbers of the pairs in the buffer, from 0, and their pieces.
    """
    numbers = [n for n, item in enumerate(encoded) if item.pieces]
    pieces = [item.pieces for item in encoded if item.pieces]
    for batch in batches([(len(item.source), len(item.target)) for item in pieces], tokens):
        yield [numbers[n] for n in batch], [pieces[n] for n in batch]


def tell(
    batches: Iterable[tuple[list[int], list[Pieces]]], on_batch: OnBatch | None
) -> Iterator[tuple[list[int], list[Pieces]]]:
    """Yield batches, and report the number of pairs of each once it is done."""
    for numbers, batch in batches:
        yield numbers, batch
        if on_batch:
            on_batch(len(numbers))


def chunks(items: Iterable[T], size: int, weigh: Callable[[T], int] | None = None) -> Iterator[list[T]]:
    """Cut a stream into lists. If reading raises an `Exception`, the items before it come out first.

    Args:
        size: items in a list; a list of more than BUFFER_BYTES ends earlier, the next one where it would have ended.
        weigh: returns the bytes of an item; None where all items are small.
    """
    chunk: list[T] = []
    weight = 0
    try:
        for number, item in enumerate(items, 1):
            chunk.append(item)
            weight += weigh(item) if weigh else 0
            if number % size == 0 or weight > BUFFER_BYTES:
                yield chunk
                chunk, weight = [], 0
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def slices(pairs: Sequence[Pair], words: int) -> list[list[int]]:
    """Cut a buffer into slices of similar length and cost, so that batches depend on the buffer alone.

    Args:
        words: approximate number of words of both sides in a slice.

    Returns:
        Numbers of the pairs, from 0, in ascending order within each slice; no slice is empty.
    """
    order = sorted(range(len(pairs)), key=lambda n: max(len(pairs[n].source), len(pairs[n].target)))
    ends = list(accumulate(len(pairs[n].source) + len(pairs[n].target) for n in order))
    count = max(1, round(ends[-1] / words)) if ends else 0
    parts: list[list[int]] = [[] for _ in range(count)]
    for n, end in zip(order, ends, strict=True):
        parts[max(0, end * count - 1) // max(1, ends[-1])].append(n)
    return [sorted(numbers) for numbers in parts if numbers]


def batches(lengths: Sequence[tuple[int, int]], tokens: int) -> Iterator[list[int]]:
    """Cut items into batches of similar length: sorted by the longer side, then by the other.

    Args:
        lengths: source and target length of each item, in pieces.
        tokens: limit of items times longest side. A longer item is a batch by itself.

    Yields:
        Positions in `lengths`; every position once.
    """
    sides = [(source, target) if source > target else (target, source) for source, target in lengths]
    batch: list[int] = []
    limit = 0
    for position in sorted(range(len(sides)), key=sides.__getitem__):
        longest = sides[position][0]
        if batch and (longest > limit or (len(batch) + 1) * longest > tokens):
            yield batch
            batch = []
        if not batch:
            limit = int(longest * SPREAD) + 2
        batch.append(position)
    if batch:
        yield batch


def of_one_length(lengths: Sequence[int], tokens: int, times: int = 1) -> Iterator[list[int]]:
    """Cut items into batches that need no padding at all.

    Args:
        tokens: the most that a batch may hold.
        times: how often each item counts, as in a beam search.

    Yields:
        Positions in `lengths`, of items of the same length; every position once, the shortest items first.
    """
    for length, group in groupby(sorted(range(len(lengths)), key=lengths.__getitem__), key=lengths.__getitem__):
        positions = list(group)
        for batch in batches([(length * times, 0)] * len(positions), tokens):
            yield [positions[n] for n in batch]


OnChoice = Callable[[tuple[Choice, ...]], None]
"""Receives the layers and heads that a text is read at, one for each direction."""

PairResult = tuple[LinkScores, Skipped, Agreement | None]
"""Links, reason and agreement of an alignment, without its pair."""


class Selection(NamedTuple):
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

    def hear(self, timeout: float | None = None) -> Sequence[Job]:
        """Wait for a message of another process, and return the jobs that are done."""
        return ()


OpenPool = Callable[[Mapping[str, Task], OnBatch | None], Pool]


class Steps(NamedTuple):
    """What an aligner does with a buffer of pairs.

    Attributes:
        encode: returns a pair with its pieces.
        choose: returns layer and head for encoded pairs, the first of a text; None where no pair has pieces.
        align: returns links and status of encoded pairs.
        buffer: pairs to read ahead.
        pool: opens what runs the steps.
        choices: layer and head of a part of a text, which is neither chosen for nor judged; empty for a whole text.
    """

    encode: Callable[[Pair], Any]
    choose: Callable[[Sequence[Any]], Selection | None]
    align: Callable[[Sequence[Any], tuple[Choice, ...], OnBatch | None], list[PairResult]]
    buffer: int
    pool: OpenPool
    choices: tuple[Choice, ...] = ()


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
    choices = steps.choices
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
                warnings.warn(doubt, TextWarning, stacklevel=3)  # the caller of the next alignment
            if on_choice:
                on_choice(choices)
        queue.put([pair for pair, _ in chunk], items, choices)
        yield from (_alignment(*outcome) for outcome in queue.ready())
    yield from (_alignment(*outcome) for outcome in queue.rest())


def _alignment(pair: Pair, found: PairResult) -> Alignment:
    scores, skipped, agreement = found
    error = pair.origin.error
    return Alignment(pair, scores, error.reason if error else skipped, agreement)


def align_items(
    items: Iterable[T],
    pairs_of: Callable[[T], Sequence[Pair]],
    align: Callable[[Iterator[Pair]], Generator[Alignment, None, None]],
) -> Generator[tuple[T, list[Alignment]], None, None]:
    """Align the pairs of items, and yield each item with its alignments, in order; none is lost in silence.

    Each pair carries its item, which comes back with the alignment. An item without pairs sends a blank one.

    Args:
        items: lines, segments, pages, rows: whatever has pairs.
        pairs_of: returns the pairs of an item.
        align: aligns a stream of pairs, one alignment for each, whose pair has the same origin.

    Yields:
        Each item, with as many alignments as it has pairs.

    Raises:
        LostItemError: an alignment is missing, is left over, or is of another pair.
    """
    sent = done = 0

    def send() -> Iterator[Pair]:
        nonlocal sent
        for sent, item in enumerate(items, 1):
            pairs = pairs_of(item)
            for part, pair in enumerate(pairs or (Pair((), (), sent),)):
                carried = replace(pair.origin, item=(item, len(pairs)), part=part, number=sent)
                yield replace(pair, origin=carried)

    with closing(align(send())) as alignments:
        received: list[Alignment] = []
        for alignment in alignments:
            origin = alignment.pair.origin
            if (origin.number, origin.part) != (done + 1, len(received)):
                came = f"the result of part {origin.part + 1} of item {origin.number:,}"
                raise LostItemError(done, f"{came} comes in place of part {len(received) + 1} of item {done + 1:,}")
            received.append(alignment)
            item, parts = origin.item
            if len(received) == max(1, parts):
                done += 1
                yield item, received[:parts]
                received = []
    if done < sent:
        raise LostItemError(done, f"the results of {sent - done:,} more are missing")


def aligning(steps: Steps) -> Callable[..., list[PairResult | PairError]]:
    """Return the task of aligning a slice of pairs, encoded or not, with the given choices."""
    return partial(_align, steps)


def _align(
    steps: Steps, items: Sequence[Any], choices: tuple[Choice, ...], on_batch: OnBatch | None
) -> list[PairResult | PairError]:
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
        # What a pair carries stays here: other processes get its words only.
        arguments = [replace(pair, origin=NOWHERE) for pair in pairs] if self._pool.shared else items
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
                raise outcomes[n].in_file(pair.origin.file, pair.origin.line or pair.id)
            yield pair, outcomes[n]
