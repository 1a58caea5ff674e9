"""Queue pairs of many requests, and run them through the models in batches, in turn."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.exceptions import HTTPException

from align.core.types import Alignment, Pair
from align.io.session import Session
from align.service.gate import Metrics

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


@dataclass(eq=False)
class _Job:
    """The pairs of one request, of which `begun` have been handed to the model; `reply` is done if its client left."""

    session: Session
    pairs: Sequence[Sequence[Pair]]
    cost: int
    reply: asyncio.Future[list[Result]]
    results: dict[int, Result] = field(default_factory=dict)
    begun: int = 0


class Rounds:
    """A queue of bounded length, and the one thread in which models run.

    Args:
        capacity: maximum number of pairs of all requests in the queue.
    """

    def __init__(self, capacity: int, metrics: Metrics) -> None:
        self._capacity, self._metrics = capacity, metrics
        self._waiting: deque[_Job] = deque()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "model")
        self._failed: HTTPException | None = None
        self.queued = 0

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread of the models."""
        if self._failed:
            raise self._failed
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def align(self, session: Session, pairs: Sequence[Sequence[Pair]], cost: int = 1) -> list[Result]:
        """Return alignments of the sentences of pairs, in order. A cancelled request leaves the queue.

        Args:
            cost: characters that each character of these pairs counts for in a batch.
        """
        if self._failed:
            raise self._failed
        if not pairs:
            return []
        if self.queued + len(pairs) > self._capacity:
            raise HTTPException(429, "too many pairs are waiting", {"Retry-After": "1"})
        job = _Job(session, pairs, cost, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self.queued += len(pairs)
        self._arrived.set()
        try:
            return await job.reply
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
                for job in {job for job, _ in taken}:
                    if len(job.results) == len(job.pairs) and not job.reply.done():
                        job.reply.set_result([job.results[n] for n in range(len(job.pairs))])
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            _log.critical("%s: nothing is aligned any more; start the service again", type(error).__name__)
            self._failed = HTTPException(503, "the service has failed and must be started again")
            for job in {*self._waiting, *(job for job, _ in taken)}:
                if not job.reply.done():
                    job.reply.set_exception(self._failed)
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
