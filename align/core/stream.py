"""A stream of pairs becomes a stream of results: buffers, slices, batches, and the pool that runs the work.

Memory does not grow with the input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from align.core.errors import LostItemError, PairError
from align.core.text import IdPair
from align.core.types import Alignment, Choice, Origin, Pair, Pieces

if TYPE_CHECKING:
    from align.core.backend import Recorder


T = TypeVar("T")

BUFFER = 2000  # pairs to read ahead, to sort them by length

BUFFER_BYTES = 1 << 28
"""Limit of the bytes to read ahead, except for a single pair: a small compressed file may hold very long lines."""

BATCH_TOKENS = 1000
"""Pieces in a batch, padding included: few enough that intermediate results stay in a processor's cache."""

GPU_BATCH_TOKENS = 16_000  # the same on a GPU; not measured

SPREAD = 1.2
"""Ratio of the longest to the shortest pair of a batch: attention to padding grows with the square of the length."""

SLICE_WORDS = 8000  # words of both sides in a slice of a buffer, which one process aligns at a time

SHARED_BUFFER = 500
"""Smallest buffer that is shared among processes; smaller buffers are for answers line by line."""

LONGEST_PIECE = 1000
"""Assumed limit of characters in a piece: longer text is rejected before segmentation, which takes up to 60 bytes of
memory per character.
"""

TooLong = Literal["stop", "blank"]

OnChoice = Callable[[tuple[Choice, ...]], None]
"""Receives the layers and heads that a text is read at, one for each direction."""

OnBatch = Callable[[int], None]
"""Receives the number of pairs that have passed through a model: a batch at a time, before their results come out."""

NumberedBatch = tuple[list[int], list[Pieces]]  # numbers of pairs in the buffer, and their pieces

BLANK = '‹too_long="blank"›'  # the argument that leaves lines that are too long without links


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


def encode(recorder: Recorder, pair: Pair, too_long: TooLong = "stop", names: SideNames | None = None) -> Encoded:
    """Return a pair with its pieces, if it has any and does not exceed the model's positions.

    A pair that exceeds them raises a PairError, or with "blank" it has no pieces.
    """
    if pair.blank:
        return Encoded(pair, None)
    file, line, limits = pair.origin.file, pair.origin.line or pair.id, recorder.max_positions
    if isinstance(pair, IdPair) or not (exceeds(pair.source, limits[0]) or exceeds(pair.target, limits[1])):
        try:
            pieces = recorder.encode(pair)
        except PairError as error:
            raise error.in_file(file, line) from None
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
    names = names or SideNames()
    side, n = (names.source, 0) if lengths[0] > limits[0] else (names.target, 1)
    if unit != "characters" and recorder.prompted:
        side, unit = "the pair with its prompt", "pieces"
    message = f"{side} has {lengths[n]:,} {unit}, {names.model} takes {limits[n]:,}"
    hint = f"shorten it, or leave such lines without links ({BLANK})"
    raise PairError(message, file=file, line=line, hint=hint)


def cut(encoded: Sequence[Encoded], tokens: int) -> Iterator[NumberedBatch]:
    """Yield a buffer in batches of similar length: numbers of pairs that have pieces, from 0, and these.

    A batch has at most `tokens` pieces, padding included.
    """
    numbers = [n for n, item in enumerate(encoded) if item.pieces]
    pieces = [item.pieces for item in encoded if item.pieces]
    for batch in batches([(len(item.source), len(item.target)) for item in pieces], tokens):
        yield [numbers[n] for n in batch], [pieces[n] for n in batch]


