"""Queue pairs of many requests, and run them through the models in batches, in turn."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from align.core.stream import align_items
from align.core.types import Alignment, Pair
from align.service.limits import ROUND_PAIRS, ROUND_WAIT

disable_created_metrics()  # a time of creation for each counter, which nothing reads


class Metrics:
    """Counters since the start.

    Attributes:
        requests: answered requests, by path and status code; unknown paths share one label, which bounds their number.
        seconds: from a request's head to its answer.
        pairs: answered pairs, by status.
        rounds: batches of the model.
        round_pairs: pairs in them.
        queued: pairs in the queue.
    """

    def __init__(self, queue_pairs: int) -> None:
        self._registry = registry = CollectorRegistry()
        description = "Requests answered; code 499: the client had left."
        self.requests = Counter("extract_align_requests", description, ["path", "code"], registry=registry)
        description = "Seconds from a request's head to its answer."
        self.seconds = Histogram("extract_align_request_seconds", description, registry=registry)
        self.pairs = Counter("extract_align_pairs", "Pairs answered, by status.", ["status"], registry=registry)
        self.rounds = Counter("extract_align_rounds", "Rounds of the model.", registry=registry)
        self.round_pairs = Counter("extract_align_round_pairs", "Pairs in them.", registry=registry)
        self.queued = Gauge("extract_align_queue_pairs", "Pairs that wait for links.", registry=registry)
        limit = Gauge("extract_align_queue_limit_pairs", "How many may.", registry=registry)
        limit.set(queue_pairs)
        ProcessCollector(registry=registry)

    def text(self) -> str:
        """Return all counters in the text format 0.0.4."""
        text: str = generate_latest(self._registry).decode()
        return text


T = TypeVar("T")

Align = Callable[[Sequence[Pair]], Sequence[Alignment]]
"""Aligns pairs, each independently of the others."""

ROUND_CHARACTERS = 32_000
"""Characters that fill a batch, too: otherwise long lines would delay short ones for seconds."""

TURN = 16
"""Pairs of a request before the next request's turn: small requests finish at once, and large ones block none."""

_log = logging.getLogger("align.service")


class QueueFullError(Exception):
    """The queue has no room for the pairs of a request."""


class RoundsEndedError(Exception):
    """The worker has stopped, and no more pairs are aligned."""


@dataclass(eq=False)
class _Job:
    """The pairs of one request.

    Attributes:
        align: function that aligns them.
        pairs: pairs of the request.
        cost: characters that each character counts for.
        reply: future of the result; done already if its client has left.
        alignments: alignment of each pair; None for failed ones.
        begun: number of pairs that have been handed to the model.
        left: number of pairs without a result yet.
    """

    align: Align
    pairs: Sequence[Pair]
    cost: int
    reply: asyncio.Future[list[Alignment | None]]
    alignments: list[Alignment | None] = field(default_factory=list)
    begun: int = 0
    left: int = 0


