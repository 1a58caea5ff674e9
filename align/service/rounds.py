"""Pairs of many requests through one model, some at a time, in turn."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from align.core.types import Alignment, Pair
from align.service.limits import ROUND_PAIRS, ROUND_WAIT
from align.service.metrics import Metrics

Align = Callable[[Sequence[Pair]], Sequence[Alignment]]
"""Aligns pairs, each as if it were alone."""

ROUND_CHARACTERS = 32_000
"""A round is full with so many characters, too: otherwise long lines would keep short ones waiting for seconds."""

TURN = 16
"""Pairs of a request before it is the others' turn: small ones are done at once, and large ones keep nobody waiting."""

_log = logging.getLogger("align.service")


class QueueFullError(Exception):
    """There is no room for so many pairs now."""


class RoundsEndedError(Exception):
    """No pairs are aligned any more."""


@dataclass(eq=False)
class _Job:
    """The pairs of one request.

    Attributes:
        align: what is done to them.
        pairs: of the request.
        reply: what the request waits for; done already where its client has left.
        found: what came out for each; None for those that failed.
        begun: how many have been handed to the model.
        left: how many of all are still to come out.
    """

    align: Align
    pairs: Sequence[Pair]
    reply: asyncio.Future[list[Alignment | None]]
    found: list[Alignment | None] = field(default_factory=list)
    begun: int = 0
    left: int = 0


class Rounds:
    """A queue of bounded length, and the one thread in which models run.

    Args:
        most: pairs of all requests that may wait.
        metrics: where rounds are counted.

    Attributes:
        queued: pairs of requests that wait.
    """

    def __init__(self, most: int, metrics: Metrics) -> None:
        self._most, self._metrics = most, metrics
        self._waiting: deque[_Job] = deque()
        self._some = asyncio.Event()
        self._ended = False
        self._thread = ThreadPoolExecutor(1, "model")
        self.queued = 0

    async def align(self, align: Align, pairs: Sequence[Pair]) -> list[Alignment | None]:
        """Alignments of pairs, in order; None for a pair over which `align` failed. Cancelled, it leaves the queue.

        Raises:
            QueueFullError: there are too many before it.
            RoundsEndedError: nothing is aligned any more.
        """
        if not pairs:
            return []
        if self._ended:
            raise RoundsEndedError
        if self.queued + len(pairs) > self._most:
            raise QueueFullError
        reply: asyncio.Future[list[Alignment | None]] = asyncio.get_running_loop().create_future()
        job = _Job(align, pairs, reply, [None] * len(pairs), left=len(pairs))
        self._waiting.append(job)
        self.queued += len(pairs)
        self._some.set()
        try:
            return await reply
        finally:
            self.queued -= len(pairs)

    async def run(self) -> None:
        """Align what is in the queue, until this is cancelled or aligning raises what is no Exception."""
        loop = asyncio.get_running_loop()
        taken: list[tuple[_Job, int]] = []
        try:
            while True:
                await self._some.wait()
                if self.queued < ROUND_PAIRS:
                    await asyncio.sleep(ROUND_WAIT)
                if taken := self._take():
                    found = await loop.run_in_executor(self._thread, _align_all, taken)
                    self._hand_out(taken, found)
                else:
                    self._some.clear()
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
        """The next round: some pairs of each job in turn, until it is full; jobs that nobody waits for are dropped."""
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
                characters += sum(map(len, (*pair.source, *pair.target)))
                job.begun += 1
            if job.begun < end:
                self._waiting.appendleft(job)
            elif end < len(job.pairs):
                self._waiting.append(job)
        return taken

    def _hand_out(self, taken: Sequence[tuple[_Job, int]], found: Sequence[Alignment | None]) -> None:
        """Put what came out of a round where it is waited for."""
        self._metrics.rounds.inc()
        self._metrics.round_pairs.inc(len(taken))
        for (job, n), alignment in zip(taken, found, strict=True):
            job.found[n] = alignment
            job.left -= 1
            if not job.left and not job.reply.done():
                job.reply.set_result(job.found)


def _align_all(taken: Sequence[tuple[_Job, int]]) -> list[Alignment | None]:
    """What comes out of a round; pairs to which the same is done go through the model together."""
    found: list[Alignment | None] = [None] * len(taken)
    for align in {job.align for job, _ in taken}:
        numbers = [n for n, (job, _) in enumerate(taken) if job.align is align]
        pairs = [taken[n][0].pairs[taken[n][1]] for n in numbers]
        for n, alignment in zip(numbers, _attempt(align, pairs), strict=True):
            found[n] = alignment
    return found


def _attempt(align: Align, pairs: Sequence[Pair]) -> list[Alignment | None]:
    """Alignments; where that fails, of either half by itself, so that a pair's error is its own."""
    try:
        return [*align(pairs)]
    except Exception as error:
        if len(pairs) == 1:
            _log.error("a pair cannot be aligned: %s", type(error).__name__)  # whose message may quote the pair
            return [None]
    half = len(pairs) // 2
    return _attempt(align, pairs[:half]) + _attempt(align, pairs[half:])