def chunks(items: Iterable[T], size: int, weigh: Callable[[T], int] | None = None) -> Iterator[list[T]]:
    """Cut a stream into lists of `size`; if reading raises an `Exception`, items before it come out first.

    A list of more than BUFFER_BYTES, by the bytes that `weigh` returns for an item, ends earlier, the next
    one where it would have ended.
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
    """Cut a buffer into slices of similar length and about so many words; batches depend on it alone.

    The numbers of the pairs, from 0, are ascending within each slice; no slice is empty. Pairs without words are in
    none.
    """
    lengths = [max(len(pair.source), len(pair.target)) for pair in pairs]
    order = sorted(filter(lengths.__getitem__, range(len(pairs))), key=lengths.__getitem__)
    ends = list(accumulate(len(pairs[n].source) + len(pairs[n].target) for n in order))
    count = max(1, round(ends[-1] / words)) if ends else 0
    parts: list[list[int]] = [[] for _ in range(count)]
    for n, end in zip(order, ends, strict=True):
        parts[(end * count - 1) // ends[-1]].append(n)
    return [sorted(numbers) for numbers in parts if numbers]


def batches(lengths: Sequence[tuple[int, int]], tokens: int) -> Iterator[list[int]]:
    """Cut items, given by the lengths of both sides, into batches: sorted by the longer side, then the other.

    Items times longest side are at most `tokens`; a longer item is a batch by itself.
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
    """Cut items into batches that need no padding at all, the shortest items first.

    Each item counts `times` as often, as in a beam search.
    """
    for length, group in groupby(sorted(range(len(lengths)), key=lengths.__getitem__), key=lengths.__getitem__):
        positions = list(group)
        for batch in batches([(length * times, 0)] * len(positions), tokens):
            yield [positions[n] for n in batch]


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

    `tasks` are given by name; those named first are run first.
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
Buffer = tuple[Sequence[Pair], tuple[Any, ...]]  # pairs, and further arguments of a task


def in_order(
    pool: Pool, task: str, words: int, buffers: Iterable[Buffer], judge: Callable[[Sequence[Pair]], None] | None = None
) -> Iterator[tuple[Pair, Any]]:
    """Have a pool process slices of so many words, and yield the pairs with their results, in order.

    Pairs without words are not processed: their result is None. If the result of a pair is a PairError, or reading
    raises an error, the results before it come out first. `judge` receives each buffer, which other processes have
    begun by then.
    """
    waiting: deque[tuple[Sequence[Pair], list[tuple[list[int], Job]]]] = deque()
    failure: Exception | None = None
    buffers, submitted, more = iter(buffers), 0, True
    while more:
        try:
            buffer = next(buffers, None)
        except Exception as error:
            buffer, failure = None, error
        more = buffer is not None
        if buffer:
            pairs, further = buffer
            parts = slices(pairs, words)
            submitted += len(parts)
            if submitted > 1:  # what is shorter than that is done before a process has started
                pool.share()
            jobs = [(part, pool.submit(task, [pairs[n] for n in part], *further)) for part in parts]
            waiting.append((pairs, jobs))
            if judge:
                judge(pairs)
        while waiting and (not more or pool.busy or len(waiting) > pool.max_buffers):
            if more and pool.shared and not all(job.done for _, job in waiting[0][1]):
                pool.hear()
                continue
            pairs, jobs = waiting.popleft()
            outcomes: dict[int, Any] = {}
            for part, job in jobs:
                outcomes |= zip(part, pool.finish(job), strict=True)
            for n, pair in enumerate(pairs):
                outcome = outcomes[n] if pair.source or pair.target else None
                if isinstance(outcome, PairError):
                    raise outcome.in_file(pair.origin.file, pair.origin.line or pair.id)
                yield pair, outcome
    if failure:
        raise failure


def attempt(do: Callable[[Pair], T], pair: Pair) -> T | PairError:
    """Return the result of a function for a pair, or the PairError that it raises."""
    try:
        return do(pair)
    except PairError as error:
        return error


def align_items(
    items: Iterable[T],
    pairs_of: Callable[[T], Sequence[Pair]],
    align: Callable[[Iterator[Pair]], Generator[Alignment, None, None]],
) -> Generator[tuple[T, list[Alignment]], None, None]:
    """Align the pairs of items, such as lines or pages, and yield each item with its alignments, in order.

    Each pair carries its item, which comes back with the alignment. An item without pairs sends a blank one.
    A LostItemError is raised where an alignment is missing, is left over, or is of another pair.
    """
    sent = done = 0

    def send() -> Iterator[Pair]:
        nonlocal sent
        for sent, item in enumerate(items, 1):
            pairs = pairs_of(item)
            for part, pair in enumerate(pairs or (Pair((), (), sent),)):
                file, line, error = pair.origin.file, pair.origin.line, pair.origin.error
                yield replace(pair, origin=Origin(file, line, error, (item, len(pairs)), part, sent))

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
