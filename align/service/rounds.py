"""Queue pairs of many requests, and run them through the models in batches, in turn."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
from starlette.exceptions import HTTPException

from align.core.types import Alignment, Pair
from align.io.session import Session

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

Result = list[Alignment] | None
"""Alignments of the sentences of a pair of a request, None if they failed."""

ROUND_PAIRS = 64
"""Maximum number of pairs in a batch of the model."""

ROUND_CHARACTERS = 32_000
"""Characters that fill a batch, too: otherwise long lines would delay short ones for seconds."""

ROUND_WAIT = 0.002
"""Seconds that the first pair of a batch waits for others."""

TURN = 16
"""Pairs of a request before the next request's turn: small requests finish at once, and large ones block none."""

_log = logging.getLogger("align.service")


def _ended() -> HTTPException:
    return HTTPException(503, "the service has failed and must be started again")


@dataclass(eq=False)
class _Job:
    """The pairs of one request.

    Attributes:
        session: aligns them.
        pairs: the sentences of each pair of the request: one, or any number if it is a text to translate.
        cost: characters that each character counts for.
        reply: future of the results; done already if its client has left.
        results: result of each pair.
        begun: number of pairs that have been handed to the model.
        left: number of pairs without a result yet.
    """

    session: Session
    pairs: Sequence[Sequence[Pair]]
    cost: int
    reply: asyncio.Future[list[Result]]
    results: list[Result]
    begun: int
    left: int


class Rounds:
    """A queue of bounded length, and the one thread in which models run.

    Args:
        capacity: maximum number of pairs of all requests in the queue.
    """

    def __init__(self, capacity: int, metrics: Metrics) -> None:
        self._capacity, self._metrics = capacity, metrics
        self._waiting: deque[_Job] = deque()
        self._arrived = asyncio.Event()
        self._ended = False
        self._thread = ThreadPoolExecutor(1, "model")
        self.queued = 0

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread of the models.

        Raises:
            HTTPException: the worker has stopped.
        """
        if self._ended:
            raise _ended()
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def align(self, session: Session, pairs: Sequence[Sequence[Pair]], cost: int = 1) -> list[Result]:
        """Return alignments of the sentences of pairs, in order. A cancelled request leaves the queue.

        Args:
            cost: characters that each character of these pairs counts for in a batch.

        Raises:
            HTTPException: the queue has no room for the pairs, or the worker has stopped.
        """
        if not pairs:
            return []
        if self._ended:
            raise _ended()
        if self.queued + len(pairs) > self._capacity:
            raise HTTPException(429, "too many pairs are waiting", {"Retry-After": "1"})
        reply: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Job(session, pairs, cost, reply, [None] * len(pairs), 0, len(pairs)))
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
                if not (taken := self._take()):
                    self._arrived.clear()
                    continue
                await loop.run_in_executor(self._thread, _align_all, taken)
                self._metrics.rounds.inc()
                self._metrics.round_pairs.inc(len(taken))
                for job, _ in taken:
                    job.left -= 1
                    if not job.left and not job.reply.done():
                        job.reply.set_result(job.results)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            _log.critical("%s: nothing is aligned any more; start the service again", type(error).__name__)
            self._ended = True
            for job in {*self._waiting, *(job for job, _ in taken)}:
                if not job.reply.done():
                    job.reply.set_exception(_ended())
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
                sentences = job.pairs[job.begun]
                taken.append((job, job.begun))
                characters += job.cost * sum(len(word) for pair in sentences for word in (*pair.source, *pair.target))
                job.begun += 1
            if job.begun < end:
                self._waiting.appendleft(job)
            elif end < len(job.pairs):
                self._waiting.append(job)
        return taken


def _align_all(taken: Sequence[tuple[_Job, int]]) -> None:
    """Align a batch; pairs of the same session go through the model together."""
    for session in {job.session for job, _ in taken}:
        chosen = [(job, n) for job, n in taken if job.session is session]
        results = _attempt(session, [job.pairs[n] for job, n in chosen])
        for (job, n), result in zip(chosen, results, strict=True):
            job.results[n] = result


def _attempt(session: Session, pairs: Sequence[Sequence[Pair]]) -> list[Result]:
    """Align pairs; on an error align each half separately, so that only the pair that causes it fails."""
    try:
        return [alignments for _, alignments in session.results(pairs, lambda sentences: sentences)]
    except Exception as error:
        if len(pairs) == 1:
            _log.error("a pair cannot be aligned: %s", type(error).__name__)  # its message may quote the pair
            return [None]
    half = len(pairs) // 2
    return _attempt(session, pairs[:half]) + _attempt(session, pairs[half:])