class Rounds:
    """A queue of bounded length, and the one thread in which models run.

    Args:
        most: maximum number of pairs of all requests in the queue.
    """

    def __init__(self, most: int, metrics: Metrics) -> None:
        self._capacity, self._metrics = most, metrics
        self._waiting: deque[_Job] = deque()
        self._arrived = asyncio.Event()
        self._ended = False
        self._thread = ThreadPoolExecutor(1, "model")
        self.queued = 0

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread of the models.

        Raises:
            RoundsEndedError: the worker has stopped.
        """
        if self._ended:
            raise RoundsEndedError
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def align(self, align: Align, pairs: Sequence[Pair], cost: int = 1) -> list[Alignment | None]:
        """Return alignments of pairs, in order; None where `align` failed. A cancelled request leaves the queue.

        Args:
            cost: characters that each character of these pairs counts for in a batch.

        Raises:
            QueueFullError: the queue has no room for the pairs.
            RoundsEndedError: the worker has stopped.
        """
        if not pairs:
            return []
        if self._ended:
            raise RoundsEndedError
        if self.queued + len(pairs) > self._capacity:
            raise QueueFullError
        reply: asyncio.Future[list[Alignment | None]] = asyncio.get_running_loop().create_future()
        job = _Job(align, pairs, cost, reply, [None] * len(pairs), left=len(pairs))
        self._waiting.append(job)
        self.queued += len(pairs)
        self._arrived.set()
        try:
            return await reply
        finally:
            self.queued -= len(pairs)

    async def run(self) -> None:
        """Align the pairs in the queue, until this is cancelled or aligning raises anything but an Exception."""
        loop = asyncio.get_running_loop()
        taken: list[tuple[_Job, int]] = []
        try:
            while True:
                await self._arrived.wait()
                if self.queued < ROUND_PAIRS:
                    await asyncio.sleep(ROUND_WAIT)
                if taken := self._take():
                    alignments = await loop.run_in_executor(self._thread, _align_all, taken)
                    self._hand_out(taken, alignments)
                else:
                    self._arrived.clear()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            _log.critical("%s: nothing is aligned any more; start the service again", type(error).__name__)
            self._ended = True
            for job in {*self._waiting, *(job for job, _ in taken)}:
                if not job.reply.done():
                    job.reply.set_exception(RoundsEndedError())
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _take(self) -> list[tuple[_Job, int]]:
        """Return the next batch: some pairs of each job in turn, until it is full; abandoned jobs are dropped."""
        taken: list[tuple[_Job, int]] = []
        characters = 0
        while self._waiting and len(taken) < ROUND_PAIRS and characters < ROUND_CHARACTERS:
            job = self._waiting.popleft()
            if job.reply.done():
                continue
            end = min(job.begun + TURN, len(job.pairs))
            while job.begun < end and len(taken) < ROUND_PAIRS and characters < ROUND_CHARACTERS:
                pair = job.pairs[job.begun]
                taken.append((job, job.begun))
                characters += job.cost * sum(map(len, (*pair.source, *pair.target)))
                job.begun += 1
            if job.begun < end:
                self._waiting.appendleft(job)
            elif end < len(job.pairs):
                self._waiting.append(job)
        return taken

    def _hand_out(self, taken: Sequence[tuple[_Job, int]], alignments: Sequence[Alignment | None]) -> None:
        """Store the alignments of a batch in their jobs, and reply to finished ones."""
        self._metrics.rounds.inc()
        self._metrics.round_pairs.inc(len(taken))
        for (job, n), alignment in zip(taken, alignments, strict=True):
            job.alignments[n] = alignment
            job.left -= 1
            if not job.left and not job.reply.done():
                job.reply.set_result(job.alignments)


def _align_all(taken: Sequence[tuple[_Job, int]]) -> list[Alignment | None]:
    """Align a batch; pairs with the same `align` go through the model together."""
    alignments: list[Alignment | None] = [None] * len(taken)
    for align in {job.align for job, _ in taken}:
        numbers = [n for n, (job, _) in enumerate(taken) if job.align is align]
        pairs = [taken[n][0].pairs[taken[n][1]] for n in numbers]
        for n, alignment in zip(numbers, _attempt(align, pairs), strict=True):
            alignments[n] = alignment
    return alignments


def _attempt(align: Align, pairs: Sequence[Pair]) -> list[Alignment | None]:
    """Align pairs; on an error align each half separately, so that only the pair that causes it fails."""
    try:
        aligned = align_items(pairs, lambda pair: [pair], lambda sent: (alignment for alignment in align([*sent])))
        return [alignment for _, (alignment,) in aligned]
    except Exception as error:
        if len(pairs) == 1:
            _log.error("a pair cannot be aligned: %s", type(error).__name__)  # its message may quote the pair
            return [None]
    half = len(pairs) // 2
    return _attempt(align, pairs[:half]) + _attempt(align, pairs[half:])
